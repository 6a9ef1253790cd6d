/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * nearfar.h - tell nearfar what your program is doing.
 *
 * Include it and call the five functions below; there is nothing to link. The
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
 * "weak" is what lets the program link while nobody defines them. Default
 * visibility is stated because -fvisibility=hidden would otherwise promise the
 * compiler that the definition is in this very file set, and the agent in a
 * library of its own would never be found. */
#define NEARFAR_WEAK __attribute__((weak, visibility("default")))
NEARFAR_WEAK void nearfar_agent_begin(void);
NEARFAR_WEAK void nearfar_agent_end(void);
NEARFAR_WEAK void nearfar_agent_phase_begin(const char *name);
NEARFAR_WEAK void nearfar_agent_phase_end(const char *name);
NEARFAR_WEAK void nearfar_agent_name(const void *address, size_t bytes, const char *name);
#undef NEARFAR_WEAK

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
    if (nearfar_agent_begin)
        nearfar_agent_begin();
}

static inline void nearfar_end(void)
{
    if (nearfar_agent_end)
        nearfar_agent_end();
}

/* A named stretch of time, for reports by phase. Phases of different names may
 * overlap and nest; a phase entered again adds to the phase of that name. As
 * the region of interest they belong to the process. The name must be a
 * string that stays valid until the program ends, such as a literal; the agent
 * keeps the pointer. */
static inline void nearfar_phase_begin(const char *name)
{
    if (nearfar_agent_phase_begin)
        nearfar_agent_phase_begin(name);
}

static inline void nearfar_phase_end(const char *name)
{
    if (nearfar_agent_phase_end)
        nearfar_agent_phase_end(name);
}

/* Name the memory object [address, address + bytes). Needed only where the
 * report cannot know better: memory from an allocator of your own, or one part
 * of a large block. The name holds until the same address is named again or
 * the memory is freed; the string is copied. Any thread may call this. */
static inline void nearfar_name(const void *address, size_t bytes, const char *name)
{
    if (nearfar_agent_name)
        nearfar_agent_name(address, bytes, name);
}

#ifdef __cplusplus
}
#endif

#endif
