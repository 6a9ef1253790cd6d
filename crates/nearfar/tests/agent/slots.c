/* Runs agent/objects.c, the file itself (OBJECTS), through the interleavings of a few threads. Before each access to a
 * slot it is decided which thread goes on; each sequence of decisions is one execution, and all of them are tried.
 * Threads are coroutines, so that an execution can be repeated up to the point where it should differ.
 *
 * What this does not see: orders of memory accesses that only weaker machines show, since each access is seen by all
 * threads at once; more threads and slots than here; and, in the examples with a bound, executions with more changes
 * from a thread that could have gone on.
 *
 * Built with NF_SLOTS slots, it runs the examples for that many, and prints a line for each. It ends with 1 at the
 * first execution that is wrong. With `in vain`, it lets threads wait for a slot that is never given back. */
#include "agent.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static void step(const volatile void *at);
/* A coroutine does not lose the processor: between two steps these are atomic. */
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_strong
#define atomic_load_explicit(p, order) (step(p), __atomic_load_n(p, __ATOMIC_SEQ_CST))
#define atomic_store_explicit(p, value, order) (step(p), __atomic_store_n(p, value, __ATOMIC_SEQ_CST))
#define COMPARE(p, old, new) (step(p), __atomic_compare_exchange_n(p, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong_explicit(p, old, new, a, b) COMPARE(p, old, new)
#define atomic_compare_exchange_weak(p, old, new) COMPARE(p, old, new)
#define atomic_compare_exchange_strong(p, old, new) COMPARE(p, old, new)

#define nf_pause() waits()
static void waits(void);
#include OBJECTS

/* The rest of the agent, as far as objects.c needs it. */
struct nf_process nf_process;
_Thread_local struct nf_thread nf_self;
static struct nf_header header;
static struct nf_segment segment;
static uint64_t clock_ns;

/* Decisions: at each step of one thread, which one goes on. */
enum { THREADS = 3, MOST_STEPS = 1000 };
struct decision {
    unsigned char taken, options;
};
static struct decision decisions[MOST_STEPS];
static unsigned made, known, changes, bound;
/* The first switch to a thread is by its context, the others by jumps: those make no system call. */
static ucontext_t contexts[THREADS];
static jmp_buf scheduler, places[THREADS];
static bool begun[THREADS];
static char stacks[THREADS][65536];
enum activity { RUNS, WAITS, ENDED };
static enum activity is[THREADS];
static unsigned running;
static bool running_now;

/* Ends this thread's turn. */
static void turn(enum activity as) {
    unsigned me = running;
    is[me] = as;
    if (!_setjmp(places[me])) _longjmp(scheduler, 1);
}

static void step(const volatile void *at) {
    const char *p = (const char *)at;
    if (running_now && p >= (const char *)slots && p < (const char *)(slots + SLOTS)) turn(RUNS);
}
/* It waits for a slot: another must do something first. */
static void waits(void) {
    if (running_now) turn(WAITS);
}
void nf_yield(void) {}

static uint64_t passes_ns; /* of the clock between two looks at it */
uint64_t nf_now(clockid_t clock) {
    (void)clock;
    return clock_ns += passes_ns;
}

/* What the recorder has been told: whether the object at each address lives. */
enum { ADDRESSES = 3, BYTES = 100000 };
static const uintptr_t FIRST = 0x100000;
static int told[ADDRESSES], lives[ADDRESSES], is_free[ADDRESSES];
static const char *wrong;
static bool forked;
static unsigned place(uintptr_t address) { return (unsigned)((address - FIRST) / BYTES); }
static void check(bool holds, const char *what) {
    if (!holds && !wrong) wrong = what;
}

static bool is_one(uintptr_t address) {
    bool one = address >= FIRST && place(address) < ADDRESSES;
    check(one, "a record has the address of no object");
    return one;
}

