/* Programs that shut themselves in: a seccomp filter may end the process at any call that it does not expect, and
 * which those are nobody can ask without calling. So the agent watches the calls that install one, does before them
 * what it cannot do afterwards, and makes no system call from then on (`nf_process.quiet`): it goes on writing
 * records into a ring that is in memory as a whole. What needs a call is left out and said: samples of the signal
 * rung, homes, thread stacks, new threads' records, pins and placements.
 *
 * A filter that was there before the program began (a container's, a launcher's) is the recorder's own, which has
 * tried, or one that somebody installed on the way: then the agent does not attach. */
#include "agent.h"

#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>

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

bool nf_sandboxed_from_outside(const struct nf_header *header) {
    /* The loader has just made these same calls. */
    char text[4096];
    size_t bytes = nf_read_file("/proc/self/status", text, sizeof text - 1);
    text[bytes] = 0;
    unsigned long mode = field(text, "Seccomp:", UINT32_MAX);
    if (mode == SECCOMP_MODE_DISABLED) return false;
    if (mode != header->seccomp_mode) return true;
    unsigned long filters = field(text, "Seccomp_filters:", UINT32_MAX);
    if (filters != UINT32_MAX && header->seccomp_filters != UINT32_MAX) return filters != header->seccomp_filters;
    /* Before Linux 5.9 nobody says how many there are. */
    return __atomic_load_n(&header->filtering, __ATOMIC_RELAXED) != 0;
}

static bool installs(long operation) { return operation == PR_SET_SECCOMP; }

static void begin(void) {
    nf_pins_before_filter();
    if (nf_process.header) __atomic_store_n(&nf_process.header->filtering, 1, __ATOMIC_RELAXED);
    if (nf_attached() && nf_is_own_process() && nf_enter()) {
        nf_objects_tell(true);
        nf_homes_at_exit();
        nf_lost(NF_SANDBOX, 0);
        nf_leave();
        nf_sampling_pause();
        /* A clock that is a system call is none of ours any more. */
        atomic_store(&nf_process.mute, !nf_fill_ring() || !(nf_process.flags & NF_SET_VDSO_CLOCK));
    }
    atomic_store(&nf_process.quiet, true);
}

/* The kernel has refused it: all is as before. */
static void not_installed(void) {
    atomic_store(&nf_process.mute, false);
    atomic_store(&nf_process.quiet, false);
    nf_sampling_resume();
}

static long call_that_installs(long number, long a, long b, long c, long d, long e, long f) {
    int saved = errno;
    bool first = !nf_quiet();
    if (first) begin();
    long result = nf_sys6(number, a, b, c, d, e, f);
    if (first && result < 0 && result > -4096) not_installed();
    errno = saved;
    return nf_answer(result);
}

EXPORT int prctl(int operation, ...) {
    va_list rest;
    va_start(rest, operation);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long);
    va_end(rest);
    if (UNLIKELY(installs(operation))) return (int)call_that_installs(SYS_prctl, operation, a, b, c, d, 0);
    return (int)nf_answer(nf_sys(SYS_prctl, operation, a, b, c, d));
}

/* What `syscall` does with the calls that are looked at. */
__attribute__((used)) long nf_syscall_seen(long number, long a, long b, long c, long d, long e, long f) {
    bool sets = (number == SYS_seccomp && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER)) ||
                (number == SYS_prctl && installs(a));
    if (sets) return call_that_installs(number, a, b, c, d, e, f);
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
