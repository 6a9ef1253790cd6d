/* The allocator's functions: pass through, and record what is large or sampled.
 *
 * Nothing is added to a block, so blocks may come from and go to functions that
 * are not hooked. The common path of malloc is a compare and a subtraction. */
#include "agent.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct {
    __typeof__(&malloc) malloc;
    __typeof__(&calloc) calloc;
    __typeof__(&realloc) realloc;
    __typeof__(&free) free;
    __typeof__(&aligned_alloc) aligned_alloc;
    __typeof__(&memalign) memalign;
    __typeof__(&posix_memalign) posix_memalign;
    __typeof__(&valloc) valloc;
    __typeof__(&pvalloc) pvalloc;
    _Atomic bool known;
} next;

/* Memory for dlsym while it looks for the allocator: handed out once, never reused. */
static _Alignas(64) char early[65536];
static _Atomic size_t early_used;

static bool is_early(const void *p) {
    return (uintptr_t)p - (uintptr_t)early < sizeof early;
}

static void *early_alloc(size_t bytes, size_t alignment) {
    if (alignment < 16) alignment = 16;
    if (bytes > sizeof early || alignment > 4096) return NULL;
    size_t room = bytes + alignment;
    size_t at = atomic_fetch_add(&early_used, (room + 15) & ~(size_t)15);
    if (at + room > sizeof early) return NULL;
    uintptr_t p = (uintptr_t)early + at;
    return (void *)((p + alignment - 1) & ~(uintptr_t)(alignment - 1));
}

/* False only inside the look-up itself. Two threads may look up at once: same result. */
static bool find_next(void) {
    if (LIKELY(atomic_load_explicit(&next.known, memory_order_acquire))) return true;
    static _Thread_local bool looking __attribute__((tls_model("initial-exec")));
    if (looking) return false;
    looking = true;
    next.malloc = NF_NEXT(malloc);
    next.calloc = NF_NEXT(calloc);
    next.realloc = NF_NEXT(realloc);
    next.free = NF_NEXT(free);
    next.aligned_alloc = NF_NEXT(aligned_alloc);
    next.memalign = NF_NEXT(memalign);
    next.posix_memalign = NF_NEXT(posix_memalign);
    next.valloc = NF_NEXT(valloc);
    next.pvalloc = NF_NEXT(pvalloc);
    looking = false;
    bool complete = next.malloc && next.calloc && next.realloc && next.free;
    atomic_store_explicit(&next.known, complete, memory_order_release);
    return complete;
}

/* In the virtual machine, where every line that threads take from each other is seen, also small blocks matter: counters of
 * threads, locks. The first few of each caller and size are recorded one by one, up to so many in a process: where
 * programs allocate much, each record would cost more than the block's use. */
enum { KINDS = 4096, FIRST_OF_A_KIND = 8, MOST_FIRSTS = 512 };
static _Atomic uint8_t seen[KINDS];
static _Atomic uint32_t firsts;

static inline _Atomic uint8_t *kind(uintptr_t rip, size_t bytes) {
    return &seen[((rip ^ (uint64_t)bytes << 40) * 0x9e3779b97f4a7c15ull) >> 52];
}

static inline bool first_of_a_kind(uintptr_t rip, size_t bytes) {
    return UNLIKELY(nf_process.flags & NF_SET_HYPERCALL) &&
           atomic_load_explicit(kind(rip, bytes), memory_order_relaxed) < FIRST_OF_A_KIND &&
           atomic_load_explicit(&firsts, memory_order_relaxed) < MOST_FIRSTS;
}

/* True if an allocation of `bytes` needs a look: large, this thread's turn to sample, or one of the first by this caller. */
static inline bool noteworthy(size_t bytes, uintptr_t rip) {
    return bytes >= atomic_load_explicit(&nf_process.min_object, memory_order_relaxed) ||
           (nf_self.small_left -= (int64_t)bytes) < 0 || first_of_a_kind(rip, bytes);
}
/* Expands in the hook itself, as NF_SITE. */
#define NOTEWORTHY(bytes) UNLIKELY(noteworthy(bytes, (uintptr_t)__builtin_return_address(0)))