bool nf_emit(uint16_t kind, uint16_t flags, const void *body, size_t bytes, const void *tail, size_t more, bool wait) {
    (void)flags, (void)bytes, (void)tail, (void)more, (void)wait;
    if (kind != NF_FREE) return true;
    const struct nf_range *range = body;
    if (!is_one(range->address)) return true;
    /* In a fork's child it is for what the parent may have told. */
    check(forked || told[place(range->address)] == 1, "an end is recorded of what does not live");
    check(forked || range->bytes == BYTES, "an end has other bytes");
    told[place(range->address)] = 0;
    return true;
}
uint64_t nf_record_alloc(uint16_t flags, uintptr_t address, size_t bytes, size_t represents, uintptr_t previous,
                         const struct nf_site *site) {
    (void)represents, (void)previous, (void)site, (void)bytes;
    if (!is_one(address)) return 0;
    check(!(flags & NF_ALLOC_UNTRACKED), "no slot is found although there are enough");
    check(told[place(address)] == 0, "a beginning is recorded of what lives");
    told[place(address)] = 1;
    return 7;
}
void nf_record_late(uint16_t flags, uintptr_t address, size_t bytes, uint64_t site, const struct nf_site *where,
                    uint64_t born) {
    (void)site, (void)born;
    nf_record_alloc(flags, address, bytes, bytes, 0, where);
}
uint64_t nf_known_site(const struct nf_site *site) {
    (void)site;
    return 7;
}
void nf_page_nodes(uintptr_t address, size_t bytes) { (void)address, (void)bytes; }
void nf_lost_quietly(void) {}

/* A thread's work: a letter and the address's number each. */
static const char *before, *work[THREADS];
static void do_one(char what, unsigned n) {
    uintptr_t address = FIRST + n * BYTES;
    struct nf_site site = {.rip = 1, .rsp = 1};
    switch (what) {
    case 'o': /* an object of another call begins: never one that goes on */
        site.rip += what == 'o';
        /* fall through */
    case 'n': /* and there is a token to tell it at once */
        atomic_fetch_add(&tokens, what == 'n');
        /* fall through */
    case 'b': /* it begins, once the allocator has the block */
        while (!is_free[n]) turn(WAITS);
        is_free[n] = 0;
        lives[n] = 1;
        nf_object_begins(NF_HEAP, address, BYTES, 0, &site);
        break;
    case 'e': /* and ends */
        check(nf_object_ends(address, 0, true, NULL) == BYTES || forked, "an end is lost");
        lives[n] = 0;
        is_free[n] = 1;
        break;
    case 'r': { /* mremap takes it out, and puts it back under the same address */
        uint16_t flags;
        check(nf_object_forget(address, &flags) == BYTES, "an object is lost");
        told[n] = 0; /* by its RANGE */
        nf_object_begins(NF_HEAP, address, BYTES, address, &site);
        break;
    }
    case 't': nf_objects_tell(n); break;
    case 'f': /* a fork: goes on in the child, without the others */
        for (unsigned i = 0; i < THREADS; i++)
            if (i != running) is[i] = ENDED;
        nf_process.epoch++;
        nf_objects_after_fork();
        segment = (struct nf_segment){0};
        forked = true;
        break;
    }
}

static void thread(void) {
    unsigned me = running;
    for (const char *at = work[me]; *at; at += 2) do_one(at[0], (unsigned)(at[1] - '0'));
    turn(ENDED);
}

/* Which goes on after `running`: the decision of this place. */
static bool next(void) {
    unsigned options[THREADS], count = 0;
    bool could = is[running] == RUNS;
    /* First the one that runs: other choices are changes. */
    if (could) options[count++] = running;
    for (unsigned i = 0; i < THREADS; i++)
        if (i != running && is[i] == RUNS) options[count++] = i;
    if (!count) {
        /* What they wait for may have come between their look and their waiting. */
        for (unsigned i = 0; i < THREADS; i++) {
            if (is[i] != WAITS) continue;
            is[i] = RUNS;
            options[count++] = i;
        }
        if (!count) return false;
    }
    if (could && changes >= bound) count = 1;
    if (made >= MOST_STEPS) {
        check(false, "no end");
        return false;
    }
    struct decision *d = &decisions[made++];
    if (made > known) *d = (struct decision){0, (unsigned char)count}, known = made;
    unsigned to = options[d->taken];
    if (could && to != running) changes++;
    running = to;
    return true;
}

