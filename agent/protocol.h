/* The agent's protocol: what the preloaded agent and the recorder agree on.
 *
 * The recorder makes one sparse file in memory (memfd_create), writes the header and names the file in
 * NEARFAR_AGENT, as /proc/PID/fd/N: it has no place in a file system that could be full or be left behind, and
 * it ends with the last process that has it mapped. Every process that is started with the agent in LD_PRELOAD
 * maps header and table, claims one of the segments, maps that too, and closes the descriptor again: programs
 * close or reuse descriptors that they did not open, so the agent keeps none.
 *
 *   0              header          struct nf_header
 *   4 KiB          segment table   header.segments x struct nf_segment
 *   rings_offset   rings           header.segments x header.ring_bytes, never touched = never allocated
 *
 * Where the path cannot be opened (a user namespace of the program's own), the recorder hands the descriptor out through
 * a socket of an abstract name, "nearfar" and the path; with it comes the process's number as the recorder knows it.
 *
 * No page is touched before the kernel has given it (fallocate for the first bytes of a ring, then
 * MADV_POPULATE_WRITE in steps): in a full memory a touch would end the program by SIGBUS. A ring that cannot grow
 * stays as short as it is then: its writer lowers the segment's `ring_bytes` before it goes around.
 *
 * Why rings in shared memory, and not a pipe or a file: what a process has
 * published survives its SIGKILL without a system call per record; no process can
 * close it; the writer never blocks in the kernel, so it also works in a signal
 * handler; and a recorder that is slow or gone costs the program lost records
 * (counted), not a hang or a SIGPIPE.
 *
 * Claiming. A process sets its segment's bit in `taken`, fills the segment
 * and sets `state` to NF_CLAIMED with release. `generation` comes from the
 * header's counter: a higher generation of the same pid (after exec) says that
 * the lower one is finished. The child of a fork claims its own segment. Only
 * the recorder frees a segment, once its process is gone and its ring is read:
 * it resets everything and then clears the bit with release.
 *
 * Numbers of processes and threads are as the recorder knows them. A program in a PID namespace of its own has others
 * for itself; it reads these from the links /proc/self and /proc/thread-self of the /proc in which the recorder is.
 *
 * Ring. `head` and `tail` count bytes since the claim; the place is the count
 * modulo the segment's `ring_bytes`. The process holds one spinlock (in its private memory)
 * while it writes and publishes `head` with release when the record is complete:
 * the reader sees whole records only, whenever the process dies. A record never
 * wraps: where it does not fit before the end, an NF_PAD record fills the rest.
 * `tail` is stored by the recorder with release. If the ring is full, a writer
 * waits a few milliseconds once (not in a signal handler), then records are
 * dropped and counted in `lost_full` until there is room again.
 *
 * Order. FREE and the RANGE records that end something are written before the
 * call, ALLOC after it; so in one process an address is never seen allocated
 * twice without its end in between, whichever thread reuses it. Both may come late, with the time of the event
 * in `born` and `to`: see "Storms". realloc writes
 * FREE (NF_FREE_REALLOC) before and ALLOC with `previous` after; if it fails,
 * ALLOC with NF_ALLOC_RESTORED brings the old object back.
 *
 * Sites. An ALLOC carries the registers at the return of the hooked call and a
 * `site` key: a hash of the return address, the stack pointer and the words near
 * the top of the stack that point into loaded modules (return addresses, old
 * ones among them). The copy of the stack, from which the recorder unwinds the
 * call chain, follows only the first time a process uses a key. A key is valid
 * for the process that sent its stack and for its fork descendants. Different
 * keys may unwind to the same chain; one key never stands for two return
 * addresses of the hook. Of the callee-saved registers only rbp is sent: rbx and
 * r12-r15 may already have been changed by the hook, and hardly any frame
 * defines its CFA by them. Of a thread that runs Python, the lines of Python are part of the key, and PYTHON has them.
 *
 * Storms. A process may write so many ALLOC a second (`alloc_rate`, with a stock of `alloc_burst`). Beyond that an
 * allocation is only noted: told later if it is still there after NF_RIPE_NS, and otherwise counted, by site (GROUP)
 * and in the segment (`short_count`, `short_bytes`). The end of an object that was recorded is held back then, for the
 * same call often gets the same block again: that is the same object going on, and counted in GROUP as well.
 *
 * Sandboxes. A program may install a seccomp filter that ends it at a call which it does not expect. From then on
 * the agent makes no system call: rings are filled up before, what needs a call is left out and said (LOST). A thread
 * that may not read the time stamp counter either (strict seccomp, PR_SET_TSC) has no clock, and writes no records.
 *
 * All numbers are in the machine's byte order; both sides run on one machine. */
