/* Parallel regions of OpenMP as phases, where the runtime offers OMPT (LLVM's and Intel's; OpenMP 5.0, chapter 4).
 *
 * The runtime asks for a tool by the name ompt_start_tool. A tool of the program's own comes first: what it is asked
 * for behind us, and what OMP_TOOL_LIBRARIES names, is left alone. */
#include "agent.h"

#include <string.h>

typedef union {
    uint64_t value;
    void *ptr;
} ompt_data_t;
typedef void (*ompt_interface_fn_t)(void);
typedef ompt_interface_fn_t (*ompt_function_lookup_t)(const char *);
typedef struct {
    int (*initialize)(ompt_function_lookup_t, int, ompt_data_t *);
    void (*finalize)(ompt_data_t *);
    ompt_data_t tool_data;
} ompt_start_tool_result_t;
typedef int (*ompt_set_callback_t)(int, void (*)(void));

enum { OMPT_PARALLEL_BEGIN = 3, OMPT_PARALLEL_END = 4, OMPT_SET_ALWAYS = 5 };

/* The report puts the function and line in the place of the address. */
static void name_of(char *to, uint64_t site) {
    static const char BEGIN[] = NF_OPENMP_NAME, HEX[] = "0123456789abcdef";
    size_t n = 0;
    for (; BEGIN[n]; n++) to[n] = BEGIN[n];
    for (int shift = 60; shift >= 0; shift -= 4)
        if (site >> shift) to[n++] = HEX[site >> shift & 15];
    to[n] = 0;
}

static void parallel_begin(ompt_data_t *task, const void *frame, ompt_data_t *parallel, unsigned threads, int flags,
                           const void *site) {
    (void)task, (void)frame, (void)threads, (void)flags;
    char name[64];
    parallel->value = (uintptr_t)site;
    name_of(name, parallel->value);
    nf_phase_begin(name, parallel->value, NF_SAID_BY_OPENMP, NULL);
}

static void parallel_end(ompt_data_t *parallel, ompt_data_t *task, int flags, const void *site) {
    (void)task, (void)flags;
    char name[64];
    name_of(name, parallel->value);
    nf_phase_end(name, (uintptr_t)site, NF_SAID_BY_OPENMP, NULL);
}

static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *data) {
    (void)device, (void)data;
    ompt_interface_fn_t found = lookup("ompt_set_callback");
    ompt_set_callback_t set;
    memcpy(&set, &found, sizeof set);
    /* Both or none: a beginning alone would never end. */
    return set && set(OMPT_PARALLEL_BEGIN, (void (*)(void))parallel_begin) == OMPT_SET_ALWAYS &&
           set(OMPT_PARALLEL_END, (void (*)(void))parallel_end) == OMPT_SET_ALWAYS;
}

static void finalize(ompt_data_t *data) { (void)data; }

EXPORT ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime) {
    static ompt_start_tool_result_t result = {.initialize = initialize, .finalize = finalize};
    ompt_start_tool_result_t *(*next)(unsigned, const char *);
    void *f = nf_next("ompt_start_tool");
    memcpy(&next, &f, sizeof next);
    ompt_start_tool_result_t *own = next ? next(version, runtime) : NULL;
    const char *libraries = nf_environment("OMP_TOOL_LIBRARIES");
    if (own || (libraries && *libraries) || !nf_attached()) return own;
    return &result;
}
