/* The signal source: samples of registers from per-thread CPU-time timers.
 *
 * SIGPROF belongs to the program: if it has a handler, or sets one later, the
 * agent steps back for good. CPU-time timers fire at the kernel's tick at most,
 * and not while a thread sleeps. */
#include "agent.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum { TIMERS = 1024 };
/* Kernel ids + 1 of this process's timers, so that any thread can end all of them. */
static _Atomic int timers[TIMERS];
static _Atomic bool active;
/* The program has asked for SIGPROF: from then on it is the program's, whatever comes. */
static _Atomic bool given;
static struct sigaction original;
static __typeof__(&sigaction) next_sigaction;
static const char OUR_TIMER;

static uint64_t cpu_ns(void) { return nf_now(CLOCK_THREAD_CPUTIME_ID); }

static void run_for(int id, long first_ns, long period_ns) {
    struct itimerspec when = {.it_interval = {period_ns / 1000000000, period_ns % 1000000000},
                              .it_value = {first_ns / 1000000000, first_ns % 1000000000}};
    nf_sys(SYS_timer_settime, id, 0, &when, NULL);
}

/* Periods between 7/8 and 9/8: a loop that is in step with the timer would hide. */
static void arm(int id) {
    uint32_t x = nf_self.jitter ? nf_self.jitter : nf_tid() * 2654435761u | 1;
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    nf_self.jitter = x;
    long period = (long)(1000000000u / nf_process.signal_hz);
    long jittered = period - period / 8 + (long)(x % (uint32_t)(period / 4 + 1));
    run_for(id, jittered, period);
}

static void forget_timers(void) {
    for (unsigned i = 0; i < TIMERS; i++) {
        int id = atomic_exchange(&timers[i], 0);
        if (id) nf_sys(SYS_timer_delete, id - 1);
    }
}

static void set_all_timers(bool running) {
    long period = running ? (long)(1000000000u / nf_process.signal_hz) : 0;
    for (unsigned i = 0; i < TIMERS; i++) {
        int id = atomic_load(&timers[i]);
        if (id) run_for(id - 1, period, period);
    }
}

static void on_tick(int signal, siginfo_t *info, void *raw);

/* Ignoring a signal discards those on their way: none of ours may reach the program. */
static void step_back(bool for_good) {
    struct sigaction now;
    if (for_good) atomic_store(&given, true);
    if (!atomic_exchange(&active, false)) return;
    /* The program has installed its handler by a call that is not watched. */
    bool taken = next_sigaction(SIGPROF, NULL, &now) == 0 && now.sa_sigaction != on_tick;
    if (taken) atomic_store(&given, true);
    if (for_good || taken) forget_timers();
    else set_all_timers(false);
    if (taken) return;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    next_sigaction(SIGPROF, &ignore, NULL);
    next_sigaction(SIGPROF, &original, NULL);
}

static unsigned frames(const ucontext_t *context, uintptr_t *to) {
#if defined(__x86_64__)
    uintptr_t sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    uintptr_t fp = (uintptr_t)context->uc_mcontext.gregs[REG_RBP];
    uintptr_t high = nf_self.stack_high;
    /* On a stack that we do not know, the page in use is all that is surely there. */
    if (!high || sp < nf_self.stack_low || sp >= high) high = (sp | 4095) + 1;
    unsigned count = 0;
    /* A program without frame pointers keeps anything in that register, -16 too: fp + 16 could wrap. */
    while (count < NF_MAX_CHAIN && fp >= sp && fp % 8 == 0 && fp <= high - 16) {
        const uintptr_t *frame = (const uintptr_t *)fp;
        if (frame[1] < 4096) break;
        to[count++] = frame[1];
        if (frame[0] <= fp) break;
        fp = frame[0];
    }
    return count;
#else
    (void)context, (void)to;
    return 0;
#endif
}

