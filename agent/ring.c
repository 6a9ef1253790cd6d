/* Attaching to the recorder's file and writing records into the claimed ring. */
#include "agent.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/prctl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

_Thread_local struct nf_thread nf_self __attribute__((tls_model("initial-exec")));
struct nf_process nf_process = {.min_object = SIZE_MAX};

/* A private page that the kernel empties in the child of every fork, also of a
 * clone() that runs no fork handlers: such a child must not write into its
 * parent's ring. Where the kernel cannot do that (before 4.14), the fork handler
 * empties it. */
static _Atomic uint32_t *alive;
static char file_path[PATH_MAX];
static atomic_flag lock = ATOMIC_FLAG_INIT;
/* A wait for room has failed: drop at once until there is room again. */
static _Atomic bool stalled;
/* Bytes of the ring that are surely in memory; under the lock. */
static size_t in_memory;
/* Of the last record; under the lock. */
static uint64_t last_time;
static bool last_words;
static uint64_t last_words_until;

static const uint64_t WAIT_FOR_ROOM_NS = 4000000;
static const uint64_t WAIT_AT_EXIT_NS = 500000000;
static const uint64_t WAIT_FOR_LOCK_NS = 20000000;
static const uint64_t WAIT_FOR_SEGMENT_NS = 5000000;

typedef int clock_function(clockid_t, struct timespec *);
static clock_function *library_clock;

/* The C library's: it reads the clock without a system call where the kernel has one to read. */
void nf_clock_init(void) {
    void *f = nf_symbol("clock_gettime");
    memcpy(&library_clock, &f, sizeof library_clock);
}

/* A thread that nobody of us started may have inherited that it is forbidden, and so may a new image. */
static bool counter_allowed(void) {
    if (UNLIKELY(nf_self.counter == NF_COUNTER_UNASKED)) {
        int state = PR_TSC_ENABLE;
        if (nf_quiet()) return false;
        /* Where the kernel does not know the question nothing is forbidden. */
        bool forbidden = nf_sys(SYS_prctl, PR_GET_TSC, &state) == 0 && state == PR_TSC_SIGSEGV;
        nf_self.counter = forbidden ? NF_COUNTER_FORBIDDEN : NF_COUNTER_ALLOWED;
    }
    return LIKELY(nf_self.counter == NF_COUNTER_ALLOWED);
}

bool nf_has_clock(void) { return counter_allowed() || !nf_quiet(); }

