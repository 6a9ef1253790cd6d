/* What the agent's files share. Nothing here is visible to the program. */
#ifndef NEARFAR_AGENT_H
#define NEARFAR_AGENT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Where the C library keeps errno; weak, as all that is used of it: see system.h. */
#pragma weak __errno_location

#include "protocol.h"
#include "system.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static inline void nf_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

enum { NF_RANGES = 4 };

/* The kernel can forbid a thread to read the time stamp counter (prctl(PR_SET_TSC), strict seccomp): the instruction
 * then is a SIGSEGV, and the C library's clock_gettime uses it. Threads, forks and new images inherit that. */
enum nf_counter { NF_COUNTER_UNASKED = 0, NF_COUNTER_ALLOWED, NF_COUNTER_FORBIDDEN };

/* A thread's private state. Initial-exec: reaching it must not allocate. */
struct nf_thread {
    /* > 0 while this thread is inside the agent: hooks that are reached from
     * there (dlsym, pthread_getattr_np, a signal handler) pass straight through. */
    int guard;
    uint32_t tid;
    uint32_t told_tid;   /* the same as the recorder knows it */
    uint64_t tid_of;     /* nf_process.epoch for which both hold; a fork changes it */
    int64_t small_left;  /* bytes until the next small-allocation sample */
    int64_t small_step;  /* what small_left started from; 0 before the first */
    uintptr_t stack_low;
    uintptr_t stack_high; /* 0: unknown */
    int timer;           /* kernel timer id + 1; 0 = none */
    uint64_t timer_of;   /* epoch in which it was made: timers do not survive fork */
    uint64_t last_cpu_ns;
    uint32_t jitter;     /* random state of the timer's periods */
    unsigned next_module;
    struct {
        uintptr_t start, bytes;
    } modules[NF_RANGES]; /* where words of its stack pointed to last */
    struct nf_phases *phases; /* phases.c; NULL before the first */
    uint32_t dice;       /* and of the small samples: the handler may interrupt its use */
    bool timer_stopped;  /* its alternate signal stack is too short */
    uint8_t counter;     /* enum nf_counter: whether it may read the time stamp counter */
    /* What the handler of a tick writes: on a short signal stack there is no room for it. */
    struct nf_sample sample;
    uintptr_t chain[NF_MAX_CHAIN];
};
extern _Thread_local struct nf_thread nf_self __attribute__((tls_model("initial-exec")));

/* The process's state. Settings are copied here so that hooks do not touch shared memory. */
struct nf_process {
    _Atomic uint64_t epoch; /* 0 before attaching; grows with each attach, also in a fork's child */
    _Atomic size_t min_object; /* hooks look from this size on; SIZE_MAX while there is nothing to do */
    size_t record_from;        /* and record from this on; what is smaller is only placed */
    int64_t small_sample;
    uint32_t looked_up_pages;
    uint32_t signal_hz;
    uint32_t flags;
    uint32_t pid;
    uint32_t told_pid;         /* the same as the recorder knows it: other in a PID namespace of the program's */
    uint64_t generation;
    uint64_t start_ns;
    _Atomic bool mute;         /* and not even records can be written */
    _Atomic bool quiet;        /* under a seccomp filter of the program's own: no system calls (sandbox.c) */
    _Atomic bool installing;   /* a thread is asking the kernel for a filter */
    struct nf_header *header;
    struct nf_segment *segment; /* NULL: not attached */
    char *ring;
    /* A private page that the kernel empties in the child of every fork, also of a
     * clone() that runs no fork handlers: such a child must not write into its
     * parent's ring. Where the kernel cannot do that (before 4.14), the fork handler
     * empties it. */
    _Atomic uint32_t *alive;
    void (*forked)(void); /* what a hook calls that finds it empty */
};
extern struct nf_process nf_process;

/* The caller of a hook, as far as the hook can know it. */
struct nf_site {
    uintptr_t rip, rsp, rbp;
};

/* Must expand in the hook itself: a frame with a frame pointer has the caller's
 * at [0], the return address at [1], and the caller's stack pointer is behind. */