static void registers(const ucontext_t *context, struct nf_sample *sample) {
#if defined(__x86_64__)
    static const unsigned char order[16] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
                                            REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                            REG_R12, REG_R13, REG_R14, REG_R15};
    for (unsigned i = 0; i < 16; i++) sample->registers[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
    sample->ip = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    sample->ip = context->uc_mcontext.pc;
#else
    (void)context, (void)sample;
#endif
}

static void on_tick(int signal, siginfo_t *info, void *raw) {
    int saved = errno;
    if (info->si_code != SI_TIMER || info->si_value.sival_ptr != &OUR_TIMER) {
        /* Somebody else's SIGPROF: let it do what it would have done without us. */
        step_back(true);
        nf_sys(SYS_tgkill, nf_sys(SYS_getpid), nf_sys(SYS_gettid), signal);
        errno = saved;
        return;
    }
    uint64_t now = cpu_ns();
    /* In the thread's own memory: a signal stack may be short. Ticks of one thread do not interrupt each other. */
    struct nf_sample *sample = &nf_self.sample;
    sample->weight_ns = now - nf_self.last_cpu_ns;
    nf_self.last_cpu_ns = now;
    registers(raw, sample);
    sample->chain = frames(raw, nf_self.chain);
    int guard = nf_self.guard;
    nf_self.guard = 1;
    nf_emit(NF_SAMPLE, 0, sample, sizeof *sample, nf_self.chain, sample->chain * sizeof nf_self.chain[0], false);
    nf_self.guard = guard;
    if (nf_self.timer && atomic_load(&active)) arm(nf_self.timer - 1);
    errno = saved;
}

static void set_handler(struct sigaction *before) {
    struct sigaction ours = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    next_sigaction(SIGPROF, &ours, before);
}

void nf_sampling_init(void) {
    if (!nf_process.signal_hz || nf_process.signal_hz > 100000) return;
    next_sigaction = NF_NEXT(sigaction);
    if (!next_sigaction || next_sigaction(SIGPROF, NULL, &original) != 0) return;
    if (original.sa_handler != SIG_DFL) {
        atomic_store(&given, true);
        nf_lost(NF_SIGPROF_TAKEN, 0);
        return;
    }
    set_handler(NULL);
    atomic_store(&active, true);
}

void nf_sampling_thread_start(void) {
    if (!atomic_load(&active)) return;
    uint64_t epoch = atomic_load(&nf_process.epoch);
    /* The first of a fork's child: the table still lists its parent's timers. */
    static _Atomic uint64_t table_of;
    if (atomic_exchange(&table_of, epoch) != epoch)
        for (unsigned i = 0; i < TIMERS; i++) atomic_store(&timers[i], 0);
    if (nf_self.timer && nf_self.timer_of == epoch) return;
    nf_self.timer = 0;
    if (nf_self.timer_stopped || nf_quiet()) return;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_value.sival_ptr = (void *)&OUR_TIMER;
    event._sigev_un._tid = (pid_t)nf_tid();
    int id;
    long refused = nf_sys(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &id);
    if (refused) {
        nf_lost(NF_TIMER_REFUSED, (uint64_t)-refused);
        return;
    }
    for (unsigned i = 0; i < TIMERS; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&timers[i], &none, id + 1)) {
            nf_self.timer = id + 1;
            nf_self.timer_of = epoch;
            nf_self.last_cpu_ns = cpu_ns();
            arm(id);
            return;
        }
    }
    nf_sys(SYS_timer_delete, id);
    nf_lost(NF_TIMER_REFUSED, EAGAIN);
}

void nf_sampling_thread_end(void) {
    int timer = nf_self.timer;
    nf_self.timer = 0;
    if (nf_quiet()) return; /* the kernel ends it with the process */
    for (unsigned i = 0; timer && i < TIMERS; i++) {
        int expected = timer;
        if (atomic_compare_exchange_strong(&timers[i], &expected, 0)) {
            nf_sys(SYS_timer_delete, timer - 1);
            return;
        }
    }
}

/* The kernel ends timers at exec, but a signal already on its way would meet the
 * new image's default action, which should die. */
void nf_sampling_before_exec(void) { step_back(false); }