#ifndef NEARFAR_PROTOCOL_H
#define NEARFAR_PROTOCOL_H

#include <stdint.h>

#define NF_MAGIC 0x31544e474152464eull /* "NFRAGNT1" */
#define NF_VERSION 4u
/* Most segments; the recorder makes fewer where memory or limits are short. */
#define NF_SEGMENTS 4096u
/* Longest ring; a multiple of 64 KiB. */
#define NF_RING_BYTES (1u << 20)
#define NF_TABLE_OFFSET 4096u
/* What a ring has at first, and by how much it grows, bytes. */
#define NF_RING_STEP 65536u
/* A ring shorter than this holds no record of the largest size. */
#define NF_LEAST_RING 65536u
/* Age at which an allocation that was only noted is told, ns. */
#define NF_RIPE_NS 10000000ull
/* No record is larger; the recorder takes a larger one for a damaged ring. */
#define NF_MAX_RECORD 65536u
/* Most bytes of stack that follow an ALLOC. */
#define NF_MAX_STACK 8192u
/* The same where the set of known keys is full and every ALLOC must carry some. */
#define NF_SMALL_STACK 1024u
/* The same of a small block that is one of its caller's first: enough to leave operator new. */
#define NF_FIRSTS_STACK 256u
/* Most return addresses in a SAMPLE, most bytes in a name. */
#define NF_MAX_CHAIN 16u
#define NF_MAX_NAME 255u

/* The first page. Settings are written by the recorder before the first process
 * starts; only `stop` changes later. */
struct nf_header {
    uint64_t magic;        /* NF_MAGIC, written last */
    uint32_t version;      /* NF_VERSION; the agent does nothing if it differs */
    uint32_t recorder_pid;
    uint32_t stop;         /* non-zero: write no more records */
    uint32_t signal_hz;    /* samples per second of CPU time and thread; 0 = no signal source */
    uint64_t min_object;   /* allocations from this size on are recorded one by one */
    uint64_t small_sample; /* smaller ones: one record per so many bytes and thread; 0 = none */
    uint32_t looked_up_pages;   /* most pages looked up per object at its end; 0 = none */
    uint32_t flags;        /* NF_SET_* */
    uint32_t segments;     /* of the table; at most NF_SEGMENTS, a multiple of 64 */
    uint32_t ring_bytes;   /* of each segment's ring at most; a multiple of NF_RING_STEP */
    uint64_t rings_offset; /* of the first ring */
    uint32_t alloc_rate;   /* ALLOC records a second and process that are written at once */
    uint32_t alloc_burst;  /* and how many may be saved up */
    uint32_t seccomp_mode; /* of the recorder: "Seccomp" in /proc/PID/status */
    uint32_t seccomp_filters; /* "Seccomp_filters" there; UINT32_MAX: the kernel does not say */
    uint64_t generation;   /* last generation given out; atomic */
    uint64_t unclaimed;    /* processes that found no free segment; atomic */
    uint64_t refused;      /* processes that would not attach (address-space limit); atomic */
    uint64_t unopened;     /* forked processes that could not open the file (other user, other /proc); atomic */
    uint64_t sandboxed;    /* processes that began under a seccomp filter of their own; atomic */
    uint64_t no_memory;    /* processes for whose ring there was no memory; atomic */
    uint32_t filtering;    /* a process of the run has installed a seccomp filter; atomic */
    uint32_t unused;
    uint64_t taken[NF_SEGMENTS / 64]; /* a bit for each segment in use; atomic */
};

/* Settings flags: send /proc/self/maps at the start of an image and at its end,
 * for recorders that get no mapping events from perf. */
#define NF_SET_MAPS 1u
/* The program runs in nearfar's virtual machine: make hypercalls (hypercall.c). */
#define NF_SET_HYPERCALL 2u
/* The kernel answers clock_gettime(CLOCK_MONOTONIC) without a system call (the vDSO). */
#define NF_SET_VDSO_CLOCK 4u

