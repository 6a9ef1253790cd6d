/* Threads on cpus in the order in which they are created: NEARFAR_PINS=4,5,6. Those that NEARFAR_PINS_SKIP
 * numbers (1 is the first that is created) take none: helpers of a runtime that wait most of the time. Where an OpenMP runtime is
 * loaded it does that itself, told by its own variables; this is for all other threads. */
#include "agent.h"

#include <limits.h>
#include <sched.h>

enum { MOST = 8192, /* the kernel's own limit of cpus */
       BITS = 8 * sizeof(unsigned long) };
static unsigned short cpus[MOST];
static unsigned long all[MOST / BITS];
static unsigned count; /* 0: no list */
static bool pinning;   /* false where a runtime does it */
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

/* A filter that is about to come may forbid to pin later threads: they may not all inherit this one's cpu. */
void nf_pins_before_filter(void) {
    if (pinning) set_affinity(all);
    pinning = false;
}
