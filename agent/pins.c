/* Threads on cpus in the order in which they are created: NEARFAR_PINS=4,5,6. Those that NEARFAR_PINS_SKIP
 * numbers (1 is the first that is created) take none: helpers of a runtime that wait most of the time. Where an OpenMP runtime is
 * loaded it does that itself, told by its own variables; this is for all other threads. */
#include "agent.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { MOST = 8192, /* the kernel's own limit of cpus */
       BITS = 8 * sizeof(unsigned long) };
static unsigned short cpus[MOST];
static unsigned long all[MOST / BITS];
static unsigned count; /* 0: no list */
static bool pinning;   /* false where a runtime does it, and under a filter of the program's */
static _Atomic unsigned created;
static unsigned skipped[64], skips; /* ascending */

static void set_affinity(const unsigned long *set) {
    if (!nf_quiet()) nf_sys(SYS_sched_setaffinity, 0, sizeof all, set);
}

/* More threads than were asked for may use all of the cpus, not only their creator's. */
static void pin(unsigned thread) {
    if (thread >= count) {
        set_affinity(all);
        return;
    }
    unsigned long set[MOST / BITS] = {0};
    set[cpus[thread] / BITS] |= 1ul << cpus[thread] % BITS;
    set_affinity(set);
}

void nf_pins_init(void) {
    const char *list = nf_environment("NEARFAR_PINS");
    unsigned found = 0;
    while (list && *list && found < MOST) {
        unsigned long cpu;
        if (!nf_number(&list, MOST - 1, &cpu)) return;
        cpus[found++] = (unsigned short)cpu;
        all[cpu / BITS] |= 1ul << cpu % BITS;
        if (*list == ',') list++;
    }
    count = found;
    list = nf_environment("NEARFAR_PINS_SKIP");
    while (list && *list && skips < sizeof skipped / sizeof *skipped) {
        unsigned long thread;
        if (!nf_number(&list, UINT_MAX, &thread)) break;
        skipped[skips++] = (unsigned)thread;
        if (*list == ',') list++;
    }
    /* Every runtime has this function. It must see all of the cpus, not only the main thread's. */
    pinning = count && !nf_symbol("omp_get_num_threads");
    if (pinning) pin(0);
}

bool nf_pins(void) { return pinning; }

/* The place in the list of a thread that is about to be created; the main thread's is 0. */
unsigned nf_pins_next(void) {
    if (!pinning) return 0;
    unsigned thread = 1 + atomic_fetch_add(&created, 1), before = 0;
    for (unsigned i = 0; i < skips; i++) {
        if (skipped[i] == thread) return UINT_MAX; /* any of the cpus */
        before += skipped[i] < thread;
    }
    return thread - before;
}

void nf_pin_thread(unsigned thread) {
    if (thread) pin(thread);
}

/* The next program lays out its threads itself, and its runtime looks at what it may use before any
 * constructor of ours. */
void nf_pins_before_exec(void) {
    if (count) set_affinity(all);
}

static unsigned long before_filter[MOST / BITS];
static bool widened;

/* A filter that is about to come may forbid to pin later threads: they may not all inherit this one's cpu. */
void nf_pins_before_filter(void) {
    widened = pinning && nf_sys(SYS_sched_getaffinity, 0, sizeof before_filter, before_filter) > 0;
    if (pinning) set_affinity(all);
    pinning = false;
}

/* It did not come. */
void nf_pins_without_filter(void) {
    if (!widened) return;
    set_affinity(before_filter);
    pinning = true;
    widened = false;
}

/* Libraries that make as many threads as the calling thread has cpus: loaded by a program that runs already (Python's
 * NumPy), they would find the main thread's one. */
static bool sizes_a_pool(const char *path) {
    static const char *const NAMES[] = {"openblas", "blis", "mkl_", "tbb", "gomp", "libomp", "iomp"};
    const char *file = path;
    for (const char *at = path; *at; at++)
        if (*at == '/') file = at + 1;
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        for (const char *at = file; *at; at++) {
            size_t same = 0;
            while (NAMES[i][same] && at[same] == NAMES[i][same]) same++;
            if (!NAMES[i][same]) return true;
        }
    }
    return false;
}

/* Whether the code at `caller` is told of all cpus of the team. Everybody else, the program above all, hears the truth. */
static bool is_told_all(const void *caller) {
    static _Atomic(int (*)(const void *, Dl_info *)) find;
    if (!pinning) return false;
    int (*look)(const void *, Dl_info *) = atomic_load(&find);
    if (!look) {
        void *found = nf_symbol("dladdr");
        memcpy(&look, &found, sizeof look);
        atomic_store(&find, look);
    }
    Dl_info info = {0};
    int saved = errno;
    bool told = look && look(caller, &info) && info.dli_fname && sizes_a_pool(info.dli_fname);
    errno = saved;
    return told;
}

static void tell_all(size_t bytes, cpu_set_t *set) { memcpy(set, all, bytes < sizeof all ? bytes : sizeof all); }

/* As the C libraries answer: 0, and nothing set behind what the kernel wrote. */
EXPORT int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set) {
    long got = nf_sys(SYS_sched_getaffinity, thread, bytes < INT_MAX ? bytes : INT_MAX, set);
    if (got < 0) return (int)nf_answer(got);
    memset((char *)set + got, 0, bytes - (size_t)got);
    if (thread == 0 && is_told_all(__builtin_return_address(0))) tell_all(bytes, set);
    return 0;
}

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *set) {
    static _Atomic(int (*)(pthread_t, size_t, cpu_set_t *)) next;
    int (*call)(pthread_t, size_t, cpu_set_t *) = atomic_load(&next);
    if (!call) {
        call = NF_NEXT(pthread_getaffinity_np);
        if (!call) return ENOSYS;
        atomic_store(&next, call);
    }
    int error = call(thread, bytes, set);
    if (!error && is_told_all(__builtin_return_address(0))) tell_all(bytes, set);
    return error;
}
