/* Live recorded objects by address, so that only their free() is recorded; and which of them were told.
 *
 * Open addressing. Each slot is a lock of its own: `word` is the epoch of the process that wrote it, and a state.
 *
 *  1. A thread changes a slot, its address too, only while it holds the slot: it has set the word to BUSY.
 *  2. A thread that found a slot by its address reads the address again once it holds the slot, because the slot may
 *     have got another object in between. In that case the thread restores the word and searches again.
 *  3. A thread that empties a slot writes the address (REMOVED) first and the word (NOTHING) afterwards. In the other
 *     order, an object that another thread puts there in between could never be found again.
 *  4. Records of an address are written while its slot is held, or by the owner of a block before the allocator has
 *     it back. So they are in the ring in the order of the events, whichever thread gets the address next.
 *  5. A block has one owner, from the allocator's return to free(). Only the owner makes its slot's object begin and
 *     end; others (nf_objects_tell) may hold the slot meanwhile, for as long as a record takes. The owner waits for
 *     that; should it wait in vain, the record is counted as lost (lost_busy).
 *  6. The table is a fork's child's, too. Words of an older epoch are its parent's: the objects are inherited; what is
 *     held has lost its holder, since only the forking thread is in the child, and may be taken. Sums (`held`,
 *     `alive_now`, unrecorded) are of objects of the process's own.
 *
 * tests/agent/slots.c runs this very file through the interleavings of two and three threads. */
#include "agent.h"

#include <sys/mman.h>

#ifndef NF_SLOTS
#define NF_SLOTS 65536
#endif
enum { SLOTS = NF_SLOTS, PROBES = SLOTS < 64 ? SLOTS : 64, AT_ONCE = 256 /* slots looked at in one go */ };
static const uintptr_t EMPTY = 0, REMOVED = 1;
/* How long a slot that is held is waited for: spins, and then this time where there is a clock. A record takes less,
 * also into a full ring; longer takes only a holder that does not run. */
static const unsigned PATIENCE = 4000;
static const uint64_t WAIT_FOR_SLOT_NS = 100000000;

enum state {
    NOTHING = 0,
    TOLD,    /* ALLOC was written */
    UNTOLD,  /* noted; `when` = its birth */
    DORMANT, /* told and freed, FREE not yet written; `when` = its end */
    BUSY,    /* held by a thread */
};

struct slot {
    _Atomic uintptr_t address;
    _Atomic uint64_t word;  /* epoch of the process that wrote it << 8 | state */
    _Atomic size_t bytes;
    uint64_t when;
    uint64_t site;
    uintptr_t rip, rsp;
    uint32_t flags;         /* of its ALLOC */
};
_Static_assert(sizeof(struct slot) == 64, "one cache line each");

static struct slot *slots;
/* Which pages of the table were ever written to: a walk over the others would be a page fault each, a thousand in
 * every process that ends. */
enum { PER_PAGE = 64 };
static _Atomic uint8_t written[(SLOTS + PER_PAGE - 1) / PER_PAGE];

static bool unwritten(unsigned slot) {
    return !atomic_load_explicit(&written[slot % SLOTS / PER_PAGE], memory_order_relaxed);
}
/* How many recorded objects fall on each filter byte; 255 sticks. */
_Atomic uint8_t nf_object_filter[4096];

/* Records that may be written at once, and when they were last added to. */
static _Atomic int64_t tokens;
static _Atomic uint64_t tokens_at;
/* Objects now, and at most so far: one that is more than ever before is not a storm, however fast they come. */
static _Atomic int64_t alive_now, alive_most;
/* Slots that are UNTOLD or DORMANT. */
static _Atomic int64_t held;
static atomic_flag telling = ATOMIC_FLAG_INIT;
static unsigned cursor;

/* Allocations that were not told one by one, by site. */
enum { GROUPS = 512 };
static struct {
    _Atomic uint64_t site, count, bytes;
} groups[GROUPS + 1]; /* the last: of sites that found no place */

static void fill_tokens(void);