static void record_large(void *p, size_t bytes, uintptr_t previous, uint16_t extra,
                         const struct nf_site *site) {
    nf_object_begins(NF_HEAP | extra, (uintptr_t)p, bytes, previous, site);
}

/* Between half of and one and a half times the step: a program that allocates in a
 * fixed pattern would otherwise be sampled at the same place of it each time. */
static int64_t next_step(int64_t step) {
    uint32_t x = nf_self.dice ? nf_self.dice : nf_tid() * 2654435761u | 1;
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    nf_self.dice = x;
    return step / 2 + (int64_t)((uint64_t)step * x >> 32);
}

static __attribute__((noinline, cold)) void noted(void *p, size_t bytes, uint16_t extra,
                                                  struct nf_site site) {
    int saved = errno;
    bool large = bytes >= atomic_load_explicit(&nf_process.min_object, memory_order_relaxed);
    int64_t step = nf_process.small_sample;
    if (!large && nf_self.small_left >= 0) {
        if (p && nf_enter()) {
            /* What a runtime has for its threads is no object of the program. */
            if (nf_is_runtime(site.rip)) {
                atomic_store_explicit(kind(site.rip, bytes), FIRST_OF_A_KIND, memory_order_relaxed);
            } else {
                atomic_fetch_add_explicit(kind(site.rip, bytes), 1, memory_order_relaxed);
                atomic_fetch_add_explicit(&firsts, 1, memory_order_relaxed);
                record_large(p, bytes, 0, extra | NF_ALLOC_FIRST, &site);
            }
            nf_leave();
        }
        errno = saved;
        return;
    }
    if (large && p) nf_place((uintptr_t)p, bytes, &site);
    if (large && bytes < nf_process.record_from) {
        /* Only placed: for the recording it is a small one, which `noteworthy` has not counted. */
        large = false;
        if ((nf_self.small_left -= (int64_t)bytes) >= 0) {
            errno = saved;
            return;
        }
    }
    if (!large && (nf_self.guard || !step || !nf_process.segment)) {
        /* Look again after a while: before attaching, soon. */
        nf_self.small_step = 0;
        nf_self.small_left = nf_process.header ? (step ? 65536 : INT64_MAX) : 4096;
    } else if (p && nf_enter()) {
        if (large) {
            record_large(p, bytes, 0, extra, &site);
        } else {
            int64_t passed = nf_self.small_step - nf_self.small_left;
            /* A thread's first is a start, not a sample: nothing is known of the bytes before. */
            if (nf_self.small_step > 0)
                nf_record_alloc(NF_SMALL | extra, (uintptr_t)p, bytes, (size_t)passed, 0, &site);
            nf_self.small_left = nf_self.small_step = next_step(step);
            nf_objects_tell(false);
        }
        nf_leave();
    } else if (!large) {
        nf_self.small_left = nf_self.small_step = step; /* told to stop */
    }
    errno = saved;
}

EXPORT void *malloc(size_t bytes) {
    if (UNLIKELY(!find_next())) return early_alloc(bytes, 16);
    void *p = next.malloc(bytes);
    if (NOTEWORTHY(bytes)) noted(p, bytes, 0, NF_SITE());
    return p;
}