void nf_sampling_exec_failed(void) {
    struct sigaction before;
    if (!nf_process.signal_hz || nf_quiet() || !next_sigaction || atomic_load(&given)) return;
    set_handler(&before);
    if (before.sa_handler != SIG_DFL) {
        /* Another thread has taken it meanwhile, or it was taken by a way that is not watched. */
        next_sigaction(SIGPROF, &before, NULL);
        atomic_store(&given, true);
        forget_timers();
        return;
    }
    atomic_store(&active, true);
    set_all_timers(true);
    nf_sampling_thread_start();
}

void nf_sampling_pause(void) { step_back(false); }
void nf_sampling_resume(void) { nf_sampling_exec_failed(); }

/* Bytes of a signal stack that a tick takes: the kernel's frame with the processor's registers, and the handler. */
static size_t least_signal_stack(void) {
    static _Atomic size_t known;
    size_t least = atomic_load(&known);
    if (!least) {
        unsigned long (*value)(unsigned long);
        void *f = nf_symbol("getauxval");
        memcpy(&value, &f, sizeof value);
        unsigned long frame = value ? value(AT_MINSIGSTKSZ) : 0;
        /* What the largest register file of x86-64 takes, where an old kernel does not say. */
        least = (frame ? frame : 4096) + 2048;
        atomic_store(&known, least);
    }
    return least;
}

/* A thread whose signals go to a stack on which our handler does not fit gets no ticks. */
EXPORT int sigaltstack(const stack_t *stack, stack_t *old) {
    bool small = stack && !(stack->ss_flags & SS_DISABLE) && stack->ss_size < least_signal_stack();
    if (UNLIKELY(small && nf_self.timer && atomic_load(&active))) {
        int saved = errno;
        nf_sampling_thread_end();
        nf_self.timer_stopped = true;
        if (nf_enter()) {
            nf_lost(NF_SMALL_STACK_OF_SIGNALS, stack->ss_size);
            nf_leave();
        }
        errno = saved;
    }
    long result = nf_sys(SYS_sigaltstack, stack, old);
    if (stack && result == 0 && !small && UNLIKELY(nf_self.timer_stopped)) {
        nf_self.timer_stopped = false;
        nf_sampling_thread_start();
    }
    return (int)nf_answer(result);
}

/* The program asks for SIGPROF: it gets it as if we had never been there. */
static void hand_over(int signal) {
    if (signal != SIGPROF || !nf_process.signal_hz || atomic_load(&given) || nf_quiet() || !nf_is_own_process()) return;
    int saved = errno;
    step_back(true);
    if (nf_enter()) {
        nf_lost(NF_SIGPROF_TAKEN, 0);
        nf_leave();
    }
    errno = saved;
}

EXPORT int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
    if (UNLIKELY(!next_sigaction)) next_sigaction = NF_NEXT(sigaction);
    if (UNLIKELY(!next_sigaction)) {
        errno = ENOSYS;
        return -1;
    }
    if (UNLIKELY(signal == SIGPROF && !action && atomic_load(&active))) {
        if (old) *old = original;
        return 0;
    }
    if (action) hand_over(signal);
    return next_sigaction(signal, action, old);
}

#define SIGNAL(name)                                                  \
    EXPORT __sighandler_t name(int number, __sighandler_t handler) {  \
        static __sighandler_t (*next)(int, __sighandler_t);           \
        if (UNLIKELY(!next)) {                                        \
            void *found = nf_next(#name);                             \
            memcpy(&next, &found, sizeof next);                       \
        }                                                             \
        if (UNLIKELY(!next)) {                                        \
            errno = ENOSYS;                                           \
            return SIG_ERR;                                           \
        }                                                             \
        hand_over(number);                                            \
        return next(number, handler);                                 \
    }

/* Old ways that programs still use. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
__sighandler_t bsd_signal(int, __sighandler_t);
SIGNAL(signal)
SIGNAL(bsd_signal)
SIGNAL(sysv_signal)
SIGNAL(sigset)
