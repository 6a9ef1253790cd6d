/* Writing records into the claimed ring. */
#include "agent.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static atomic_flag lock = ATOMIC_FLAG_INIT;
/* A wait for room has failed: drop at once until there is room again. */
static _Atomic bool stalled;
/* Bytes of the ring that are surely in memory; under the lock. */
static size_t in_memory;
/* Of the last record; under the lock. */
static uint64_t last_time;
static bool last_words;
static uint64_t last_words_until;

static const uint64_t WAIT_FOR_ROOM_NS = 4000000;
static const uint64_t WAIT_AT_EXIT_NS = 500000000;
static const uint64_t WAIT_FOR_LOCK_NS = 20000000;

static uint32_t nf_cpu(void) {
    uint32_t cpu = 0;
    nf_sys(SYS_getcpu, &cpu, NULL, NULL);
    return cpu;
}

/* The bytes from `from` on, of a ring that is mapped: whether the kernel has them for us. Not a touch, which would
 * end the program where memory is short. */
bool nf_populate(void *from, size_t bytes) {
    return nf_sys(SYS_madvise, from, bytes, MADV_POPULATE_WRITE) == 0;
}

void nf_ring_begins(char *ring, size_t have) {
    in_memory = have;
    nf_process.ring = ring;
}

void nf_ring_after_fork(void) {
    atomic_flag_clear(&lock);
    atomic_store(&stalled, false);
    last_words = false;
}

void nf_close_segment(void) {
    if (nf_process.segment) __atomic_store_n(&nf_process.segment->state, NF_CLOSED, __ATOMIC_RELEASE);
}

/* Bounded: a holder that never comes back costs records, not the program. */
static bool take_lock(bool wait) {
    uint64_t start = 0;
    for (unsigned spins = 0;; spins++) {
        if (!atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) return true;
        if (!wait && spins > 200) return false;
        if (wait && spins > 100) {
            uint64_t now = nf_now(CLOCK_MONOTONIC);
            if (!start) start = now;
            if (now - start > WAIT_FOR_LOCK_NS) return false;
            nf_yield();
        }
        nf_pause();
    }
}

static void release_lock(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

/* Not memcpy: a program built with a sanitizer brings its own, which would take
 * our copies of its stack, guard zones included, for errors of the program. */
static void copy(void *to, const void *from, size_t bytes) {
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = ((const volatile char *)from)[i];
#endif
}

void nf_last_words(void) {
    last_words_until = nf_now(CLOCK_MONOTONIC) + WAIT_AT_EXIT_NS;
    last_words = true;
}

/* Has the ring in memory up to `end`; under the lock. Where it cannot grow it stays as it is: nothing lies behind
 * it yet, as it has not been around. */
static bool grow(struct nf_segment *s, size_t end) {
    while (in_memory < end) {
        if (nf_quiet() || !nf_populate(nf_process.ring + in_memory, NF_RING_STEP)) {
            __atomic_store_n(&s->ring_bytes, (uint32_t)in_memory, __ATOMIC_RELEASE);
            return false;
        }
        in_memory += NF_RING_STEP;
    }
    return true;
}

bool nf_fill_ring(void) {
    struct nf_segment *s = nf_process.segment;
    if (!s || !take_lock(true)) return false;
    bool whole = grow(s, s->ring_bytes);
    release_lock();
    return whole;
}

/* `at`: the record's time; 0 = now, which needs a clock, as waiting does. */
static bool emit(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
                 size_t tail_bytes, bool wait, uint64_t at) {
    struct nf_segment *s = nf_process.segment;
    uint32_t tid = nf_told_tid();
    if (UNLIKELY(!tid || !(at || nf_has_clock()))) {
        nf_lost_quietly();
        return false;
    }
    size_t size = (sizeof(struct nf_record) + body_bytes + tail_bytes + 7) & ~(size_t)7;
    uint64_t started = 0;
    for (;;) {
        if (!take_lock(wait)) {
            __atomic_add_fetch(&s->lost_busy, 1, __ATOMIC_RELAXED);
            return false;
        }
        uint64_t head = __atomic_load_n(&s->head, __ATOMIC_RELAXED);
        uint64_t tail_at = __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
        size_t place, pad;
        do {
            place = head % s->ring_bytes;
            pad = place + size > s->ring_bytes ? s->ring_bytes - place : 0;
            /* Once around, all of it is in memory. */
        } while (UNLIKELY(head < s->ring_bytes && place + (pad ? pad : size) > in_memory) &&
                 !grow(s, place + (pad ? pad : size)));
        if (LIKELY(head + pad + size - tail_at <= s->ring_bytes)) {
            if (pad) {
                /* A pad may be as small as 8 bytes: only kind and size are read of it. */
                struct nf_record filler = {.kind = NF_PAD, .size = (uint32_t)pad};
                copy(nf_process.ring + place, &filler, 8);
                place = 0;
            }
            char *to = nf_process.ring + place;
            struct nf_record *record = (struct nf_record *)to;
            record->kind = kind;
            record->flags = flags;
            record->size = (uint32_t)size;
            record->tid = tid;
            record->cpu = kind == NF_SAMPLE ? nf_cpu() : 0;
            /* Under the lock: records of a process are in the order of their times. */
            if (!at) last_time = nf_now(CLOCK_MONOTONIC);
            else if (at > last_time) last_time = at;
            record->time = last_time;
            if (body_bytes) copy(to + sizeof *record, body, body_bytes);
            if (tail_bytes) copy(to + sizeof *record + body_bytes, tail, tail_bytes);
            __atomic_store_n(&s->head, head + pad + size, __ATOMIC_RELEASE);
            release_lock();
            atomic_store_explicit(&stalled, false, memory_order_relaxed);
            return true;
        }
        release_lock();
        uint64_t now = nf_now(CLOCK_MONOTONIC);
        if (!started) started = now;
        bool over = last_words ? now > last_words_until
                               : atomic_load_explicit(&stalled, memory_order_relaxed) || now - started > WAIT_FOR_ROOM_NS;
        if (!wait || over) {
            if (wait) atomic_store_explicit(&stalled, true, memory_order_relaxed);
            __atomic_add_fetch(&s->lost_full, 1, __ATOMIC_RELAXED);
            return false;
        }
        nf_yield();
    }
}

bool nf_emit(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
             size_t tail_bytes, bool wait) {
    if (UNLIKELY(!nf_attached())) return false;
    if (UNLIKELY(nf_process.flags & NF_SET_HYPERCALL)) nf_hypercall_record(kind);
    return emit(kind, flags, body, body_bytes, tail, tail_bytes, wait, 0);
}

bool nf_emit_at(uint16_t kind, uint16_t flags, const void *body, size_t body_bytes, const void *tail,
                size_t tail_bytes, uint64_t at) {
    if (UNLIKELY(!nf_attached())) return false;
    if (UNLIKELY(nf_process.flags & NF_SET_HYPERCALL)) nf_hypercall(NF_HYPERCALL_PHASE, at);
    return emit(kind, flags, body, body_bytes, tail, tail_bytes, true, at);
}

void nf_lost_at(enum nf_why why, uint64_t count, uint64_t at) {
    struct nf_lost lost = {.count = count, .why = why};
    if (nf_process.segment) emit(NF_LOST, 0, &lost, sizeof lost, NULL, 0, false, at);
}

void nf_lost(enum nf_why why, uint64_t count) {
    struct nf_lost lost = {.count = count, .why = why};
    nf_emit(NF_LOST, 0, &lost, sizeof lost, NULL, 0, true);
}
