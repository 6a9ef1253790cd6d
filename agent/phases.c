/* What the program says of itself: region of interest, names, phases and metrics, through nearfar.h's weak symbols.
 *
 * Phases nest within a thread. A thread keeps the phases that it is in as a stack, and a tree of the paths (main =>
 * iteration => halo) that it has been on. A phase is recorded one by one, with its beginning and its end, as long as
 * its path is not taken more often than NF_PHASE_RATE times a second; beyond that it is only counted, by path, and
 * the counts are written ten times a second. A recorded phase is in recorded ones only, so that what the recorder
 * knows is a tree as well.
 *
 * All of it is the thread's own memory: no lock, no allocation but one mapping at the first phase. A signal handler
 * that interrupts these functions does not get in (nf_enter), and what it says then is lost and counted. */
#include "agent.h"

#include <string.h>
#include <sys/mman.h>

enum { DEPTH = 128, NODES = 512, NAMES = 24576, PATH = 1024 };
/* Recorded one by one: so many of a path at once, and a second. */
static const uint32_t BURST = 4096;
static const uint64_t NS_EACH = 1000000000u / NF_PHASE_RATE;
static const uint64_t FLUSH_NS = 100000000;
/* Between the names of a path. */
static const char SEPARATOR = 0x1f;

/* A path: its last name, and the path before. Node 0 is not a phase; node 1 stands for all that there is no room for. */
struct node {
    uint64_t hash;
    uint32_t parent, name; /* the name: its place in `names` */
    uint16_t bytes;
    uint8_t source;
    bool metric;
    uint32_t tokens;
    uint64_t refilled;
    /* Not written yet. */
    uint64_t calls, inclusive_ns;
    double sum, least, most;
};

struct frame {
    uint64_t hash, begin_ns, site;
    uint32_t node, id; /* id: 0 where it is only counted */
};

struct nf_phases {
    struct nf_phases *next; /* all of the process, for its end */
    uint64_t of;            /* epoch of the process: other in a fork's child */
    _Atomic uint32_t tid;   /* whose it is; 0: the thread has ended */
    uint32_t depth;         /* may be more than DEPTH: those are counted only */
    uint32_t nodes, names_used, last_id;
    uint64_t flushed;
    struct frame frames[DEPTH];
    struct node node[NODES];
    uint16_t table[2 * NODES]; /* by hash; 0: none */
    char names[NAMES];
};

static struct nf_phases *_Atomic all;

static uint64_t hash_of(const char *name, size_t *bytes) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a: names are short */
    size_t n = 0;
    for (; name[n] && n < NF_MAX_NAME; n++) h = (h ^ (unsigned char)name[n]) * 0x100000001b3u;
    *bytes = n;
    return h ? h : 1;
}

static size_t length_of(const char *place) {
    size_t n = 0;
    while (place && n < NF_MAX_NAME && place[n]) n++;
    return n;
}

/* One of a thread that has ended. */
static struct nf_phases *used_again(void) {
    for (struct nf_phases *p = atomic_load(&all); p; p = p->next) {
        uint32_t nobody = 0;
        if (!atomic_load_explicit(&p->tid, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&p->tid, &nobody, nf_told_tid()))
            return p;
    }
    return NULL;
}

static struct nf_phases *mine(void) {
    struct nf_phases *p = nf_self.phases;
    if (LIKELY(p != NULL)) return p;
    if (nf_quiet()) {
        nf_lost_quietly();
        return NULL;
    }
    p = used_again();
    if (p) return nf_self.phases = p;
    long at = nf_sys(SYS_mmap, NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at > -4096) {
        nf_lost_quietly();
        return NULL;
    }
    p = (struct nf_phases *)at;
    p->nodes = 2;
    static const char OTHER[] = "(other phases)";
    memcpy(p->names, OTHER, sizeof OTHER - 1);
    p->names_used = sizeof OTHER - 1;
    p->node[1].bytes = sizeof OTHER - 1;
    p->of = atomic_load_explicit(&nf_process.epoch, memory_order_relaxed);
    p->flushed = nf_now(CLOCK_MONOTONIC);
    atomic_store(&p->tid, nf_told_tid());
    nf_self.phases = p;
    p->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &p->next, p)) {}
    return p;
}

