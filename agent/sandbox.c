/* Programs that shut themselves in: a seccomp filter may end the process at any call that it does not expect, and
 * which those are cannot be asked without calling. So the agent watches the calls that install one, does before them
 * what it cannot do afterwards, and makes no system call from then on (`nf_process.quiet`): it goes on writing
 * records into a ring that is in memory as a whole. What needs a call is left out and said: samples of the signal
 * source, nodes of pages, thread stacks, new threads' records, pins and placements.
 *
 * Strict seccomp also forbids the time stamp counter to its thread, as prctl(PR_SET_TSC) does: `nf_self.counter`.
 *
 * A filter that was there before the program began (a container's, a launcher's) is the recorder's own, which has
 * tried, or one that was installed on the way: then the agent does not attach. */
#include "agent.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/uio.h>

#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1UL << 3)
#endif

static unsigned long field(const char *text, const char *name, unsigned long otherwise) {
    size_t length = strlen(name);
    for (const char *at = text; *at; at++) {
        if ((at != text && at[-1] != '\n') || memcmp(at, name, length) != 0) continue;
        at += length;
        while (*at == ' ' || *at == '\t') at++;
        unsigned long value;
        return nf_number(&at, UINT32_MAX, &value) ? value : otherwise;
    }
    return otherwise;
}

/* The loader has just made these same calls. */
static void read_status(char *text, size_t room) { text[nf_read_file("/proc/self/status", text, room - 1)] = 0; }

bool nf_under_filter(void) {
    char text[4096];
    read_status(text, sizeof text);
    return nf_quiet() || field(text, "Seccomp:", UINT32_MAX) != SECCOMP_MODE_DISABLED;
}

bool nf_sandboxed_from_outside(const struct nf_header *header) {
    char text[4096];
    read_status(text, sizeof text);
    unsigned long mode = field(text, "Seccomp:", UINT32_MAX);
    if (mode == SECCOMP_MODE_DISABLED) return false;
    if (mode != header->seccomp_mode) return true;
    unsigned long filters = field(text, "Seccomp_filters:", UINT32_MAX);
    if (filters != UINT32_MAX && header->seccomp_filters != UINT32_MAX) return filters != header->seccomp_filters;
    /* Before Linux 5.9 nobody says how many there are. */
    return __atomic_load_n(&header->filtering, __ATOMIC_RELAXED) != 0;
}

/* Whether the kernel is sure to refuse this call, as it does the calls by which libraries ask what it can: then
 * nothing is done for it. Only what is certain: for anything else there is `undo`. */