/* The last decision that can be made otherwise; false if there is none. */
static bool another(void) {
    while (known && decisions[known - 1].taken + 1 >= decisions[known - 1].options) known--;
    if (!known) return false;
    decisions[known - 1].taken++;
    return true;
}

static void execute(void) {
    memset(slots, 0, SLOTS * sizeof *slots);
    memset((void *)nf_object_filter, 0, sizeof nf_object_filter);
    memset((void *)written, 0, sizeof written);
    memset(groups, 0, sizeof groups);
    atomic_store(&alive_now, 0), atomic_store(&alive_most, 1000), atomic_store(&held, 0);
    atomic_flag_clear(&telling);
    cursor = 0;
    segment = (struct nf_segment){0};
    header = (struct nf_header){.alloc_rate = 1, .alloc_burst = 1};
    nf_process = (struct nf_process){.segment = &segment, .header = &header, .epoch = 5};
    clock_ns = 1000000000;
    atomic_store(&tokens, 0), atomic_store(&tokens_at, clock_ns);
    memset(told, 0, sizeof told), memset(lives, 0, sizeof lives);
    for (unsigned i = 0; i < ADDRESSES; i++) is_free[i] = 1;
    made = changes = 0;
    forked = false;
    running_now = false;
    for (const char *at = before; *at; at += 2) do_one(at[0], (unsigned)(at[1] - '0'));
    clock_ns += NF_RIPE_NS + 1;
    atomic_store(&tokens_at, clock_ns);
    for (unsigned i = 0; i < THREADS; i++) {
        is[i] = work[i] && *work[i] ? RUNS : ENDED;
        begun[i] = false;
        getcontext(&contexts[i]);
        contexts[i].uc_stack = (stack_t){.ss_sp = stacks[i], .ss_size = sizeof stacks[i]};
        makecontext(&contexts[i], thread, 0);
    }
    running = 0;
    running_now = true;
    while (!wrong && next()) {
        volatile unsigned who = running;
        if (!_setjmp(scheduler)) {
            if (begun[who]) _longjmp(places[who], 1);
            begun[who] = true;
            setcontext(&contexts[who]);
        }
        who = running;
        /* It has done something: those that wait look again. */
        for (unsigned i = 0; i < THREADS && is[who] != WAITS; i++)
            if (i != who && is[i] == WAITS) is[i] = RUNS;
    }
    running_now = false;
    for (unsigned i = 0; i < THREADS; i++) check(is[i] == ENDED, "a thread waits for ever");
    if (wrong) return;
    nf_objects_tell(true);
    int64_t alive = 0;
    for (unsigned i = 0; i < ADDRESSES; i++) {
        uint16_t flags;
        uintptr_t address = FIRST + i * BYTES;
        size_t bytes = nf_object_bytes(address, &flags);
        check(lives[i] || !bytes, "an object that has ended is still known");
        alive += lives[i];
        if (forked) continue;
        check(!lives[i] || bytes == BYTES, "an object that lives is not known");
        check(!lives[i] || nf_object_possible(address), "an object that lives would not be looked up");
        check(lives[i] == told[i], "what lives and what was recorded differ");
    }
    check(held == 0, "the sum of what is still to be told is wrong");
    check(segment.untold == 0, "the number of objects that were not recorded is wrong");
    check(forked || alive_now == alive, "the number of objects that live is wrong");
    check(segment.lost_busy == 0, "records are lost");
}