/* The path that `parent` and a name make. */
static uint32_t node_of(struct nf_phases *p, uint32_t parent, uint64_t hash, const char *name, size_t bytes,
                        uint8_t source, bool metric) {
    if (UNLIKELY(parent == 1)) return 1;
    uint64_t key = (hash ^ parent * 0x9e3779b97f4a7c15u) + metric;
    uint32_t slot = (uint32_t)(key ^ key >> 32) % (2 * NODES);
    for (; p->table[slot]; slot = (slot + 1) % (2 * NODES)) {
        struct node *n = &p->node[p->table[slot]];
        if (n->hash == hash && n->parent == parent && n->metric == metric) return p->table[slot];
    }
    if (p->nodes >= NODES || p->names_used + bytes > NAMES) return 1;
    uint32_t at = p->nodes++;
    struct node *n = &p->node[at];
    *n = (struct node){.hash = hash, .parent = parent, .name = p->names_used, .bytes = (uint16_t)bytes,
                       .source = source, .metric = metric, .tokens = BURST};
    for (size_t i = 0; i < bytes; i++) p->names[p->names_used + i] = name[i];
    p->names_used += (uint32_t)bytes;
    p->table[slot] = (uint16_t)at;
    return at;
}

/* Whether one more of a path may be recorded. */
static bool token(struct node *n, uint64_t now) {
    if (UNLIKELY(n->tokens < BURST / 2)) {
        uint64_t grown = (now - n->refilled) / NS_EACH;
        if (!n->refilled || grown > BURST - n->tokens) {
            grown = n->refilled ? BURST - n->tokens : 0;
            n->refilled = now;
        } else {
            n->refilled += grown * NS_EACH;
        }
        n->tokens += (uint32_t)grown;
    }
    if (!n->tokens) return false;
    n->tokens--;
    return true;
}

/* The names of a path, from the right to the left in `room`; gives where it begins. */
static char *path_of(const struct nf_phases *p, uint32_t node, char *room, size_t size, size_t *bytes) {
    char *end = room + size, *at = end;
    for (uint32_t n = node; n; n = p->node[n].parent) {
        const struct node *x = &p->node[n];
        if ((size_t)(at - room) < x->bytes + 1u) break;
        if (at != end) *--at = SEPARATOR;
        at -= x->bytes;
        for (size_t i = 0; i < x->bytes; i++) at[i] = p->names[x->name + i];
        if (n == 1) break;
    }
    *bytes = (size_t)(end - at);
    return at;
}

/* Writes what was only counted. */
static void flush(struct nf_phases *p, uint64_t now) {
    p->flushed = now;
    uint32_t tid = atomic_load(&p->tid);
    for (uint32_t i = 1; i < p->nodes; i++) {
        struct node *n = &p->node[i];
        uint64_t calls = __atomic_exchange_n(&n->calls, 0, __ATOMIC_RELAXED);
        if (!calls) continue;
        char room[PATH];
        size_t bytes;
        char *path = path_of(p, i, room, sizeof room, &bytes);
        struct nf_phase_count body = {.calls = calls,
                                      .inclusive_ns = __atomic_exchange_n(&n->inclusive_ns, 0, __ATOMIC_RELAXED),
                                      .sum = n->sum, .least = n->least, .most = n->most, .tid = tid,
                                      .bytes = (uint32_t)bytes};
        n->sum = n->least = n->most = 0;
        nf_emit_at(NF_PHASE_COUNT, n->source | (n->metric ? NF_PHASE_METRIC : 0), &body, sizeof body, path, bytes, now);
    }
}

static void begin_record(const struct frame *f, const struct node *n, const char *name, uint16_t flags,
                         const char *place, size_t place_bytes) {
    struct {
        struct nf_phase phase;
        char text[NF_MAX_NAME];
    } body;
    body.phase = (struct nf_phase){.time = f->begin_ns, .site = f->site, .id = f->id, .bytes = n->bytes, .place = (uint16_t)place_bytes};
    for (size_t i = 0; i < n->bytes; i++) body.text[i] = name[i];
    nf_emit_at(NF_PHASE_BEGIN, flags | n->source, &body, sizeof body.phase + n->bytes, place, place_bytes, f->begin_ns);
}

static void end_record(const struct frame *f, uint16_t how, uint64_t now, uint64_t site, const char *place,
                       size_t place_bytes) {
    struct nf_phase body = {.time = now, .site = site, .id = f->id, .place = (uint16_t)place_bytes};
    nf_emit_at(NF_PHASE_END, how, &body, sizeof body, place, place_bytes, now);
}

