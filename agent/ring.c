/* Attaching to the recorder's file and writing records into the claimed ring. */
#include "agent.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static const uint64_t WAIT_FOR_ROOM_NS = 4000000;
static const uint64_t WAIT_FOR_LOCK_NS = 20000000;
static const uint64_t WAIT_FOR_SEGMENT_NS = 5000000;

uint64_t nf_now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t nf_tid(void) {
    uint64_t epoch = atomic_load_explicit(&nf_process.epoch, memory_order_relaxed);
    if (UNLIKELY(nf_self.tid_of != epoch || !nf_self.tid)) {
        nf_self.tid = (uint32_t)syscall(SYS_gettid);
        nf_self.tid_of = epoch;
    }
    return nf_self.tid;
}

bool nf_attached(void) {
    if (!nf_process.header) return false;
    if (UNLIKELY(!atomic_load_explicit(alive, memory_order_relaxed))) nf_after_fork();
    return nf_process.segment &&
           !__atomic_load_n(&nf_process.header->stop, __ATOMIC_RELAXED);
}

/* False in the child of a vfork: it runs on its parent's memory but is not the parent. */
bool nf_is_own_process(void) { return (uint32_t)syscall(SYS_getpid) == nf_process.pid; }

static void detach(void) {
    nf_process.segment = NULL;
    atomic_store(&nf_process.min_object, SIZE_MAX);
}

static bool valid(const struct nf_header *h) {
    return h->magic == NF_MAGIC && h->version == NF_VERSION;
}

