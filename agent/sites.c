/* ALLOC records: the key of an allocation's call chain, and the stack to unwind it from.
 *
 * operator new is not hooked, although its caller is what people want to see: a
 * plug-in that brings its own new and delete, loaded privately into a C program,
 * would get our new and its own delete, and crash. The stack copy holds
 * the caller of libstdc++'s operator new anyway; the recorder unwinds to it. */
#include "agent.h"

#include <link.h>
#include <string.h>
#include <sys/uio.h>

enum { KEYS = 8192, KEY_PROBES = 32, HASHED_WORDS = 96 };
static _Atomic uint64_t keys[KEYS];

/* Lock-free and async-signal-safe since glibc 2.35; the agent also runs on older ones. */
struct found_object {
    uint64_t flags;
    void *start, *end;
    const struct link_map *map;
    void *rest[11];
};
static int (*find_object)(void *address, struct found_object *result);

/* Which pages of the set are used follows from the words on stacks, which are others in each run (a canary, an environment of another length). In the
 * virtual machine all are touched before the program begins, so that its pages have the same frames in each run: a page more or less among
 * them gave a triangular solve 4.5 % more or fewer far lines. */
static void touch_keys(void) {
    if (!(nf_process.flags & NF_SET_HYPERCALL)) return;
    for (size_t i = 0; i < KEYS; i += 4096 / sizeof *keys) atomic_store_explicit(&keys[i], 0, memory_order_relaxed);
    /* The set may begin within a page, and then it ends within one. */
    atomic_store_explicit(&keys[KEYS - 1], 0, memory_order_relaxed);
}

void nf_sites_init(void) {
    touch_keys();
    void *f = nf_symbol("_dl_find_object");
    memcpy(&find_object, &f, sizeof find_object);
}

/* How many bytes above `from` can be read, at most `most`. Within the thread's own
 * stack that is known; on a coroutine's stack the kernel is asked page by page. */
size_t nf_readable(uintptr_t from, size_t most) {
    if (nf_self.stack_high && from >= nf_self.stack_low && from < nf_self.stack_high) {
        size_t left = nf_self.stack_high - from;
        return left < most ? left : most;
    }
    size_t known = 4096 - from % 4096;
    while (known < most && !nf_quiet()) {
        char byte;
        struct iovec here = {&byte, 1}, there = {(void *)(from + known), 1};
        if (nf_sys(SYS_process_vm_readv, nf_sys(SYS_getpid), &here, 1, &there, 1, 0) != 1) break;
        known += 4096;
    }
    return known < most ? known : most;
}

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

/* A module that was unloaded may be remembered: then an old word takes part in a
 * key, which at worst is one key more. */
static bool in_module(uintptr_t w) {
    for (unsigned i = 0; i < NF_RANGES; i++)
        if (w - nf_self.modules[i].start < nf_self.modules[i].bytes) return true;
    struct found_object object;
    if (find_object((void *)w, &object) != 0) return false;
    uintptr_t start = (uintptr_t)object.start, bytes = (uintptr_t)object.end - start;
    if (w - start >= bytes) return false;
    unsigned i = nf_self.next_module++ % NF_RANGES;
    nf_self.modules[i].start = start;
    nf_self.modules[i].bytes = bytes;
    return true;
}

/* Words that point into a module are mostly return addresses; other words
 * (loop counters, data pointers) would make a new key of each iteration. */
static uint64_t site_key(const struct nf_site *site, size_t stack_bytes, const struct nf_python_frame *python,
                         unsigned frames) {
    uint64_t hash = mix(mix(0x6e656172666172ull, site->rip), site->rsp);
    const uintptr_t *word = (const uintptr_t *)site->rsp;
    size_t words = stack_bytes / sizeof *word;
    if (words > HASHED_WORDS) words = HASHED_WORDS;
    if (!find_object && words > 8) words = 8;
    uintptr_t not_code = 0; /* a MiB without code: heap pointers come in flocks */
    for (size_t i = 0; i < words; i++) {
        uintptr_t w = word[i];
        if (find_object) {
            /* Neither small numbers, nor kernel addresses and doubles, nor the stack itself. */
            if (w < 0x10000 || w >> 47 || w - site->rsp < (1u << 20) || w >> 20 == not_code) continue;
            if (!in_module(w)) {
                not_code = w >> 20;
                continue;
            }
        }
        hash = mix(hash, w ^ i << 56);
    }
    /* The interpreter's C frames are the same for all lines of Python. */
    for (const struct nf_python_frame *f = python; f < python + frames; f++)
        hash = mix(mix(mix(mix(hash, f->code), f->instruction), f->lines ^ f->file), (uint64_t)f->first_line);
    return hash ? hash : 1;
}