static bool surely_refused(long number, long a, long b, long c) {
    bool by_prctl = number == SYS_prctl;
    bool strict = by_prctl ? b == SECCOMP_MODE_STRICT : a == SECCOMP_SET_MODE_STRICT;
    if (by_prctl && b != SECCOMP_MODE_STRICT && b != SECCOMP_MODE_FILTER) return true;
    if (strict) return !by_prctl && (b || c);
    struct sock_fprog filter;
    struct iovec here = {&filter, sizeof filter}, there = {(void *)c, sizeof filter};
    long got = nf_sys(SYS_process_vm_readv, nf_sys(SYS_getpid), &here, 1, &there, 1, 0);
    if (got == -EFAULT || (got == (long)sizeof filter && (!filter.len || filter.len > BPF_MAXINSNS))) return true;
    struct __user_cap_header_struct ask = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
    return nf_sys(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 && nf_sys(SYS_capget, &ask, has) == 0 &&
           !(has[0].effective & 1u << CAP_SYS_ADMIN);
}

/* Spins. The holder may be this very thread, below a signal handler. */
static const unsigned PATIENCE = 1000000;

void nf_await_filter(void) {
    for (unsigned spins = 0; UNLIKELY(nf_process.installing) && spins < PATIENCE; spins++) nf_pause();
}

static bool refused(long number, long a, long b, long result) {
    if (result < 0 && result > -4096) return true;
    /* The number of a thread that has another filter, and so keeps all from being given this one. */
    return number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER && result > 0 &&
           (b & SECCOMP_FILTER_FLAG_TSYNC) && !(b & SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

/* What is said of a filter and what is kept in case that the kernel refuses it. */
struct before {
    uint64_t time;
    uint8_t counter;
    bool mute;
};

/* All that needs a system call is done here, and nothing that `undo` could not take back. */
static struct before prepare(bool strict) {
    struct before before = {.counter = nf_self.counter};
    nf_pins_before_filter();
    if (nf_attached() && nf_is_own_process() && nf_enter()) {
        nf_objects_tell(true);
        nf_page_nodes_at_exit(nf_objects_each);
        nf_tid(); /* which cannot be asked for later */
        before.time = nf_now(CLOCK_MONOTONIC);
        nf_leave();
        nf_sampling_pause();
        /* A clock that is a system call is none of ours any more. */
        before.mute = !nf_fill_ring() || !(nf_process.flags & NF_SET_VDSO_CLOCK);
        atomic_store(&nf_process.mute, before.mute);
    }
    if (strict) nf_self.counter = NF_COUNTER_FORBIDDEN;
    atomic_store(&nf_process.quiet, true);
    return before;
}

static void undo(const struct before *before) {
    nf_self.counter = before->counter;
    atomic_store(&nf_process.mute, false);
    atomic_store(&nf_process.quiet, false);
    nf_sampling_resume();
    nf_pins_without_filter();
}

/* No system call from here on, and in a thread under strict seccomp no time either. */
static void installed(const struct before *before) {
    if (nf_process.header) __atomic_store_n(&nf_process.header->filtering, 1, __ATOMIC_RELAXED);
    if (before->time) nf_lost_at(NF_SANDBOX, 0, before->time);
}

/* One thread at a time: what a second one installs must not be undone with what the kernel refuses to the first. */
static long call_that_installs(long number, long a, long b, long c, long d, long e, long f) {
    int saved = errno;
    bool strict = number == SYS_prctl ? b == SECCOMP_MODE_STRICT : a == SECCOMP_SET_MODE_STRICT;
    nf_await_filter();
    bool held = !atomic_exchange(&nf_process.installing, true);
    bool first = held && !nf_quiet() && !surely_refused(number, a, b, c);
    struct before before;
    uint8_t counter = nf_self.counter;
    if (first) before = prepare(strict);
    else if (strict) nf_self.counter = NF_COUNTER_FORBIDDEN;
    long result = nf_sys6(number, a, b, c, d, e, f);
    if (refused(number, a, b, result)) {
        if (first) undo(&before);
        else nf_self.counter = counter;
    } else if (first) {
        installed(&before);
    }
    if (held) atomic_store(&nf_process.installing, false);
    errno = saved;
    return nf_answer(result);
}

/* Forbidden from before the call on: a tick of our timer may come right behind it. In the child of a vfork this is
 * its parent's state, which it may make more careful but not less. */
static long call_that_forbids(long number, long a, long b, long c, long d, long e, long f) {
    uint8_t before = nf_self.counter;
    if (b == PR_TSC_SIGSEGV) nf_self.counter = NF_COUNTER_FORBIDDEN;
    long result = nf_sys6(number, a, b, c, d, e, f);
    if (result < 0 && result > -4096) nf_self.counter = before;
    else if (b == PR_TSC_ENABLE && !nf_quiet() && nf_is_own_process()) nf_self.counter = NF_COUNTER_ALLOWED;
    return nf_answer(result);
}

typedef long call(long, long, long, long, long, long, long);
/* What makes this call where something should be done for it; else NULL. */
static call *looked_at(long number, long a) {
    if (number == SYS_seccomp) return a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER ? call_that_installs : NULL;
    if (number != SYS_prctl) return NULL;
    return a == PR_SET_SECCOMP ? call_that_installs : a == PR_SET_TSC ? call_that_forbids : NULL;
}

EXPORT int prctl(int operation, ...) {
    va_list rest;
    va_start(rest, operation);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long);
    va_end(rest);
    call *ours = looked_at(SYS_prctl, operation);
    if (UNLIKELY(ours != NULL)) return (int)ours(SYS_prctl, operation, a, b, c, d, 0);
    return (int)nf_answer(nf_sys(SYS_prctl, operation, a, b, c, d));
}

/* What `syscall` does with the calls that are looked at. */
__attribute__((used)) long nf_syscall_seen(long number, long a, long b, long c, long d, long e, long f) {
    call *ours = looked_at(number, a);
    if (ours) return ours(number, a, b, c, d, e, f);
    return nf_answer(nf_sys6(number, a, b, c, d, e, f));
}

#if defined(__x86_64__)
/* Not a function of C: a call that comes back twice on one stack (vfork, clone) must find its return address where
 * it was. All but two numbers go straight to the C library's own. */
__attribute__((visibility("hidden"))) void *nf_next_syscall;
__attribute__((constructor)) static void find_syscall(void) { nf_next_syscall = nf_next("syscall"); }
_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317, "the numbers below");
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    endbr64\n"
        "    cmpq $157, %rdi\n"
        "    je nf_syscall_seen\n"
        "    cmpq $317, %rdi\n"
        "    je nf_syscall_seen\n"
        "    movq nf_next_syscall(%rip), %rax\n"
        "    testq %rax, %rax\n"
        "    je nf_syscall_seen\n"
        "    jmpq *%rax\n"
        ".size syscall, .-syscall\n");
#else
EXPORT long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long),
         e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    return nf_syscall_seen(number, a, b, c, d, e, f);
}
#endif