/* Operations of a hypercall; the launcher in host/target.rs makes them too. */
enum nf_hypercall {
    NF_HYPERCALL_THREAD = 1,       /* process id << 32 | thread id: this thread is the program's */
    NF_HYPERCALL_TIME = 2,         /* CLOCK_MONOTONIC now, ns */
    NF_HYPERCALL_REGION_BEGIN = 3,
    NF_HYPERCALL_REGION_END = 4,
    NF_HYPERCALL_THREAD_END = 5,
    NF_HYPERCALL_MAIN = 6,         /* the program proper begins */
    NF_HYPERCALL_PROCESS_END = 7,  /* process id */
    NF_HYPERCALL_PHASE = 10,       /* a phase begins or ends: CLOCK_MONOTONIC now, ns, as its record has it */
    NF_HYPERCALL_CODE_FROM = 11,   /* code of the recorder itself, which is not counted: where it begins */
    NF_HYPERCALL_CODE_TO = 12,     /* where it ends */
};
#define NF_HYPERCALL_BEGIN 512u
#define NF_HYPERCALL_COMMIT 256u

enum { NF_FREE_SEGMENT = 0, NF_CLAIMED = 1, NF_CLOSED = 2 /* said EXIT; may still write */ };

struct nf_segment {
    uint32_t pid;
    uint32_t state;        /* NF_CLAIMED, NF_CLOSED; atomic */
    uint64_t generation;
    uint64_t claimed_boot_ns; /* CLOCK_BOOTTIME at the claim: tells a reused pid */
    uint64_t lost_full;    /* records dropped because the ring was full; atomic */
    uint64_t lost_busy;    /* records dropped because the lock was taken (handler, re-entry); atomic */
    uint64_t lost_quiet;   /* records of threads that began under the program's own filter, or that have no clock
                            * under it; atomic */
    uint32_t ring_bytes;   /* of this ring; atomic */
    uint32_t unused0;
    uint64_t unused;
    uint64_t head;         /* written by the process */
    uint64_t short_count;  /* allocations that had ended before they were told; atomic */
    uint64_t short_bytes;  /* and their bytes; atomic */
    uint64_t untold;       /* objects that live and were not told yet; atomic */
    uint64_t unused2[4];
    uint64_t tail;         /* written by the recorder */
    uint64_t unused3[7];
};

enum nf_kind {
    NF_PAD = 0,
    NF_HELLO = 1,        /* struct nf_hello, path of the executable; first record of an image */
    NF_FORK = 2,         /* struct nf_hello without path; first record of a fork's child */
    NF_EXEC = 3,         /* no body: an exec is about to be tried; it may fail */
    NF_EXIT = 4,         /* no body: records may still follow (late destructors) */
    NF_THREAD_START = 5, /* struct nf_stack */
    NF_THREAD_END = 6,   /* no body */
    NF_ALLOC = 7,        /* struct nf_alloc, stack */
    NF_FREE = 8,         /* struct nf_range: address, bytes */
    NF_RANGE = 9,        /* struct nf_range; flags = RangeKind of the recording's tables */
    NF_PHASE_BEGIN = 10, /* struct nf_phase, name, place in the source as text; flags: NF_SAID_*, NF_PHASE_INHERITED */
    NF_PHASE_END = 11,   /* struct nf_phase, name (only NF_PHASE_ELSEWHERE), place; flags: NF_PHASE_ENDED and so on */
    NF_ROI_BEGIN = 12,   /* struct nf_range, empty */
    NF_ROI_END = 13,     /* the same */
    NF_NAME = 14,        /* struct nf_range, name */
    NF_PAGE_NODES = 15,       /* struct nf_page_nodes, struct nf_run... */
    NF_SAMPLE = 16,      /* struct nf_sample, return addresses */
    NF_LOST = 17,        /* struct nf_lost */
    NF_MAPS = 18,        /* struct nf_range (`to`: bytes), text of /proc/self/maps; flags bit 0: more follows */
    NF_GROUP = 19,       /* struct nf_group */
    NF_PHASE_COUNT = 20, /* struct nf_phase_count, names of the path, 0x1f between them; flags: NF_SAID_*, NF_PHASE_METRIC */
    NF_METRIC = 21,      /* struct nf_metric, name */
    NF_PYTHON = 22,      /* struct nf_python, frames as text; comes before the first ALLOC of its site */
};

struct nf_record {
    uint16_t kind;
    uint16_t flags;
    uint32_t size; /* of the whole record, a multiple of 8 */
    uint32_t tid;
    uint32_t cpu;  /* SAMPLE only; else 0 */
    uint64_t time; /* CLOCK_MONOTONIC, ns */
};

struct nf_hello {
    uint32_t pid;
    uint32_t parent; /* FORK: the process it is a copy of; HELLO: 0 */
    uint64_t parent_generation; /* FORK: generation of the parent's segment; else 0 */
    uint32_t path_bytes;
    uint32_t unused;
};

struct nf_stack {
    uint64_t low; /* 0 if unknown */
    uint64_t high;
};

