/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * nearfar.h - tell nearfar what your program is doing.
 *
 * Include it and call the functions below; there is nothing to link. The
 * work is done by nearfar's preload library (the agent). When the program runs
 * without it, each call costs one load and one branch, so the marks can stay
 * in production code.
 *
 * Works from C11 and C++11 on, in position-independent and fixed-address
 * executables, in shared libraries, and in static executables, where no agent
 * can be preloaded and every call is a no-op.
 */
#ifndef NEARFAR_H
#define NEARFAR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the agent defines. A program never calls these itself: without the
 * agent their address is null.
 *
 * "weak" is what lets the program link while they are not defined. Default
 * visibility is stated because -fvisibility=hidden would otherwise promise the
 * compiler that the definition is in the same binary, and the agent in a
 * library of its own would never be found. */
#define NEARFAR_WEAK __attribute__((weak, visibility("default")))
NEARFAR_WEAK void nearfar_agent_begin(void);
NEARFAR_WEAK void nearfar_agent_end(void);
NEARFAR_WEAK void nearfar_agent_phase_begin(const char *name);
NEARFAR_WEAK void nearfar_agent_phase_end(const char *name);
NEARFAR_WEAK void nearfar_agent_name(const void *address, size_t bytes, const char *name);
NEARFAR_WEAK void nearfar_agent_metric(const char *name, double value);
#undef NEARFAR_WEAK

/* The address of one of them, or null, as the dynamic linker found it at start.
 *
 * In code for a fixed address (-no-pie) x86-64 compilers write the address of a
 * function into the instruction; the linker, finding no definition, puts 0
 * there for good, and no library loaded later can change it. So that code has
 * to ask for the load from the global offset table, which all other code does
 * of itself. */
#if defined(__x86_64__) && !defined(__PIC__) && !defined(__PIE__)
#define NEARFAR_AGENT(function)                                                                    \
    __extension__({                                                                                \
        __typeof__(&function) nearfar_found;                                                       \
        __asm__(".weak " #function "\n\t"                                                          \
                "mov{q\t" #function "@GOTPCREL(%%rip), %0|\t%0, QWORD PTR " #function              \
                "@GOTPCREL[rip]}"                                                                  \
                : "=r"(nearfar_found));                                                            \
        nearfar_found;                                                                             \
    })
#else
#define NEARFAR_AGENT(function) (&function)
#endif

/* Inlined even where nothing else is (-O0), so that the place of a call is the program's line, not one of this file. */
#define NEARFAR_INLINE static inline __attribute__((always_inline))

/* The region of interest: what lies between begin and end is what the report
 * is about; allocation and first touches are recorded before it as well,
 * because they decide where the pages live. A program without marks is one
 * region from start to exit.
 *
 * The region belongs to the process, not to a thread: call begin and end from
 * one thread, outside parallel regions. Begin and end may alternate many
 * times; regions do not nest. */
static inline void nearfar_begin(void)
{
    void (*const call)(void) = NEARFAR_AGENT(nearfar_agent_begin);
    if (call)
        call();
}

static inline void nearfar_end(void)
{
    void (*const call)(void) = NEARFAR_AGENT(nearfar_agent_end);
    if (call)
        call();
}

/* A phase: a named part of the program's work, for reports by phase. Phases nest within a thread; a phase entered
 * again adds to the phase of that name in the same one around it. Threads that are in no phase of their own, as those
 * of a parallel region, count for the phase that their process's first thread with phases is in.
 *
 * A phase ends by its name. Phases inside that have not ended (longjmp, an exception, a return) end with it, and the
 * report lists them with both places. The name is copied: it may be made anew for each call ("step 17"). In a signal
 * handler that interrupts one of these functions a call does nothing, and is counted as lost.
 *
 * With the agent a call takes less than 100 ns (benches/phases). A path of phases that a thread takes more than 4096
 * times a second is counted, not recorded call by call. */
NEARFAR_INLINE void nearfar_phase_begin(const char *name)
{
    void (*const call)(const char *) = NEARFAR_AGENT(nearfar_agent_phase_begin);
    if (call)
        call(name);
}

NEARFAR_INLINE void nearfar_phase_end(const char *name)
{
    void (*const call)(const char *) = NEARFAR_AGENT(nearfar_agent_phase_end);
    if (call)
        call(name);
}

/* A number of the program's own, such as a residual or a count of particles: the report has its mean, least and most
 * by phase. */
NEARFAR_INLINE void nearfar_metric(const char *name, double value)
{
    void (*const call)(const char *, double) = NEARFAR_AGENT(nearfar_agent_metric);
    if (call)
        call(name, value);
}

/* Name the memory object [address, address + bytes). Needed only where the
 * report cannot know better: memory from an allocator of your own, or one part
 * of a large block. The name holds until the same address is named again or
 * the memory is freed; the string is copied. Any thread may call this. */
static inline void nearfar_name(const void *address, size_t bytes, const char *name)
{
    void (*const call)(const void *, size_t, const char *) = NEARFAR_AGENT(nearfar_agent_name);
    if (call)
        call(address, bytes, name);
}

#undef NEARFAR_AGENT
#undef NEARFAR_INLINE

#ifdef __cplusplus
}
#endif

#endif