struct example {
    const char *name, *before, *work[THREADS];
    unsigned slots; /* of the table: as many as are needed at once */
    unsigned bound; /* changes from a thread that could have gone on; 0: all there are */
};
/* A holder that does not run (a thread that a debugger has stopped): who waits goes on without its record, and counts it. */
static const char *in_vain(void) {
    before = "n0";
    memset(work, 0, sizeof work);
    execute();
    struct nf_site site = {.rip = 1, .rsp = 1};
    uint16_t flags;
    bool told_it;
    struct slot *s = find(FIRST);
    uint64_t word = look(s), lost = 0;
    s->word = word_of(BUSY);
    for (int clock = 1; clock >= 0; clock--) {
        /* A thread that must not ask what time it is waits for a number of turns. */
        clock_ns = clock ? 1000000000 : 0;
        passes_ns = clock ? WAIT_FOR_SLOT_NS / 3 : 0;
        if (nf_object_ends(FIRST, 0, false, &told_it) || told_it) return "an end without its slot is told";
        if (segment.lost_busy != ++lost) return "the record of an end is lost, and not counted";
        nf_object_begins(NF_HEAP, FIRST, BYTES, 0, &site);
        if (segment.lost_busy != ++lost) return "the record of a beginning is lost, and not counted";
        if (nf_object_forget(FIRST, &flags)) return "an object is forgotten without its slot";
        if (segment.lost_busy != ++lost) return "the record of a mapping that moved is lost, and not counted";
    }
    passes_ns = 0;
    s->word = word;
    if (nf_object_ends(FIRST, 0, false, &told_it) != BYTES || !told_it) return "the holder is back, and the slot is not";
    return segment.lost_busy == lost ? NULL : "nothing was lost, and is counted";
}

static const struct example examples[] = {
    {"a block gets a slot again while its end is recorded", "n0e0", {"o0", "t1"}, 2, 0},
    {"and goes on, or does not", "n0e0", {"b0e0", "t1"}, 2, 0},
    {"an object ends while its beginning is recorded", "b0", {"e0", "t1"}, 2, 0},
    {"and its block goes to another thread", "b0", {"e0", "t1", "o0"}, 3, 3},
    {"two objects want one slot", "", {"b0", "b1"}, 2, 0},
    {"while the teller frees one", "n0e0", {"b1", "t1", "o0"}, 3, 3},
    {"or its slot goes to another block", "n1e1", {"o1", "t1", "b2"}, 3, 4},
    {"a mapping is moved while its beginning is recorded", "b0", {"r0e0", "t1"}, 2, 0},
    {"two tell", "n0b1e0", {"t1", "t0"}, 2, 0},
    {"a fork while another tells a beginning", "b0", {"f0e0o0", "t1"}, 2, 0},
    {"a fork while another tells an end", "n0e0", {"f0o0e0", "t1"}, 2, 0},
    {"a fork while another begins", "b0", {"f0e0o0", "b1"}, 2, 0},
};

int main(int count, char **arguments) {
    slots = calloc(SLOTS, sizeof *slots);
    if (count > 1 && !strcmp(arguments[1], "in vain")) {
        const char *found = in_vain();
        puts(found ? found : "counted");
        return found != NULL;
    }
    for (unsigned i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *x = &examples[i];
        if (x->slots != SLOTS) continue;
        before = x->before;
        memcpy(work, x->work, sizeof work);
        bound = x->bound ? x->bound : ~0u;
        unsigned long executions = 0;
        known = 0;
        do {
            execute();
            executions++;
        } while (!wrong && another());
        printf("%s: %lu executions%s\n", x->name, executions, x->bound ? ", bounded" : "");
        if (wrong) {
            printf("WRONG: %s; decisions", wrong);
            for (unsigned k = 0; k < made && k < 60; k++) printf(" %u/%u", decisions[k].taken, decisions[k].options);
            printf("\n");
            return 1;
        }
    }
    return 0;
}