#define NF_SITE()                                                                   \
    ((struct nf_site){(uintptr_t)__builtin_return_address(0),                       \
                      (uintptr_t)__builtin_frame_address(0) + 2 * sizeof(uintptr_t), \
                      *(uintptr_t *)__builtin_frame_address(0)})

/* self.c */
bool nf_attached(void);
bool nf_is_own_process(void);
/* Its own, for system calls; 0 if it is not known and may not be asked for. */
uint32_t nf_tid(void);
/* As the recorder knows it. */
uint32_t nf_told_tid(void);
/* The last number of a link of /proc; 0 if there is none. */
uint32_t nf_number_in(const char *link);
/* 0 if this thread may not read a clock: see nf_has_clock. */
uint64_t nf_now(clockid_t clock);
/* False in a thread that may neither read the time stamp counter nor make a system call. */
bool nf_has_clock(void);
void nf_clock_init(void);
void nf_yield(void);
/* A record could not be written, since this thread may not make the calls for it. */
void nf_lost_quietly(void);

/* attach.c */
bool nf_attach(const char *path);
void nf_after_fork(void);

/* ring.c */
/* Records go to this ring from now on, of which `have` bytes are in memory. */
void nf_ring_begins(char *ring, size_t have);
/* In the child of a fork: who held the lock is not here. */
void nf_ring_after_fork(void);
bool nf_populate(void *from, size_t bytes);
void nf_close_segment(void);
/* Writes one record. `wait`: may wait for room (false in the signal handler). */
bool nf_emit(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
             size_t tail_bytes, bool wait);
/* The same of a time that the caller has read. */
bool nf_emit_at(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
                size_t tail_bytes, uint64_t at);
void nf_lost(enum nf_why why, uint64_t count);
/* The same of the time `at`: needs neither a clock nor a process that is not mute. */
void nf_lost_at(enum nf_why why, uint64_t count, uint64_t at);
/* The process is about to end: waits longer for room in the ring. */
void nf_last_words(void);
/* Has the whole ring in memory; false if it cannot be had. */
bool nf_fill_ring(void);

/* phases.c. `site`: return address of the call, `place`: the same as "file:line" where there is none, or NULL. */
void nf_phase_begin(const char *name, uint64_t site, uint8_t source, const char *place);
void nf_phase_end(const char *name, uint64_t site, uint8_t source, const char *place);
void nf_phase_metric(const char *name, double value);
/* mpi.c: calls of MPI become phases. */
void nf_mpi_init(void);
/* The region of interest begins or ends. */
void nf_region(bool begins);
void nf_phases_thread_end(void);
void nf_phases_exit(void);

/* python.c */
struct nf_python_frame {
    uintptr_t code, instruction, lines, file, name;
    int first_line;
    bool direct; /* what it leads to is known to be memory */
};
enum { NF_PYTHON_FRAMES = 6, NF_PYTHON_TEXT = 1024 };
void nf_python_init(void);
/* The frames of Python that this thread is in, at most NF_PYTHON_FRAMES; 0 in other programs. */
unsigned nf_python_frames(struct nf_python_frame *frames);
size_t nf_python_text(const struct nf_python_frame *frames, unsigned count, char *text, size_t room);

/* sandbox.c */
bool nf_sandboxed_from_outside(const struct nf_header *header);
/* Whether there is any filter already, or it cannot be known. */
bool nf_under_filter(void);
/* While a thread asks the kernel for a filter, which may be refused: waits for the answer, without a system call. */
void nf_await_filter(void);
static inline bool nf_quiet(void) { return UNLIKELY(atomic_load_explicit(&nf_process.quiet, memory_order_relaxed)); }

/* objects.c: live recorded objects by address. */
bool nf_objects_init(void);
/* A new object, told at once or only noted: see "Storms" in protocol.h. */
void nf_object_begins(uint16_t flags, uintptr_t address, size_t bytes, uintptr_t previous, const struct nf_site *site);
/* Its end, before the memory can be anybody else's. Its bytes; 0 if it was not known. `told`, if not NULL: whether
 * its beginning was recorded. */