uint64_t nf_now(clockid_t clock) {
    struct timespec t = {0};
    if (LIKELY(library_clock != NULL && counter_allowed())) library_clock(clock, &t);
    else if (!nf_quiet()) nf_sys(SYS_clock_gettime, clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void nf_yield(void) {
    if (!nf_quiet()) nf_sys(SYS_sched_yield);
    else nf_pause();
}

/* In a PID namespace of the program's own our numbers are not the recorder's. The /proc through which we have found
 * the recorder's file is one that shows the recorder, so its links have numbers that the recorder knows. The last
 * number of a link there; 0 if there is none. */
static uint32_t number_in(const char *link) {
    char text[64];
    long length = nf_sys(SYS_readlinkat, AT_FDCWD, link, text, sizeof text - 1);
    if (length <= 0) return 0;
    text[length] = 0;
    const char *at = text + length;
    while (at > text && at[-1] != '/') at--;
    unsigned long number;
    return nf_number(&at, UINT32_MAX, &number) ? (uint32_t)number : 0;
}

uint32_t nf_tid(void) {
    uint64_t epoch = atomic_load_explicit(&nf_process.epoch, memory_order_relaxed);
    if (UNLIKELY(nf_self.tid_of != epoch || !nf_self.tid)) {
        if (nf_quiet()) return 0;
        nf_self.tid = (uint32_t)nf_sys(SYS_gettid);
        uint32_t there = nf_process.told_pid == nf_process.pid ? 0 : number_in("/proc/thread-self");
        nf_self.told_tid = there ? there : nf_self.tid;
        nf_self.tid_of = epoch;
    }
    return nf_self.tid;
}

uint32_t nf_told_tid(void) { return nf_tid() ? nf_self.told_tid : 0; }

bool nf_attached(void) {
    if (!nf_process.header) return false;
    if (UNLIKELY(!atomic_load_explicit(alive, memory_order_relaxed))) nf_after_fork();
    return nf_process.segment && !atomic_load_explicit(&nf_process.mute, memory_order_relaxed) &&
           !__atomic_load_n(&nf_process.header->stop, __ATOMIC_RELAXED);
}

/* False in the child of a vfork: it runs on its parent's memory but is not the parent. */
bool nf_is_own_process(void) { return (uint32_t)nf_sys(SYS_getpid) == nf_process.pid; }

static void detach(void) {
    nf_process.segment = NULL;
    atomic_store(&nf_process.min_object, SIZE_MAX);
}

static uint32_t nf_cpu(void) {
    uint32_t cpu = 0;
    nf_sys(SYS_getcpu, &cpu, NULL, NULL);
    return cpu;
}

static bool valid(const struct nf_header *h, uint64_t bytes) {
    return h->magic == NF_MAGIC && h->version == NF_VERSION && h->segments && h->segments <= NF_SEGMENTS &&
           h->segments % 64 == 0 && h->ring_bytes >= NF_LEAST_RING && h->ring_bytes <= NF_RING_BYTES &&
           h->ring_bytes % NF_RING_STEP == 0 &&
           h->rings_offset >= NF_TABLE_OFFSET + h->segments * sizeof(struct nf_segment) &&
           h->rings_offset + (uint64_t)h->segments * h->ring_bytes <= bytes;
}

static struct nf_segment *segment_at(unsigned index) {
    return (struct nf_segment *)((char *)nf_process.header + NF_TABLE_OFFSET) + index;
}

/* The number of a segment that is ours now; -1 if all are taken. */
static int claim(void) {
    struct nf_header *h = nf_process.header;
    unsigned words = h->segments / 64;
    uint64_t start = nf_now(CLOCK_MONOTONIC);
    do {
        for (unsigned w = 0; w < words; w++) {
            uint64_t taken = __atomic_load_n(&h->taken[w], __ATOMIC_RELAXED);
            while (~taken) {
                unsigned bit = (unsigned)__builtin_ctzll(~taken);
                if (!__atomic_compare_exchange_n(&h->taken[w], &taken, taken | 1ull << bit, false, __ATOMIC_ACQ_REL,
                                                 __ATOMIC_RELAXED))
                    continue;
                return (int)(w * 64 + bit);
            }
        }
        /* Many short processes: the recorder frees segments as it reads. */
        nf_yield();
    } while (nf_now(CLOCK_MONOTONIC) - start < WAIT_FOR_SEGMENT_NS);
    __atomic_add_fetch(&h->unclaimed, 1, __ATOMIC_RELAXED);
    return -1;
}

static void give_back(unsigned index) {
    __atomic_fetch_and(&nf_process.header->taken[index / 64], ~(1ull << index % 64), __ATOMIC_RELEASE);
}

/* The bytes from `from` on, of a ring that is mapped: whether the kernel has them for us. Not a touch, which would
 * end the program where memory is short. */
static bool populate(void *from, size_t bytes) {
    return nf_sys(SYS_madvise, from, bytes, MADV_POPULATE_WRITE) == 0;
}

/* Claims a segment and maps its ring. On failure the process goes unrecorded. */
static bool claim_and_map(long fd) {
    struct nf_header *h = nf_process.header;
    nf_process.pid = (uint32_t)nf_sys(SYS_getpid);
    uint32_t there = number_in("/proc/self");
    nf_process.told_pid = there ? there : nf_process.pid;
    int index = claim();
    if (index < 0) return false;
    struct nf_segment *s = segment_at((unsigned)index);
    uint64_t offset = h->rings_offset + (uint64_t)index * h->ring_bytes;
    /* The first step by the descriptor, which every kernel can. What comes later needs a newer one (5.14): where that
     * fails all of the ring is had now. */
    size_t have = NF_RING_STEP;
    if (nf_sys(SYS_fallocate, fd, 0, offset, have) != 0) {
        __atomic_add_fetch(&h->no_memory, 1, __ATOMIC_RELAXED);
        give_back((unsigned)index);
        return false;
    }
    long ring = nf_sys(SYS_mmap, NULL, h->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (ring < 0 && ring > -4096) {
        __atomic_add_fetch(&h->no_memory, 1, __ATOMIC_RELAXED);
        give_back((unsigned)index);
        return false;
    }
    if (!populate((void *)ring, have) && nf_sys(SYS_fallocate, fd, 0, offset, h->ring_bytes) == 0)
        have = h->ring_bytes;
    in_memory = have;
    s->pid = nf_process.told_pid;
    s->ring_bytes = h->ring_bytes;
    s->claimed_boot_ns = nf_now(CLOCK_BOOTTIME);
    s->generation = __atomic_add_fetch(&h->generation, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&s->state, NF_CLAIMED, __ATOMIC_RELEASE);
    nf_process.ring = (char *)ring;
    nf_process.generation = s->generation;
    nf_process.segment = s;
    atomic_fetch_add(&nf_process.epoch, 1);
    atomic_store(alive, 1);
    return true;
}

/* The recorder's file from the recorder itself, through the socket that is named after the path: a process in a user
 * namespace of its own may not open what is below /proc/PID/fd of one outside. A negative number if it has none, does
 * not answer, or knows us under another number than our /proc, which then is not the recorder's. */
static long ask_for_file(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    static const char PREFIX[] = "nearfar";
    size_t prefix = sizeof PREFIX - 1, length = strlen(file_path);
    if (1 + prefix + length > sizeof name.sun_path || nf_under_filter()) return -1;
    memcpy(name.sun_path + 1, PREFIX, prefix);
    memcpy(name.sun_path + 1 + prefix, file_path, length);
    long fd = nf_sys(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    struct timeval patience = {.tv_sec = 1};
    nf_sys(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    uint32_t pid = 0;
    struct iovec data = {&pid, sizeof pid};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    long file = -1;
    size_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + prefix + length;
    if (nf_sys(SYS_connect, fd, &name, bytes) == 0 &&
        nf_sys(SYS_recvmsg, fd, &message, MSG_CMSG_CLOEXEC) == sizeof pid &&
        message.msg_controllen >= CMSG_LEN(sizeof(int)) && control.header.cmsg_type == SCM_RIGHTS) {
        int got;
        memcpy(&got, CMSG_DATA(&control.header), sizeof got);
        file = got;
    }
    nf_sys(SYS_close, fd);
    if (file >= 0 && number_in("/proc/self") != pid) {
        nf_sys(SYS_close, file);
        file = -1;
    }
    return file;
}

/* The recorder's file, or a negative number. `bytes`: its size. */
static long open_file(uint64_t *bytes) {
    long fd = nf_sys(SYS_openat, AT_FDCWD, file_path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) fd = ask_for_file();
    struct stat st;
    if (fd >= 0 && (nf_sys(SYS_fstat, fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        nf_sys(SYS_close, fd);
        fd = -1;
    }
    *bytes = fd >= 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

static void *map_anonymous(size_t bytes, int flags) {
    long at = nf_sys(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

bool nf_attach(const char *path) {
    size_t length = strlen(path);
    if (path[0] != '/' || length >= sizeof file_path) return false;
    memcpy(file_path, path, length + 1);
    uint64_t bytes;
    long fd = open_file(&bytes);
    if (fd < 0) return false;
    /* The table as long as it can be: how long it is the header says. */
    size_t mapped = NF_TABLE_OFFSET + NF_SEGMENTS * sizeof(struct nf_segment);
    if (mapped > bytes) mapped = bytes & ~(size_t)4095;
    struct nf_header *h = NULL;
    if (mapped >= NF_TABLE_OFFSET) {
        long at = nf_sys(SYS_mmap, NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at > 0 || at <= -4096) h = (struct nf_header *)at;
    }
    bool ok = false;
    if (!h || !valid(h, bytes)) goto done;
    if (nf_sandboxed_from_outside(h)) {
        __atomic_add_fetch(&h->sandboxed, 1, __ATOMIC_RELAXED);
        goto done;
    }
    /* Under an address-space limit our mappings could be what breaks the program. */
    struct rlimit limit;
    if (nf_sys(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) != 0 ||
        (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (2ull << 30))) {
        __atomic_add_fetch(&h->refused, 1, __ATOMIC_RELAXED);
        goto done;
    }
    alive = map_anonymous(4096, 0);
    if (!alive) goto done;
    nf_sys(SYS_madvise, (void *)alive, 4096, MADV_WIPEONFORK);
    nf_process.header = h;
    if (!nf_objects_init()) goto done;
    nf_process.small_sample = (int64_t)h->small_sample;
    nf_process.looked_up_pages = h->looked_up_pages;
    nf_process.signal_hz = h->signal_hz;
    nf_process.flags = h->flags;
    nf_process.start_ns = nf_now(CLOCK_MONOTONIC);
    ok = claim_and_map(fd);
done:
    if (!ok) nf_process.header = NULL;
    if (!ok && h) nf_sys(SYS_munmap, h, mapped);
    nf_sys(SYS_close, fd);
    return ok;
}

/* A fork's child under a filter of its parent's: it may not ask for anything. */
static void detach_quietly(void) {
    __atomic_add_fetch(&nf_process.header->sandboxed, 1, __ATOMIC_RELAXED);
    detach();
    atomic_store(alive, 1);
}

/* In the child of a fork, the only thread: leave the parent's ring and claim one. */
void nf_after_fork(void) {
    if (!nf_process.header) return;
    bool wiped = !atomic_load(alive);
    if (wiped) atomic_store(&nf_process.installing, false);
    if (nf_quiet()) {
        if (wiped && nf_process.segment) detach_quietly();
        return;
    }
    /* Called twice (fork handler, then a hook) or in a child that shares memory. */
    if (!wiped && nf_is_own_process()) return;
    int saved = errno;
    int guard = nf_self.guard;
    nf_self.guard = 1;
    uint32_t parent = nf_process.told_pid;
    uint64_t parent_generation = nf_process.generation;
    bool was_attached = nf_process.segment != NULL;
    if (was_attached) nf_sys(SYS_munmap, nf_process.ring, nf_process.header->ring_bytes);
    nf_process.segment = NULL;
    atomic_flag_clear(&lock);
    atomic_store(&stalled, false);
    last_words = false;
    nf_objects_after_fork();
    uint64_t bytes;
    long fd = was_attached ? open_file(&bytes) : -1;
    if (was_attached && fd < 0) __atomic_add_fetch(&nf_process.header->unopened, 1, __ATOMIC_RELAXED);
    if (fd < 0 || !claim_and_map(fd)) {
        detach();
        atomic_store(alive, 1);
    } else {
        struct nf_hello hello = {.pid = nf_process.told_pid, .parent = parent, .parent_generation = parent_generation};
        nf_emit(NF_FORK, 0, &hello, sizeof hello, NULL, 0, true);
    }
    if (fd >= 0) nf_sys(SYS_close, fd);
    nf_self.guard = guard;
    errno = saved;
}

void nf_close_segment(void) {
    if (nf_process.segment) __atomic_store_n(&nf_process.segment->state, NF_CLOSED, __ATOMIC_RELEASE);
}

/* Bounded: a holder that never comes back costs records, not the program. */
static bool take_lock(bool wait) {
    uint64_t start = 0;
    for (unsigned spins = 0;; spins++) {
        if (!atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) return true;
        if (!wait && spins > 200) return false;
        if (wait && spins > 100) {
            uint64_t now = nf_now(CLOCK_MONOTONIC);
            if (!start) start = now;
            if (now - start > WAIT_FOR_LOCK_NS) return false;
            nf_yield();
        }
        nf_pause();
    }
}

static void release_lock(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

/* Not memcpy: a program built with a sanitizer brings its own, which would take
 * our copies of its stack, guard zones included, for errors of the program. */
static void copy(void *to, const void *from, size_t bytes) {
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = ((const volatile char *)from)[i];
#endif
}

void nf_last_words(void) {
    last_words_until = nf_now(CLOCK_MONOTONIC) + WAIT_AT_EXIT_NS;
    last_words = true;
}

/* Has the ring in memory up to `end`; under the lock. Where it cannot grow it stays as it is: nothing lies behind
 * it yet, as it has not been around. */
static bool grow(struct nf_segment *s, size_t end) {
    while (in_memory < end) {
        if (nf_quiet() || !populate(nf_process.ring + in_memory, NF_RING_STEP)) {
            __atomic_store_n(&s->ring_bytes, (uint32_t)in_memory, __ATOMIC_RELEASE);
            return false;
        }
        in_memory += NF_RING_STEP;
    }
    return true;
}

bool nf_fill_ring(void) {
    struct nf_segment *s = nf_process.segment;
    if (!s || !take_lock(true)) return false;
    bool whole = grow(s, s->ring_bytes);
    release_lock();
    return whole;
}

void nf_lost_quietly(void) { __atomic_add_fetch(&nf_process.segment->lost_quiet, 1, __ATOMIC_RELAXED); }

/* `at`: the record's time; 0 = now, which needs a clock, as waiting does. */
static bool emit(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
                 size_t tail_bytes, bool wait, uint64_t at) {
    struct nf_segment *s = nf_process.segment;
    uint32_t tid = nf_told_tid();
    if (UNLIKELY(!tid || !(at || nf_has_clock()))) {
        nf_lost_quietly();
        return false;
    }
    size_t size = (sizeof(struct nf_record) + body_bytes + tail_bytes + 7) & ~(size_t)7;
    uint64_t started = 0;
    for (;;) {
        if (!take_lock(wait)) {
            __atomic_add_fetch(&s->lost_busy, 1, __ATOMIC_RELAXED);
            return false;
        }
        uint64_t head = __atomic_load_n(&s->head, __ATOMIC_RELAXED);
        uint64_t tail_at = __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
        size_t place, pad;
        do {
            place = head % s->ring_bytes;
            pad = place + size > s->ring_bytes ? s->ring_bytes - place : 0;
            /* Once around, all of it is in memory. */
        } while (UNLIKELY(head < s->ring_bytes && place + (pad ? pad : size) > in_memory) &&
                 !grow(s, place + (pad ? pad : size)));
        if (LIKELY(head + pad + size - tail_at <= s->ring_bytes)) {
            if (pad) {
                /* A pad may be as small as 8 bytes: only kind and size are read of it. */
                struct nf_record filler = {.kind = NF_PAD, .size = (uint32_t)pad};
                copy(nf_process.ring + place, &filler, 8);
                place = 0;
            }
            char *to = nf_process.ring + place;
            struct nf_record *record = (struct nf_record *)to;
            record->kind = kind;
            record->flags = flags;
            record->size = (uint32_t)size;
            record->tid = tid;
            record->cpu = kind == NF_SAMPLE ? nf_cpu() : 0;
            /* Under the lock: records of a process are in the order of their times. */
            if (!at) last_time = nf_now(CLOCK_MONOTONIC);
            else if (at > last_time) last_time = at;
            record->time = last_time;
            if (body_bytes) copy(to + sizeof *record, body, body_bytes);
            if (tail_bytes) copy(to + sizeof *record + body_bytes, tail, tail_bytes);
            __atomic_store_n(&s->head, head + pad + size, __ATOMIC_RELEASE);
            release_lock();
            atomic_store_explicit(&stalled, false, memory_order_relaxed);
            return true;
        }
        release_lock();
        uint64_t now = nf_now(CLOCK_MONOTONIC);
        if (!started) started = now;
        bool over = last_words ? now > last_words_until
                               : atomic_load_explicit(&stalled, memory_order_relaxed) || now - started > WAIT_FOR_ROOM_NS;
        if (!wait || over) {
            if (wait) atomic_store_explicit(&stalled, true, memory_order_relaxed);
            __atomic_add_fetch(&s->lost_full, 1, __ATOMIC_RELAXED);
            return false;
        }
        nf_yield();
    }
}

bool nf_emit(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
             size_t tail_bytes, bool wait) {
    if (UNLIKELY(!nf_attached())) return false;
    if (UNLIKELY(nf_process.flags & NF_SET_HYPERCALL)) nf_hypercall_record(kind);
    return emit(kind, flags, body, body_bytes, tail, tail_bytes, wait, 0);
}

bool nf_emit_at(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
                size_t tail_bytes, uint64_t at) {
    if (UNLIKELY(!nf_attached())) return false;
    if (UNLIKELY(nf_process.flags & NF_SET_HYPERCALL)) nf_hypercall(NF_HYPERCALL_PHASE, at);
    return emit(kind, flags, body, body_bytes, tail, tail_bytes, true, at);
}

void nf_lost_at(enum nf_why why, uint64_t count, uint64_t at) {
    struct nf_lost lost = {.count = count, .why = why};
    if (nf_process.segment) emit(NF_LOST, 0, &lost, sizeof lost, NULL, 0, false, at);
}

void nf_lost(enum nf_why why, uint64_t count) {
    struct nf_lost lost = {.count = count, .why = why};
    nf_emit(NF_LOST, 0, &lost, sizeof lost, NULL, 0, true);
}
