/* Markers of other tools as phases, as they are in people's code: LIKWID's marker functions, and the collector's side
 * of Intel's ITT notify, which a program loads by the name in INTEL_LIBITTNOTIFY64. Their public interfaces; where
 * the program brings LIKWID itself, it does its own work as well. */
#include "agent.h"

#include <string.h>
#include <sys/mman.h>

#define SITE ((uint64_t)(uintptr_t)__builtin_return_address(0))

typedef int marker(const char *);

static int marked(const char *function, const char *name) {
    marker *next;
    void *f = nf_next(function);
    memcpy(&next, &f, sizeof next);
    return next ? next(name) : 0;
}

/* Outside of what LIKWID measures. */
EXPORT int likwid_markerStartRegion(const char *name) {
    nf_phase_begin(name, SITE, NF_SAID_BY_LIKWID, NULL);
    return marked("likwid_markerStartRegion", name);
}

EXPORT int likwid_markerStopRegion(const char *name) {
    int result = marked("likwid_markerStopRegion", name);
    nf_phase_end(name, SITE, NF_SAID_BY_LIKWID, NULL);
    return result;
}

/* What programs look into: a domain's `flags` must not be 0, else their macros do not call. */
typedef struct domain {
    volatile int flags;
    const char *name;
    void *wide;
    int extra1;
    void *extra2;
    struct domain *next;
} domain;
typedef struct handle {
    const char *name;
    void *wide;
    int extra1;
    void *extra2;
    struct handle *next;
} handle;
typedef struct {
    unsigned long long d1, d2, d3;
} itt_id;

/* Names are kept as long as the process lives: programs keep pointers to them. */
enum { ROOM = 1 << 16 };
static atomic_flag making = ATOMIC_FLAG_INIT;
static char *room;
static size_t used;

static void *keep(size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if (!room) {
        long at = nf_quiet() ? -1 : nf_sys(SYS_mmap, NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at < 0 && at > -4096) return NULL;
        room = (char *)at;
    }
    if (used + bytes > ROOM) return NULL;
    void *p = room + used;
    used += bytes;
    return p;
}

static const char *kept(const char *name) {
    size_t n = 0;
    while (name[n] && n < NF_MAX_NAME) n++;
    char *copy = keep(n + 1);
    for (size_t i = 0; copy && i < n; i++) copy[i] = name[i];
    return copy;
}

static bool same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

static void lock(void) {
    while (atomic_flag_test_and_set_explicit(&making, memory_order_acquire)) nf_pause();
}
static void unlock(void) { atomic_flag_clear_explicit(&making, memory_order_release); }

/* 1: the functions below are found by their names. */
EXPORT const char *__itt_api_version(void) { return "nearfar"; }

EXPORT domain *__itt_domain_create(const char *name) {
    static domain *all;
    if (!name) return NULL;
    lock();
    domain *d = all;
    while (d && !(d->name && same(d->name, name))) d = d->next;
    if (!d && (d = keep(sizeof *d))) {
        *d = (domain){.flags = 1, .name = kept(name), .next = all};
        all = d;
    }
    unlock();
    return d;
}

EXPORT handle *__itt_string_handle_create(const char *name) {
    static handle *all;
    if (!name) return NULL;
    lock();
    handle *h = all;
    while (h && !(h->name && same(h->name, name))) h = h->next;
    if (!h && (h = keep(sizeof *h))) {
        *h = (handle){.name = kept(name), .next = all};
        all = h;
    }
    unlock();
    return h;
}

/* The end of a task does not say which: it is the thread's last. */
enum { TASKS = 64 };
static _Thread_local struct {
    uint32_t depth;
    const char *names[TASKS];
} tasks __attribute__((tls_model("initial-exec")));

EXPORT void __itt_task_begin(const domain *d, itt_id task, itt_id parent, handle *name) {
    (void)d, (void)task, (void)parent;
    const char *text = name && name->name ? name->name : "(ITT task)";
    if (tasks.depth < TASKS) {
        tasks.names[tasks.depth] = text;
        nf_phase_begin(text, SITE, NF_SAID_BY_ITT, NULL);
    }
    tasks.depth++;
}

EXPORT void __itt_task_end(const domain *d) {
    (void)d;
    if (!tasks.depth) return;
    if (--tasks.depth < TASKS) nf_phase_end(tasks.names[tasks.depth], SITE, NF_SAID_BY_ITT, NULL);
}

EXPORT void __itt_frame_begin_v3(const domain *d, itt_id *id) {
    (void)id;
    nf_phase_begin(d && d->name ? d->name : "(ITT frame)", SITE, NF_SAID_BY_ITT, NULL);
}

EXPORT void __itt_frame_end_v3(const domain *d, itt_id *id) {
    (void)id;
    nf_phase_end(d && d->name ? d->name : "(ITT frame)", SITE, NF_SAID_BY_ITT, NULL);
}

/* The region of interest, as collectors that are paused see it. */
EXPORT void __itt_resume(void) { nf_region(true); }
EXPORT void __itt_pause(void) { nf_region(false); }
EXPORT void __itt_detach(void) {}
EXPORT void __itt_thread_set_name(const char *name) { (void)name; }
EXPORT void __itt_thread_ignore(void) {}
EXPORT void __itt_id_create(const domain *d, itt_id id) { (void)d, (void)id; }
EXPORT void __itt_id_destroy(const domain *d, itt_id id) { (void)d, (void)id; }