/* ALLOC: the low four bits of flags are the kind, then what is known of it. */
enum { NF_HEAP = 1, NF_SMALL = 2, NF_MMAP = 3 };
#define NF_ALLOC_RESTORED 0x10u  /* realloc failed: the old object lives on */
#define NF_ALLOC_UNTRACKED 0x20u /* the table of live objects is full: no FREE will come */
#define NF_ALLOC_SHARED 0x40u    /* mmap: MAP_SHARED */
#define NF_ALLOC_FILE 0x80u      /* mmap: not anonymous */
#define NF_ALLOC_NONE 0x100u     /* mmap: PROT_NONE, a reservation */
#define NF_ALLOC_HUGE 0x200u     /* mmap: MAP_HUGETLB */
#define NF_ALLOC_ZEROED 0x400u   /* calloc: the allocator may have touched the pages */
#define NF_ALLOC_FIRST 0x800u    /* small, one of the first by its caller: with a short stack */

struct nf_alloc {
    uint64_t address;
    uint64_t bytes;
    uint64_t represents; /* small: bytes allocated by the thread since its last such record */
    uint64_t previous;   /* realloc, mremap: the old address; else 0 */
    uint64_t site;
    uint64_t rip;        /* return address of the hooked call */
    uint64_t rsp;        /* stack pointer after that return */
    uint64_t rbp;
    uint64_t born;       /* CLOCK_MONOTONIC of the allocation, ns, where it is recorded late; else 0 */
    uint32_t stack_bytes; /* copied from rsp upwards; 0 if the key is known */
    uint32_t unused;
};

/* Allocations of one site that were not told one by one. */
struct nf_group {
    uint64_t site;       /* a key whose stack was sent; 0: of sites beyond those that are counted apart */
    uint64_t count;
    uint64_t bytes;
};

#define NF_FREE_REALLOC 1u /* flags of FREE: realloc was called on it */

struct nf_range {
    uint64_t address;
    uint64_t bytes;
    uint64_t to;         /* RANGE move: new address; NAME: bytes of the name; FREE: time of the end, ns, where it
                          * is recorded late; else 0 */
};

struct nf_page_nodes {
    uint64_t address; /* first page looked up */
    uint64_t stride;  /* bytes between the pages looked up */
    uint32_t runs;
    uint32_t unused;
};

struct nf_run {
    int16_t node;     /* -1: not present (or not readable by move_pages) */
    uint16_t unused;
    uint32_t pages;
};

/* Registers in the order rax rbx rcx rdx rsi rdi rbp rsp r8..r15. */
struct nf_sample {
    uint64_t ip;
    uint64_t registers[16];
    uint64_t weight_ns; /* CPU time of the thread since its last sample */
    uint32_t chain;     /* return addresses that follow, by frame pointers, innermost first */
    uint32_t unused;
};

/* Phases of one path and thread that are recorded one by one, a second; those beyond are counted. */
#define NF_PHASE_RATE 4096u
/* Whose word a phase is: the low four bits of the flags of its beginning. */
enum nf_said {
    NF_SAID_BY_PROGRAM = 0, /* nearfar.h and its kin */
    NF_SAID_BY_OPENMP = 1,  /* OMPT */
    NF_SAID_BY_MPI = 2,     /* calls of MPI */
    NF_SAID_BY_ITT = 3,     /* ITT notify */
    NF_SAID_BY_LIKWID = 4,  /* LIKWID's markers */
};
/* Name of an OpenMP region; the address of its construct in hex follows. */
#define NF_OPENMP_NAME "omp parallel @"
#define NF_PHASE_INHERITED 0x10u /* begun before the fork, in the parent */
#define NF_PHASE_METRIC 0x20u    /* not a phase but values of a metric */
/* How a phase ended: flags of its end. */
#define NF_PHASE_ENDED 0x00u
#define NF_PHASE_UNWOUND 0x100u      /* an outer phase ended; the place is that end's */
#define NF_PHASE_ELSEWHERE 0x200u    /* this thread is in no phase of the name: another may be */
#define NF_PHASE_THREAD_ENDED 0x300u
#define NF_PHASE_EXITED 0x400u       /* the process ended by a call of this thread */

struct nf_phase {
    uint64_t time;       /* CLOCK_MONOTONIC, ns: exactly, where the record's own may be later */
    uint64_t site;       /* return address of the call; 0 if it says nothing */
    uint32_t id;         /* of the thread's phases; an end has that of its beginning */
    uint16_t bytes;      /* of the name */
    uint16_t place;      /* of the place, behind it */
};