bool nf_objects_init(void) {
    long memory = nf_sys(SYS_mmap, NULL, SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory < 0 && memory > -4096) return false;
    slots = (struct slot *)memory;
    fill_tokens();
    return true;
}

static void filter_add(uintptr_t address, int by) {
    _Atomic uint8_t *count = &nf_object_filter[nf_filter_slot(address)];
    uint8_t old = atomic_load_explicit(count, memory_order_relaxed);
    while (old != 255 && !atomic_compare_exchange_weak(count, &old, (uint8_t)(old + by))) {
    }
}

static struct slot *first_slot(uintptr_t address, unsigned k) {
    return &slots[(((address >> 4) * 0x9e3779b97f4a7c15ull >> 40) + k) % SLOTS];
}

static struct slot *find(uintptr_t address) {
    for (unsigned k = 0; slots && k < PROBES; k++) {
        struct slot *s = first_slot(address, k);
        uintptr_t found = atomic_load_explicit(&s->address, memory_order_acquire);
        if (found == address) return s;
        if (found == EMPTY) return NULL;
    }
    return NULL;
}

static uint64_t word_of(enum state state) { return nf_process.epoch << 8 | state; }
static enum state state_of(uint64_t word) { return (enum state)(word & 0xff); }
/* Of an object of this process's own, not one that a fork's child has inherited. */
static bool ours(uint64_t word) { return word >> 8 == nf_process.epoch; }
static bool is_held(uint64_t word) { return word == word_of(BUSY); }
static uint64_t look(const struct slot *s) { return atomic_load_explicit(&s->word, memory_order_acquire); }

/* One try: from `word` to BUSY. */
static bool take_from(struct slot *s, uint64_t word) {
    return !is_held(word) &&
           atomic_compare_exchange_strong_explicit(&s->word, &word, word_of(BUSY), memory_order_acquire, memory_order_relaxed);
}

static void give_back(struct slot *s, uint64_t word) { atomic_store_explicit(&s->word, word, memory_order_release); }
static void give(struct slot *s, enum state state) { give_back(s, word_of(state)); }

static void lost_record(void) {
    if (nf_process.segment) __atomic_add_fetch(&nf_process.segment->lost_busy, 1, __ATOMIC_RELAXED);
}

/* The slot of this address, held, and the word it had; NULL if there is none. `*late`: it could not be had. */
static struct slot *take(uintptr_t address, uint64_t *word, bool *late) {
    uint64_t since = 0;
    *late = false;
    for (unsigned spins = 0;; spins++) {
        struct slot *s = find(address);
        if (!s) return NULL;
        *word = look(s);
        if (take_from(s, *word)) {
            if (LIKELY(atomic_load_explicit(&s->address, memory_order_relaxed) == address)) return s;
            give_back(s, *word);
            continue;
        }
        if (spins >= PATIENCE) {
            uint64_t now = nf_now(CLOCK_MONOTONIC);
            if (!since) since = now;
            if (!now || now - since > WAIT_FOR_SLOT_NS) {
                *late = true;
                lost_record();
                return NULL;
            }
        }
        if (spins % 64 == 63) nf_yield();
        nf_pause();
    }
}

/* A free slot for this address, which is in none; held. */
static struct slot *insert(uintptr_t address) {
    for (unsigned k = 0; k < PROBES; k++) {
        struct slot *s = first_slot(address, k);
        if (atomic_load_explicit(&s->address, memory_order_relaxed) > REMOVED) continue;
        uint64_t word = look(s);
        /* Another's that is in the making is passed by. */
        if (!take_from(s, word)) continue;
        if (atomic_load_explicit(&s->address, memory_order_relaxed) > REMOVED) {
            give_back(s, word);
            continue;
        }
        _Atomic uint8_t *page = &written[(unsigned)(s - slots) / PER_PAGE];
        if (!atomic_load_explicit(page, memory_order_relaxed)) atomic_store_explicit(page, 1, memory_order_relaxed);
        atomic_store_explicit(&s->address, address, memory_order_release);
        filter_add(address, 1);
        return s;
    }
    return NULL;
}