size_t nf_object_ends(uintptr_t address, uint16_t flags, bool look_at_page_nodes, bool *told);
/* Its bytes, and the flags of its ALLOC; 0 if it is not known. */
size_t nf_object_bytes(uintptr_t address, uint16_t *flags);
/* Takes it out without a word: its bytes, and the flags of its ALLOC; 0 if it was not known. */
size_t nf_object_forget(uintptr_t address, uint16_t *flags);
void nf_objects_after_fork(void);
/* Tells what was only noted and is still there; all of it, or what is ripe. */
void nf_objects_tell(bool all);
extern _Atomic uint8_t nf_object_filter[4096];
static inline unsigned nf_filter_slot(uintptr_t address) {
    return (unsigned)((address * 0x9e3779b97f4a7c15ull) >> 52);
}
/* Nearly every free() ends here: one byte of a table that stays in the L1 cache. */
static inline bool nf_object_possible(uintptr_t address) {
    return atomic_load_explicit(&nf_object_filter[nf_filter_slot(address)], memory_order_relaxed);
}
/* Calls `f` for objects that this process (not a fork parent) added, until it returns false. */
void nf_objects_each(bool (*f)(uintptr_t address, size_t bytes, void *), void *state);

/* sites.c */
void nf_sites_init(void);
/* How many bytes above `from` can be read, at most `most`. */
size_t nf_readable(uintptr_t from, size_t most);
/* Gives the key of the call chain; 0 if nothing was written. */
uint64_t nf_record_alloc(uint16_t flags, uintptr_t address, size_t bytes, size_t represents,
                     uintptr_t previous, const struct nf_site *site);
/* The key of a call chain that was sent; 0 if it was not. */
uint64_t nf_known_site(const struct nf_site *site);
/* Whether code is the C library's or a runtime's, as far as that is known. */
bool nf_is_runtime(uintptr_t address);
/* An object of a known site, told late. */
void nf_record_late(uint16_t flags, uintptr_t address, size_t bytes, uint64_t site, const struct nf_site *where,
                    uint64_t born);

/* hypercall.c */
void nf_hypercall(enum nf_hypercall operation, uint64_t value);
void nf_hypercall_record(uint16_t kind);
void nf_program_begins(void);

/* page_nodes.c */
void nf_page_nodes(uintptr_t address, size_t bytes);
/* `each` calls a function for all objects: nf_objects_each. */
void nf_page_nodes_at_exit(void (*each)(bool (*)(uintptr_t address, size_t bytes, void *), void *));

/* threads.c */
void nf_threads_init(void);
void nf_thread_here(bool main_thread);

/* pins.c: threads on cpus, also where nothing is recorded */
void nf_pins_init(void);
bool nf_pins(void);
unsigned nf_pins_next(void);
void nf_pin_thread(unsigned thread);
void nf_pins_before_exec(void);
void nf_pins_before_filter(void);
void nf_pins_without_filter(void);

/* places.c: policies of objects, also where nothing is recorded */
size_t nf_places_init(void);
void nf_place(uintptr_t address, size_t bytes, const struct nf_site *site);

/* sampling.c: the signal source */
void nf_sampling_init(void);
void nf_sampling_thread_start(void);
void nf_sampling_thread_end(void);
void nf_sampling_before_exec(void);
void nf_sampling_exec_failed(void);
/* Stops all timers; and has them run again, of all threads. */
void nf_sampling_pause(void);
void nf_sampling_resume(void);

/* process.c */
void nf_send_maps(void);

/* Enters the agent: false if the thread is already inside or nothing is recorded. */
static inline bool nf_enter(void) {
    if (nf_self.guard || !nf_attached()) return false;
    if (nf_quiet() && !nf_has_clock()) {
        nf_lost_quietly();
        return false;
    }
    nf_self.guard = 1;
    return true;
}
static inline void nf_leave(void) { nf_self.guard = 0; }

#endif