static struct nf_segment *claim(void) {
    struct nf_segment *table = (struct nf_segment *)((char *)nf_process.header + NF_TABLE_OFFSET);
    uint64_t start = nf_now(CLOCK_MONOTONIC);
    do {
        for (unsigned k = 0; k < NF_SEGMENTS; k++) {
            struct nf_segment *s = &table[(nf_process.pid + k) % NF_SEGMENTS];
            uint32_t free_pid = 0;
            if (__atomic_load_n(&s->pid, __ATOMIC_RELAXED) == 0 &&
                __atomic_compare_exchange_n(&s->pid, &free_pid, nf_process.pid, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
                s->claimed_boot_ns = nf_now(CLOCK_BOOTTIME);
                s->generation =
                    __atomic_add_fetch(&nf_process.header->generation, 1, __ATOMIC_RELAXED);
                __atomic_store_n(&s->state, NF_CLAIMED, __ATOMIC_RELEASE);
                return s;
            }
        }
        /* Many short processes: the recorder frees segments as it reads. */
        sched_yield();
    } while (nf_now(CLOCK_MONOTONIC) - start < WAIT_FOR_SEGMENT_NS);
    __atomic_add_fetch(&nf_process.header->unclaimed, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Claims a segment and maps its ring. On failure the process goes unrecorded. */
static bool claim_and_map(int fd) {
    nf_process.pid = (uint32_t)syscall(SYS_getpid);
    struct nf_segment *s = claim();
    if (!s) return false;
    size_t index = (size_t)(s - (struct nf_segment *)((char *)nf_process.header + NF_TABLE_OFFSET));
    void *ring = mmap(NULL, NF_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      (off_t)(NF_RINGS_OFFSET + index * NF_RING_BYTES));
    if (ring == MAP_FAILED) {
        __atomic_store_n(&s->state, NF_CLOSED, __ATOMIC_RELEASE);
        return false;
    }
    nf_process.ring = ring;
    nf_process.generation = s->generation;
    nf_process.segment = s;
    atomic_fetch_add(&nf_process.epoch, 1);
    atomic_store(alive, 1);
    return true;
}

/* The recorder's file, or -1. A file that is too short is not one. */
static int open_file(void) {
    int fd = open(file_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < NF_FILE_BYTES)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool nf_attach(const char *path) {
    size_t length = strlen(path);
    if (path[0] != '/' || length >= sizeof file_path) return false;
    memcpy(file_path, path, length + 1);
    int fd = open_file();
    if (fd < 0) return false;
    struct nf_header *h =
        mmap(NULL, NF_RINGS_OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (h == MAP_FAILED || !valid(h)) goto fail;
    /* Under an address-space limit our mappings could be what breaks the program. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (2ull << 30))) {
        __atomic_add_fetch(&h->refused, 1, __ATOMIC_RELAXED);
        goto fail;
    }
    alive = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (alive == MAP_FAILED) goto fail;
    madvise((void *)alive, 4096, MADV_WIPEONFORK);
    if (!nf_objects_init()) goto fail;
    nf_process.header = h;
    nf_process.small_sample = (int64_t)h->small_sample;
    nf_process.home_pages = h->home_pages;
    nf_process.signal_hz = h->signal_hz;
    nf_process.flags = h->flags;
    nf_process.start_ns = nf_now(CLOCK_MONOTONIC);
    bool ok = claim_and_map(fd);
    close(fd);
    if (!ok) nf_process.header = NULL;
    return ok;
fail:
    if (h != MAP_FAILED) munmap(h, NF_RINGS_OFFSET);
    close(fd);
    return false;
}

/* In the child of a fork, the only thread: leave the parent's ring and claim one. */
void nf_after_fork(void) {
    if (!nf_process.header) return;
    /* Called twice (fork handler, then a hook) or in a child that shares memory. */
    if (atomic_load(alive) && nf_is_own_process()) return;
    int saved = errno;
    int guard = nf_self.guard;
    nf_self.guard = 1;
    uint32_t parent = nf_process.pid;
    uint64_t parent_generation = nf_process.generation;
    bool was_attached = nf_process.segment != NULL;
    if (was_attached) munmap(nf_process.ring, NF_RING_BYTES);
    nf_process.segment = NULL;
    atomic_flag_clear(&lock);
    atomic_store(&stalled, false);
    int fd = was_attached ? open_file() : -1;
    if (fd < 0 || !claim_and_map(fd)) {
        detach();
        atomic_store(alive, 1);
    } else {
        struct nf_hello hello = {.pid = nf_process.pid, .parent = parent, .parent_generation = parent_generation};
        nf_emit(NF_FORK, 0, &hello, sizeof hello, NULL, 0, true);
    }
    if (fd >= 0) close(fd);
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
            sched_yield();
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

bool nf_emit(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
             size_t tail_bytes, bool wait) {
    if (UNLIKELY(!nf_attached())) return false;
    if (UNLIKELY(nf_process.flags & NF_SET_DOORBELL)) nf_bell_record(kind);
    struct nf_segment *s = nf_process.segment;
    size_t size = (sizeof(struct nf_record) + body_bytes + tail_bytes + 7) & ~(size_t)7;
    uint64_t started = 0;
    for (;;) {
        if (!take_lock(wait)) {
            __atomic_add_fetch(&s->lost_busy, 1, __ATOMIC_RELAXED);
            return false;
        }
        uint64_t head = __atomic_load_n(&s->head, __ATOMIC_RELAXED);
        uint64_t tail_at = __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
        size_t place = head % NF_RING_BYTES;
        size_t pad = place + size > NF_RING_BYTES ? NF_RING_BYTES - place : 0;
        if (LIKELY(head + pad + size - tail_at <= NF_RING_BYTES)) {
            if (pad) {
                /* A pad may be as small as 8 bytes: only kind and size are read of it. */
                struct nf_record filler = {.kind = NF_PAD, .size = (uint32_t)pad};
                memcpy(nf_process.ring + place, &filler, 8);
                place = 0;
            }
            char *to = nf_process.ring + place;
            struct nf_record *record = (struct nf_record *)to;
            record->kind = kind;
            record->flags = flags;
            record->size = (uint32_t)size;
            record->tid = nf_tid();
            record->cpu = kind == NF_SAMPLE ? (uint32_t)sched_getcpu() : 0;
            /* Under the lock: records of a process are in the order of their times. */
            record->time = nf_now(CLOCK_MONOTONIC);
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
        if (!wait || atomic_load_explicit(&stalled, memory_order_relaxed) ||
            now - started > WAIT_FOR_ROOM_NS) {
            if (wait) atomic_store_explicit(&stalled, true, memory_order_relaxed);
            __atomic_add_fetch(&s->lost_full, 1, __ATOMIC_RELAXED);
            return false;
        }
        sched_yield();
    }
}

void nf_lost(enum nf_why why, uint64_t count) {
    struct nf_lost lost = {.count = count, .why = why};
    nf_emit(NF_LOST, 0, &lost, sizeof lost, NULL, 0, true);
}
