/* Attaching to the recorder's file: a segment and its ring are claimed, again in the child of a fork. */
#include "agent.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

static char file_path[PATH_MAX];

static const uint64_t WAIT_FOR_SEGMENT_NS = 5000000;

static void detach(void) {
    nf_process.segment = NULL;
    atomic_store(&nf_process.min_object, SIZE_MAX);
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

/* Claims a segment and maps its ring. On failure the process goes unrecorded. */
static bool claim_and_map(long fd) {
    struct nf_header *h = nf_process.header;
    nf_process.pid = (uint32_t)nf_sys(SYS_getpid);
    uint32_t there = nf_number_in("/proc/self");
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
    if (!nf_populate((void *)ring, have) && nf_sys(SYS_fallocate, fd, 0, offset, h->ring_bytes) == 0)
        have = h->ring_bytes;
    s->pid = nf_process.told_pid;
    s->ring_bytes = h->ring_bytes;
    s->claimed_boot_ns = nf_now(CLOCK_BOOTTIME);
    s->generation = __atomic_add_fetch(&h->generation, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&s->state, NF_CLAIMED, __ATOMIC_RELEASE);
    nf_ring_begins((char *)ring, have);
    nf_process.generation = s->generation;
    nf_process.segment = s;
    atomic_fetch_add(&nf_process.epoch, 1);
    atomic_store(nf_process.alive, 1);
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
    if (file >= 0 && nf_number_in("/proc/self") != pid) {
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
    nf_process.alive = map_anonymous(4096, 0);
    if (!nf_process.alive) goto done;
    nf_sys(SYS_madvise, (void *)nf_process.alive, 4096, MADV_WIPEONFORK);
    nf_process.forked = nf_after_fork;
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
    atomic_store(nf_process.alive, 1);
}

/* In the child of a fork, the only thread: leave the parent's ring and claim one. */
void nf_after_fork(void) {
    if (!nf_process.header) return;
    bool wiped = !atomic_load(nf_process.alive);
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
    nf_ring_after_fork();
    nf_objects_after_fork();
    uint64_t bytes;
    long fd = was_attached ? open_file(&bytes) : -1;
    if (was_attached && fd < 0) __atomic_add_fetch(&nf_process.header->unopened, 1, __ATOMIC_RELAXED);
    if (fd < 0 || !claim_and_map(fd)) {
        detach();
        atomic_store(nf_process.alive, 1);
    } else {
        struct nf_hello hello = {.pid = nf_process.told_pid, .parent = parent, .parent_generation = parent_generation};
        nf_emit(NF_FORK, 0, &hello, sizeof hello, NULL, 0, true);
    }
    if (fd >= 0) nf_sys(SYS_close, fd);
    nf_self.guard = guard;
    errno = saved;
}