static void pop(struct nf_phases *p, uint16_t how, uint64_t now, uint64_t site, const char *place, size_t place_bytes) {
    struct frame *f = &p->frames[--p->depth];
    if (f->id) {
        end_record(f, how, now, site, place, place_bytes);
        return;
    }
    struct node *n = &p->node[f->node];
    n->inclusive_ns += now - f->begin_ns;
    n->calls++;
}

/* In a fork's child: the phases that its parent was in begin again, as the parent's. */
static void begin_again(struct nf_phases *p, uint64_t now) {
    p->of = atomic_load_explicit(&nf_process.epoch, memory_order_relaxed);
    atomic_store(&p->tid, nf_told_tid());
    p->next = NULL;
    atomic_store(&all, p); /* other threads stayed behind */
    p->flushed = now;
    for (uint32_t i = 1; i < p->nodes; i++) {
        p->node[i].calls = p->node[i].inclusive_ns = 0;
        p->node[i].sum = p->node[i].least = p->node[i].most = 0;
    }
    uint32_t depth = p->depth < DEPTH ? p->depth : DEPTH;
    for (uint32_t i = 0; i < depth; i++) {
        struct frame *f = &p->frames[i];
        f->begin_ns = now;
        const struct node *n = &p->node[f->node];
        if (f->id) begin_record(f, n, p->names + n->name, NF_PHASE_INHERITED, NULL, 0);
    }
}

static struct nf_phases *here(uint64_t now) {
    struct nf_phases *p = mine();
    if (UNLIKELY(p && p->of != atomic_load_explicit(&nf_process.epoch, memory_order_relaxed))) begin_again(p, now);
    return p;
}

void nf_phase_begin(const char *name, uint64_t site, uint8_t source, const char *place) {
    int saved = errno;
    if (UNLIKELY(!name) || !nf_enter()) return;
    uint64_t now = nf_now(CLOCK_MONOTONIC);
    struct nf_phases *p = here(now);
    if (p) {
        size_t bytes;
        uint64_t hash = hash_of(name, &bytes);
        if (UNLIKELY(p->depth >= DEPTH)) {
            p->depth++;
        } else {
            const struct frame *outer = p->depth ? &p->frames[p->depth - 1] : NULL;
            struct frame *f = &p->frames[p->depth++];
            uint32_t node = node_of(p, outer ? outer->node : 0, hash, name, bytes, source, false);
            struct node *n = &p->node[node];
            *f = (struct frame){.hash = hash, .begin_ns = now, .site = site, .node = node};
            if ((!outer || outer->id) && node != 1 && token(n, now)) {
                f->id = ++p->last_id ? p->last_id : ++p->last_id;
                begin_record(f, n, name, 0, place, length_of(place));
            }
        }
    }
    nf_leave();
    errno = saved;
}

void nf_phase_end(const char *name, uint64_t site, uint8_t source, const char *place) {
    int saved = errno;
    if (UNLIKELY(!name) || !nf_enter()) return;
    uint64_t now = nf_now(CLOCK_MONOTONIC);
    struct nf_phases *p = here(now);
    if (p) {
        size_t bytes, place_bytes = length_of(place);
        uint64_t hash = hash_of(name, &bytes);
        if (UNLIKELY(p->depth > DEPTH)) {
            p->depth--; /* so deep that names are not known: it is the last one's end */
        } else {
            uint32_t at = p->depth;
            while (at && p->frames[at - 1].hash != hash) at--;
            if (LIKELY(at)) {
                /* Those inside were left without their end: by longjmp, an exception, or a return. */
                while (p->depth > at) pop(p, NF_PHASE_UNWOUND, now, site, place, place_bytes);
                pop(p, NF_PHASE_ENDED, now, site, place, place_bytes);
            } else {
                struct {
                    struct nf_phase phase;
                    char text[NF_MAX_NAME];
                } body;
                body.phase = (struct nf_phase){.time = now, .site = site, .bytes = (uint16_t)bytes, .place = (uint16_t)place_bytes};
                for (size_t i = 0; i < bytes; i++) body.text[i] = name[i];
                nf_emit_at(NF_PHASE_END, NF_PHASE_ELSEWHERE | source, &body, sizeof body.phase + bytes, place,
                           place_bytes, now);
            }
        }
        if (UNLIKELY(now - p->flushed > FLUSH_NS)) flush(p, now);
    }
    nf_leave();
    errno = saved;
}