/* Of a slot that is held. */
static void forget(struct slot *s) {
    uintptr_t address = atomic_load_explicit(&s->address, memory_order_relaxed);
    atomic_store_explicit(&s->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&s->address, REMOVED, memory_order_relaxed);
    give(s, NOTHING);
    filter_add(address, -1);
}

static void add(uint64_t *counter, uint64_t by) { __atomic_add_fetch(counter, by, __ATOMIC_RELAXED); }

static void hold(int by) {
    atomic_fetch_add_explicit(&held, by, memory_order_relaxed);
}

static void count_group(uint64_t site, size_t bytes) {
    unsigned k = GROUPS;
    for (unsigned probe = 0; site && probe < 16; probe++) {
        unsigned i = (unsigned)((site + probe) % GROUPS);
        uint64_t found = atomic_load_explicit(&groups[i].site, memory_order_relaxed);
        if (found == site || (!found && atomic_compare_exchange_strong(&groups[i].site, &found, site)) || found == site) {
            k = i;
            break;
        }
    }
    atomic_fetch_add_explicit(&groups[k].count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&groups[k].bytes, bytes, memory_order_relaxed);
}

static void tell_groups(void) {
    for (unsigned i = 0; i <= GROUPS; i++) {
        uint64_t count = atomic_exchange_explicit(&groups[i].count, 0, memory_order_relaxed);
        if (!count) continue;
        struct nf_group group = {.site = i < GROUPS ? groups[i].site : 0,
                                 .count = count,
                                 .bytes = atomic_exchange_explicit(&groups[i].bytes, 0, memory_order_relaxed)};
        nf_emit(NF_GROUP, 0, &group, sizeof group, NULL, 0, true);
    }
}

/* A process begins with all that may be saved up. */
static void fill_tokens(void) {
    atomic_store(&tokens, (int64_t)nf_process.header->alloc_burst);
    atomic_store(&tokens_at, nf_now(CLOCK_MONOTONIC));
}

/* Adds what has come together since the last time; at most once in a millisecond. Whether there are any now. */
static bool more_tokens(void) {
    uint64_t now = nf_now(CLOCK_MONOTONIC), at = atomic_load_explicit(&tokens_at, memory_order_relaxed);
    if (now - at < 1000000) return atomic_load_explicit(&tokens, memory_order_relaxed) > 0;
    if (!atomic_compare_exchange_strong(&tokens_at, &at, now)) return false;
    uint64_t most = nf_process.header->alloc_burst, passed = now - at < 1000000000u ? now - at : 1000000000u;
    uint64_t more = passed * nf_process.header->alloc_rate / 1000000000u;
    atomic_store_explicit(&tokens, (int64_t)(more < most ? more : most), memory_order_relaxed);
    return more > 0;
}

/* Whether a record may be written now. */
static bool take_token(void) {
    if (!nf_process.header->alloc_rate) return true;
    if (atomic_fetch_sub_explicit(&tokens, 1, memory_order_relaxed) > 0) return true;
    bool more = more_tokens();
    if (more && atomic_load_explicit(&held, memory_order_relaxed) > 0) nf_objects_tell(false);
    return more && atomic_fetch_sub_explicit(&tokens, 1, memory_order_relaxed) > 0;
}

static bool storm(void) {
    return nf_process.header->alloc_rate && atomic_load_explicit(&tokens, memory_order_relaxed) <= 0 && !more_tokens();
}

static void tell_end(uintptr_t address, size_t bytes, uint16_t flags, uint64_t died) {
    struct nf_range range = {.address = address, .bytes = bytes, .to = died};
    nf_emit(NF_FREE, flags, &range, sizeof range, NULL, 0, true);
}

/* The same call has got the same block again: one object that goes on. */
static bool goes_on(const struct slot *s, uint16_t flags, size_t bytes, const struct nf_site *site) {
    return s->bytes == bytes && s->flags == flags && s->rip == site->rip && s->rsp == site->rsp;
}

/* What was known of the slot's address has ended: there is a new object. A fork's child tells that of what it has
 * inherited; of what its parent had not told the reader knows nothing. */