EXPORT void *calloc(size_t count, size_t each) {
    /* early memory is static and given out once: zero */
    size_t bytes;
    if (UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    if (UNLIKELY(!find_next())) return early_alloc(bytes, 16);
    void *p = next.calloc(count, each);
    if (NOTEWORTHY(bytes)) noted(p, bytes, NF_ALLOC_ZEROED, NF_SITE());
    return p;
}

/* Before the block can be reused by another thread. Returns its bytes if it was recorded. */
static __attribute__((noinline, cold)) size_t ended(void *p, uint16_t flags) {
    if (!nf_enter()) return 0;
    int saved = errno;
    size_t bytes = nf_object_ends((uintptr_t)p, flags, !(flags & NF_FREE_REALLOC), NULL);
    errno = saved;
    nf_leave();
    return bytes;
}

EXPORT void free(void *p) {
    if (UNLIKELY(is_early(p))) return;
    if (UNLIKELY(!find_next())) return;
    if (UNLIKELY(p && nf_object_possible((uintptr_t)p))) ended(p, 0);
    next.free(p);
}

static __attribute__((noinline)) void *early_grown(void *old, size_t bytes) {
    void *p = find_next() ? next.malloc(bytes) : early_alloc(bytes, 16);
    size_t most = sizeof early - (size_t)((char *)old - early);
    if (p) memcpy(p, old, bytes < most ? bytes : most);
    return p;
}

static void *grown(void *old, size_t bytes, struct nf_site site) {
    uintptr_t before = (uintptr_t)old;
    size_t old_bytes = old && nf_object_possible(before) ? ended(old, NF_FREE_REALLOC) : 0;
    void *p = next.realloc(old, bytes);
    if (LIKELY(!old_bytes && !noteworthy(bytes, site.rip))) return p;
    if (!p && bytes == 0) return p; /* freed */
    int saved = errno;
    bool large = bytes >= atomic_load_explicit(&nf_process.min_object, memory_order_relaxed);
    if (!p) {
        if (old_bytes && nf_enter()) {
            record_large(old, old_bytes, before, NF_ALLOC_RESTORED, &site);
            nf_leave();
        }
    } else if (!large) {
        /* What was recorded goes on under its new address, in the virtual machine. */
        if (!old_bytes || nf_self.small_left < 0) {
            noted(p, bytes, 0, site);
        } else if (nf_process.flags & NF_SET_HYPERCALL && nf_enter()) {
            record_large(p, bytes, before, NF_ALLOC_FIRST, &site);
            nf_leave();
        }
    } else {
        nf_place((uintptr_t)p, bytes, &site);
        if (bytes >= nf_process.record_from && nf_enter()) {
            record_large(p, bytes, before, 0, &site);
            nf_leave();
        }
    }
    errno = saved;
    return p;
}

EXPORT void *realloc(void *old, size_t bytes) {
    if (UNLIKELY(is_early(old))) return early_grown(old, bytes);
    if (UNLIKELY(!find_next())) return old ? NULL : early_alloc(bytes, 16);
    return grown(old, bytes, NF_SITE());
}

EXPORT void *reallocarray(void *old, size_t count, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (UNLIKELY(is_early(old))) return early_grown(old, bytes);
    if (UNLIKELY(!find_next())) return old ? NULL : early_alloc(bytes, 16);
    return grown(old, bytes, NF_SITE());
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
    if (UNLIKELY(!find_next() || !next.aligned_alloc)) return early_alloc(bytes, alignment);
    void *p = next.aligned_alloc(alignment, bytes);
    if (NOTEWORTHY(bytes)) noted(p, bytes, 0, NF_SITE());
    return p;
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
    if (UNLIKELY(!find_next() || !next.memalign)) return early_alloc(bytes, alignment);
    void *p = next.memalign(alignment, bytes);
    if (NOTEWORTHY(bytes)) noted(p, bytes, 0, NF_SITE());
    return p;
}

EXPORT int posix_memalign(void **to, size_t alignment, size_t bytes) {
    if (UNLIKELY(!find_next() || !next.posix_memalign)) {
        void *p = early_alloc(bytes, alignment);
        if (p) *to = p;
        return p ? 0 : ENOMEM;
    }
    int result = next.posix_memalign(to, alignment, bytes);
    if (result == 0 && NOTEWORTHY(bytes)) noted(*to, bytes, 0, NF_SITE());
    return result;
}

EXPORT void *valloc(size_t bytes) {
    if (UNLIKELY(!find_next() || !next.valloc)) return early_alloc(bytes, 4096);
    void *p = next.valloc(bytes);
    if (NOTEWORTHY(bytes)) noted(p, bytes, 0, NF_SITE());
    return p;
}

EXPORT void *pvalloc(size_t bytes) {
    if (UNLIKELY(!find_next() || !next.pvalloc)) return early_alloc((bytes + 4095) & ~(size_t)4095, 4096);
    void *p = next.pvalloc(bytes);
    if (NOTEWORTHY(bytes)) noted(p, bytes, 0, NF_SITE());
    return p;
}