/* Before the ALLOC that has the stack of the site. */
static void tell_python(uint64_t site, const struct nf_python_frame *python, unsigned frames) {
    char text[NF_PYTHON_TEXT];
    struct nf_python body = {.site = site};
    size_t bytes = nf_python_text(python, frames, text, sizeof text);
    body.bytes = (uint32_t)bytes;
    if (bytes) nf_emit(NF_PYTHON, 0, &body, sizeof body, text, bytes, true);
}

bool nf_is_runtime(uintptr_t address) {
    static const char *const runtimes[] = {"libgomp.", "libomp.", "libiomp5.", "ld-linux", "libc.so", "libpthread"};
    struct found_object object;
    if (!find_object || find_object((void *)address, &object) != 0 || !object.map || !object.map->l_name) return false;
    const char *name = object.map->l_name;
    for (const char *c = name; *c; c++)
        if (*c == '/') name = c + 1;
    for (unsigned i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
        unsigned same = 0;
        while (runtimes[i][same] && name[same] == runtimes[i][same]) same++;
        if (!runtimes[i][same]) return true;
    }
    return false;
}

/* How much of the stack a record of an allocation has at most. */
static size_t readable_stack(const struct nf_site *site, uint16_t flags) {
    return nf_readable(site->rsp, flags & NF_ALLOC_FIRST ? NF_FIRSTS_STACK : NF_MAX_STACK) & ~(size_t)7;
}

/* Where `key` is or could be put; NULL if the set is full there. */
static _Atomic uint64_t *key_slot(uint64_t key, bool *known) {
    *known = false;
    for (unsigned k = 0; k < KEY_PROBES; k++) {
        _Atomic uint64_t *slot = &keys[(key + k) % KEYS];
        uint64_t found = atomic_load_explicit(slot, memory_order_relaxed);
        if (found == key) *known = true;
        if (found == key || found == 0) return slot;
    }
    return NULL;
}

__attribute__((no_sanitize("thread", "address")))
uint64_t nf_record_alloc(uint16_t flags, uintptr_t address, size_t bytes, size_t represents,
                         uintptr_t previous, const struct nf_site *site) {
    bool first = flags & NF_ALLOC_FIRST;
    size_t stack = readable_stack(site, flags);
    struct nf_python_frame python[NF_PYTHON_FRAMES];
    /* Small ones are of any line: each would be a site with a stack of its own. */
    unsigned frames = first || (flags & 15) == NF_SMALL ? 0 : nf_python_frames(python);
    struct nf_alloc record = {.address = address,
                              .bytes = bytes,
                              .represents = represents,
                              .previous = previous,
                              .site = site_key(site, stack, python, frames),
                              .rip = site->rip,
                              .rsp = site->rsp,
                              .rbp = site->rbp};
    bool known;
    _Atomic uint64_t *slot = key_slot(record.site, &known);
    if (known) stack = 0;
    else if (frames) tell_python(record.site, python, frames);
    if (!known && !slot && stack > NF_SMALL_STACK) stack = NF_SMALL_STACK;
    record.stack_bytes = (uint32_t)stack;
    bool written = nf_emit(NF_ALLOC, flags, &record, sizeof record, (void *)site->rsp, stack, true);
    /* Only now: a key whose stack was dropped must be sent again. Two threads may
     * both send it, and one of them may lose the slot to another key: harmless. */
    uint64_t empty = 0;
    if (written && slot && !known) known = atomic_compare_exchange_strong(slot, &empty, record.site);
    return written && known ? record.site : 0;
}

__attribute__((no_sanitize("thread", "address")))
uint64_t nf_known_site(const struct nf_site *site) {
    struct nf_python_frame python[NF_PYTHON_FRAMES];
    unsigned frames = nf_python_frames(python);
    uint64_t key = site_key(site, nf_readable(site->rsp, NF_MAX_STACK) & ~(size_t)7, python, frames);
    bool known;
    key_slot(key, &known);
    return known ? key : 0;
}

void nf_record_late(uint16_t flags, uintptr_t address, size_t bytes, uint64_t site, const struct nf_site *where,
                    uint64_t born) {
    struct nf_alloc record = {.address = address, .bytes = bytes, .represents = bytes, .site = site,
                              .rip = where->rip, .rsp = where->rsp, .born = born};
    nf_emit(NF_ALLOC, flags, &record, sizeof record, NULL, 0, true);
}