static void ended_unseen(const struct slot *s, uint64_t word, uintptr_t address) {
    enum state was = state_of(word);
    if (ours(word)) {
        if (was == UNTOLD) add(&nf_process.segment->untold, (uint64_t)-1);
        if (was == UNTOLD || was == DORMANT) hold(-1);
        if (was == UNTOLD || was == TOLD) atomic_fetch_sub_explicit(&alive_now, 1, memory_order_relaxed);
    }
    if (was == TOLD || was == DORMANT || was == BUSY) tell_end(address, s->bytes, 0, was == DORMANT ? s->when : 0);
}

/* A slot for a new object at this address, held; NULL if there is none. `*done`: nothing is left to do, since the
 * object is one that goes on, or its record is lost. */
static struct slot *slot_for(uintptr_t address, uint16_t flags, size_t bytes, const struct nf_site *site, bool *done) {
    uint64_t word;
    struct slot *s = take(address, &word, done);
    if (!s) return *done ? NULL : insert(address);
    if (ours(word) && state_of(word) == DORMANT && goes_on(s, flags, bytes, site)) {
        hold(-1);
        atomic_fetch_add_explicit(&alive_now, 1, memory_order_relaxed);
        count_group(s->site, bytes);
        give(s, TOLD);
        *done = true;
        return NULL;
    }
    ended_unseen(s, word, address);
    return s;
}

void nf_object_begins(uint16_t flags, uintptr_t address, size_t bytes, uintptr_t previous, const struct nf_site *site) {
    bool done;
    struct slot *s = slot_for(address, flags, bytes, site, &done);
    if (done) return;
    uint64_t known = 0;
    if (!s) {
        if (take_token() || !(known = nf_known_site(site))) {
            nf_record_alloc(flags | NF_ALLOC_UNTRACKED, address, bytes, bytes, previous, site);
        } else {
            add(&nf_process.segment->short_count, 1);
            add(&nf_process.segment->short_bytes, bytes);
            count_group(known, bytes);
        }
        return;
    }
    int64_t now = atomic_fetch_add_explicit(&alive_now, 1, memory_order_relaxed) + 1;
    int64_t most = atomic_load_explicit(&alive_most, memory_order_relaxed);
    bool more_than_ever = now > most;
    while (now > most && !atomic_compare_exchange_weak(&alive_most, &most, now)) {
    }
    s->flags = flags;
    s->rip = site->rip;
    s->rsp = site->rsp;
    s->site = 0;
    atomic_store_explicit(&s->bytes, bytes, memory_order_relaxed);
    /* What realloc could not do takes back an end that was recorded. */
    if (more_than_ever || (flags & NF_ALLOC_RESTORED) || take_token() || !(known = nf_known_site(site))) {
        s->site = nf_record_alloc(flags, address, bytes, bytes, previous, site);
        give(s, TOLD);
    } else {
        s->site = known;
        s->when = nf_now(CLOCK_MONOTONIC);
        add(&nf_process.segment->untold, 1);
        hold(1);
        give(s, UNTOLD);
    }
}

size_t nf_object_ends(uintptr_t address, uint16_t flags, bool look_at_page_nodes, bool *told) {
    uint64_t word;
    bool late;
    struct slot *s = take(address, &word, &late);
    enum state was = s ? state_of(word) : NOTHING;
    if (told) *told = was == TOLD || was == BUSY;
    if (!s) return 0;
    if (was == DORMANT || was == NOTHING) {
        give_back(s, word);
        return 0;
    }
    size_t bytes = s->bytes;
    bool mine = ours(word);
    if (mine) atomic_fetch_sub_explicit(&alive_now, 1, memory_order_relaxed);
    if (was == UNTOLD) {
        if (mine) {
            hold(-1);
            add(&nf_process.segment->untold, (uint64_t)-1);
            add(&nf_process.segment->short_count, 1);
            add(&nf_process.segment->short_bytes, bytes);
            count_group(s->site, bytes);
        }
        forget(s);
        return bytes;
    }
    if (!flags && mine && s->site && storm()) {
        s->when = nf_now(CLOCK_MONOTONIC);
        hold(1);
        give(s, DORMANT);
        return bytes;
    }
    forget(s);
    if (look_at_page_nodes) nf_page_nodes(address, bytes);
    tell_end(address, bytes, flags, 0);
    return bytes;
}