void nf_phase_metric(const char *name, double value) {
    int saved = errno;
    if (UNLIKELY(!name) || !nf_enter()) return;
    uint64_t now = nf_now(CLOCK_MONOTONIC);
    struct nf_phases *p = here(now);
    if (p) {
        size_t bytes;
        uint64_t hash = hash_of(name, &bytes);
        uint32_t depth = p->depth < DEPTH ? p->depth : DEPTH;
        uint32_t at = node_of(p, depth ? p->frames[depth - 1].node : 0, hash, name, bytes, 0, true);
        struct node *n = &p->node[at];
        if (at != 1 && token(n, now)) {
            struct nf_metric body = {.time = now, .value = value, .bytes = (uint32_t)bytes};
            nf_emit_at(NF_METRIC, 0, &body, sizeof body, name, bytes, now);
        } else {
            n->least = n->calls && n->least < value ? n->least : value;
            n->most = n->calls && n->most > value ? n->most : value;
            n->sum += value;
            n->calls++;
        }
        if (UNLIKELY(now - p->flushed > FLUSH_NS)) flush(p, now);
    }
    nf_leave();
    errno = saved;
}

/* The thread ends: so do its phases. */
void nf_phases_thread_end(void) {
    struct nf_phases *p = nf_self.phases;
    if (!p) return;
    uint64_t now = nf_now(CLOCK_MONOTONIC);
    if (p->of == atomic_load_explicit(&nf_process.epoch, memory_order_relaxed)) {
        if (p->depth > DEPTH) p->depth = DEPTH;
        while (p->depth) pop(p, NF_PHASE_THREAD_ENDED, now, 0, NULL, 0);
        flush(p, now);
        atomic_store(&p->tid, 0); /* its paths may be those of the thread that takes it next */
    }
    nf_self.phases = NULL;
}

/* The process ends, by the thread that calls: what all threads have counted, and how this one's phases end. */
void nf_phases_exit(void) {
    uint64_t now = nf_now(CLOCK_MONOTONIC);
    struct nf_phases *p = nf_self.phases;
    uint64_t epoch = atomic_load_explicit(&nf_process.epoch, memory_order_relaxed);
    if (p && p->of == epoch) {
        if (p->depth > DEPTH) p->depth = DEPTH;
        while (p->depth) pop(p, NF_PHASE_EXITED, now, 0, NULL, 0);
    }
    for (p = atomic_load(&all); p; p = p->next)
        if (p->of == epoch && atomic_load(&p->tid)) flush(p, now);
}

#define SITE ((uint64_t)(uintptr_t)__builtin_return_address(0))

EXPORT void nearfar_agent_phase_begin(const char *name) { nf_phase_begin(name, SITE, NF_SAID_BY_PROGRAM, NULL); }
EXPORT void nearfar_agent_phase_end(const char *name) { nf_phase_end(name, SITE, NF_SAID_BY_PROGRAM, NULL); }
/* The same from a language whose calls have no address that a debugger knows: `place` is "file:line". */
EXPORT void nearfar_agent_phase_begin_at(const char *name, const char *place) {
    nf_phase_begin(name, 0, NF_SAID_BY_PROGRAM, place);
}
EXPORT void nearfar_agent_phase_end_at(const char *name, const char *place) {
    nf_phase_end(name, 0, NF_SAID_BY_PROGRAM, place);
}
EXPORT void nearfar_agent_metric(const char *name, double value) { nf_phase_metric(name, value); }

static void send(uint16_t kind, const struct nf_range *range, const char *name) {
    int saved = errno;
    if (nf_enter()) {
        struct nf_range body = range ? *range : (struct nf_range){0};
        body.to = 0;
        while (name && name[body.to] && body.to < NF_MAX_NAME) body.to++;
        nf_emit(kind, 0, &body, sizeof body, name, body.to, true);
        nf_leave();
    }
    errno = saved;
}

void nf_region(bool begins) { send(begins ? NF_ROI_BEGIN : NF_ROI_END, NULL, NULL); }

EXPORT void nearfar_agent_begin(void) { nf_region(true); }
EXPORT void nearfar_agent_end(void) { nf_region(false); }
EXPORT void nearfar_agent_name(const void *address, size_t bytes, const char *name) {
    struct nf_range range = {.address = (uintptr_t)address, .bytes = bytes};
    send(NF_NAME, &range, name);
}