/* Phases, or values of a metric, of one path that were not recorded one by one. */
struct nf_phase_count {
    uint64_t calls;
    uint64_t inclusive_ns;
    double sum, least, most; /* of a metric */
    uint32_t tid;            /* whose; at the end of a process another one writes it */
    uint32_t bytes;          /* of the path */
};

/* Lines of Python that a site was called from, innermost first: "LINE 0x1f FILE 0x1f FUNCTION 0x1e" of each. */
struct nf_python {
    uint64_t site;
    uint32_t bytes;      /* of the text */
    uint32_t unused;
};

struct nf_metric {
    uint64_t time;
    double value;
    uint32_t bytes;      /* of the name */
    uint32_t unused;
};

enum nf_why {
    NF_PAGE_NODES_REFUSED = 1, /* move_pages is not allowed here */
    NF_PAGE_NODES_BUDGET = 2,  /* looking them up would have cost too much time; count = objects */
    NF_SIGPROF_TAKEN = 3, /* the program uses SIGPROF itself: no samples from here on */
    NF_TIMER_REFUSED = 4, /* timer_create failed; count = errno */
    NF_SMALL_STACK_OF_SIGNALS = 5, /* the thread's alternate signal stack is too short for a handler; count = bytes */
    NF_SANDBOX = 6,       /* the program installs a seccomp filter: from here on no samples, nodes of pages and new threads */
};

struct nf_lost {
    uint64_t count;
    uint32_t why;
    uint32_t unused;
};

_Static_assert(sizeof(struct nf_header) == 648, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_segment) == 192, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_record) == 24, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_hello) == 24, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_alloc) == 80, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_group) == 24, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_range) == 24, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_page_nodes) == 24, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_run) == 8, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_sample) == 152, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_lost) == 16, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_phase) == 24, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_python) == 16, "mirrored in collect/agent/parse.rs");
_Static_assert(sizeof(struct nf_phase_count) == 48, "mirrored in collect/agent.rs");
_Static_assert(sizeof(struct nf_metric) == 24, "mirrored in collect/agent.rs");
/* The table of --placement: one file, shared by all processes of the program. A header, `entries` of
 * struct nf_place, and behind them `parts` of struct nf_part, to which entries point by number. */
#define NF_PLACES_MAGIC 0x31534543414c504eull /* "NPLACES1" */
#define NF_PLACES_VERSION 3u
struct nf_places {
    uint64_t magic;
    uint32_t version;        /* NF_PLACES_VERSION; nothing is placed if it differs */
    uint32_t entries, parts;
    uint32_t unused;
};
enum { NF_PLACE_WORDS = 16 };
enum nf_place_kind { NF_PLACE_CALL = 0, NF_PLACE_STATIC = 1 };
enum nf_place_how {
    NF_PLACE_WHOLE = 0,      /* all of it by `mode` and `nodes` */
    NF_PLACE_BLOCKS = 1,     /* each part by `mode` on its node; ends are those of the last part's size */
    NF_PLACE_TURNS = 2,      /* the i-th allocation by `mode` on the node of part i mod count */
    NF_PLACE_WEIGHTED = 3,   /* pages in turns: of each part, `end` of `unit` bytes on its node; new ones later by `mode` */
};
enum { NF_PLACE_HUGE_AS_IS = 0, NF_PLACE_HUGE = 1, NF_PLACE_SMALL = 2 };
struct nf_place {
    uint64_t device, inode;  /* of the module */
    uint64_t low, high;      /* addresses of code, or of a variable, in the module */
    uint64_t least;          /* bytes of the smallest allocation to place */
    uint32_t kind, mode;     /* mode: MPOL_* */
    uint32_t how, huge_pages;
    uint32_t part, part_count; /* first part and number of parts */
    uint32_t object, unit;   /* first entry of the same object: they count their turns together; weighted: bytes */
    uint64_t nodes[NF_PLACE_WORDS];
    /* Written by the agent. */
    uint64_t loaded;         /* the module was there */
    uint64_t applied, bytes; /* objects placed, and their whole pages */
    uint64_t failed, error;  /* calls that the kernel refused, and the last errno */
    uint64_t took_ns;        /* time that placing took */
};
struct nf_part {
    uint64_t end;            /* bytes from the object's first; or a weight */
    uint32_t node, unused;
};
_Static_assert(sizeof(struct nf_places) == 24, "mirrored in collect/objects.rs");
_Static_assert(sizeof(struct nf_place) == 248, "mirrored in collect/objects.rs");
_Static_assert(sizeof(struct nf_part) == 16, "mirrored in collect/objects.rs");

#endif