/* The owner asks: what is held is being told. */
size_t nf_object_bytes(uintptr_t address, uint16_t *flags) {
    struct slot *s = find(address);
    enum state state = s ? state_of(look(s)) : NOTHING;
    if (state == NOTHING || state == DORMANT) return 0;
    *flags = (uint16_t)s->flags;
    return s->bytes;
}

size_t nf_object_forget(uintptr_t address, uint16_t *flags) {
    uint64_t word;
    bool late;
    struct slot *s = take(address, &word, &late);
    enum state was = s ? state_of(word) : NOTHING;
    if (!s) return 0;
    if (was == DORMANT || was == NOTHING) {
        give_back(s, word);
        return 0;
    }
    size_t bytes = s->bytes;
    *flags = (uint16_t)s->flags;
    if (ours(word)) {
        atomic_fetch_sub_explicit(&alive_now, 1, memory_order_relaxed);
        if (was == UNTOLD) {
            hold(-1);
            add(&nf_process.segment->untold, (uint64_t)-1);
        }
    }
    forget(s);
    return bytes;
}

void nf_objects_tell(bool all) {
    if (!nf_process.segment || !slots) return;
    if (!all && atomic_load_explicit(&held, memory_order_relaxed) <= 0) return;
    for (unsigned spins = 0; atomic_flag_test_and_set(&telling); spins++) {
        if (!all || spins > PATIENCE) return;
        nf_yield();
    }
    uint64_t now = nf_now(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < (all ? SLOTS : AT_ONCE); i++, cursor++) {
        if (unwritten(cursor)) {
            unsigned skipped = PER_PAGE - 1 - cursor % PER_PAGE;
            i += skipped;
            cursor += skipped;
            continue;
        }
        struct slot *s = &slots[cursor % SLOTS];
        uint64_t word = look(s);
        enum state state = state_of(word);
        /* One that is held just now is its holder's; what its owner has done with it meanwhile is for the next time. */
        if ((state != UNTOLD && state != DORMANT) || !ours(word) || !take_from(s, word)) continue;
        if (!all && now - s->when < NF_RIPE_NS) {
            give_back(s, word);
            continue;
        }
        uintptr_t address = atomic_load_explicit(&s->address, memory_order_relaxed);
        hold(-1);
        if (state == UNTOLD) {
            struct nf_site where = {.rip = s->rip, .rsp = s->rsp};
            nf_record_late((uint16_t)s->flags, address, s->bytes, s->site, &where, s->when);
            add(&nf_process.segment->untold, (uint64_t)-1);
            give(s, TOLD);
        } else {
            tell_end(address, s->bytes, 0, s->when);
            forget(s);
        }
    }
    if (all || cursor % SLOTS < AT_ONCE) tell_groups();
    atomic_flag_clear(&telling);
}

/* In a fork's child: what its parent has still to tell is the parent's. */
void nf_objects_after_fork(void) {
    atomic_flag_clear(&telling);
    fill_tokens();
    atomic_store(&alive_now, 0);
    atomic_store(&alive_most, 0);
    atomic_store(&held, 0);
    for (unsigned i = 0; i <= GROUPS; i++) {
        atomic_store(&groups[i].count, 0);
        atomic_store(&groups[i].bytes, 0);
    }
}

void nf_objects_each(bool (*f)(uintptr_t address, size_t bytes, void *), void *state) {
    for (unsigned i = 0; slots && i < SLOTS; i++) {
        if (unwritten(i)) {
            i += PER_PAGE - 1;
            continue;
        }
        struct slot *s = &slots[i];
        uintptr_t address = atomic_load_explicit(&s->address, memory_order_acquire);
        size_t bytes = atomic_load_explicit(&s->bytes, memory_order_acquire);
        uint64_t word = look(s);
        bool lives = state_of(word) == TOLD || state_of(word) == UNTOLD;
        if (address > REMOVED && bytes && lives && ours(word) && !f(address, bytes, state)) return;
    }
}
