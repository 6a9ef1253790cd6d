/* Which process and thread this is, whether its records are wanted, and what time it is. */
#include "agent.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <string.h>

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
uint32_t nf_number_in(const char *link) {
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
        uint32_t there = nf_process.told_pid == nf_process.pid ? 0 : nf_number_in("/proc/thread-self");
        nf_self.told_tid = there ? there : nf_self.tid;
        nf_self.tid_of = epoch;
    }
    return nf_self.tid;
}

uint32_t nf_told_tid(void) { return nf_tid() ? nf_self.told_tid : 0; }

bool nf_attached(void) {
    if (!nf_process.header) return false;
    if (UNLIKELY(!atomic_load_explicit(nf_process.alive, memory_order_relaxed))) nf_process.forked();
    return nf_process.segment && !atomic_load_explicit(&nf_process.mute, memory_order_relaxed) &&
           !__atomic_load_n(&nf_process.header->stop, __ATOMIC_RELAXED);
}

/* False in the child of a vfork: it runs on its parent's memory but is not the parent. */
bool nf_is_own_process(void) { return (uint32_t)nf_sys(SYS_getpid) == nf_process.pid; }

void nf_lost_quietly(void) { __atomic_add_fetch(&nf_process.segment->lost_quiet, 1, __ATOMIC_RELAXED); }
