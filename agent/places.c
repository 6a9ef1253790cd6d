/* Memory policies of single objects: NEARFAR_PLACES names a file of --placement with a table of calls and
 * static variables. What such a call allocates is bound before the program sees it. The table is shared:
 * what was done is counted in it. */
#include "agent.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Since Linux 5.14; older headers lack it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PREFERRED = 1,    /* MPOL_PREFERRED of linux/mempolicy.h */
       BATCH = 64,       /* pages that are moved at a time: the stack may be small */
       ROUNDS = 16,      /* turns of all nodes that an object has room for, or it gets small pages: chosen */
       MOST = 1024,      /* entries */
       WORDS = 64,       /* of the stack above the hook that are compared with the calls */
       MOVE = 1 << 1 };  /* MPOL_MF_MOVE: pages of a reused block are there already */
#define EVERY UINT32_MAX /* part */
#define PAGE ((uintptr_t)4096) /* a smaller one than the kernel's is refused and counted */

static struct nf_place *table;
static const struct nf_part *parts;
static unsigned count;
static uintptr_t base[MOST]; /* of the entry's module here; 0 and not found: `found` */
static bool found[MOST];
static _Atomic uint64_t turns[MOST]; /* allocations so far, of the object whose first entry it is */

static bool done(struct nf_place *place, long result) {
    if (result == 0) return true;
    __atomic_store_n(&place->error, (uint64_t)-result, __ATOMIC_RELAXED);
    __atomic_add_fetch(&place->failed, 1, __ATOMIC_RELAXED);
    return false;
}

/* Whether no page of the range is there yet. Where one may be, mbind(2) is told to move it, and that waits for
 * all cpus: 0.2 ms and more for each call. */
static bool fresh(uintptr_t low, uintptr_t high) {
    unsigned char there[2048];
    for (uintptr_t at = low; at < high; at += sizeof there * PAGE) {
        size_t pages = (high - at) / PAGE < sizeof there ? (high - at) / PAGE : sizeof there;
        if (nf_sys(SYS_mincore, at, pages * PAGE, there) != 0) return false;
        for (size_t i = 0; i < pages; i++)
            if (there[i] & 1) return false;
    }
    return true;
}

/* The kernel reads one bit less of a mask than it is told; policies without nodes have neither mask nor number. */
static unsigned long bits(const uint64_t *nodes) {
    for (unsigned i = 0; i < NF_PLACE_WORDS; i++)
        if (nodes[i]) return NF_PLACE_WORDS * 64ul + 1;
    return 0;
}

static bool bind_pages(struct nf_place *place, uintptr_t low, uintptr_t high, const uint64_t *nodes, unsigned flags) {
    if (low >= high) return true;
    unsigned long n = bits(nodes);
    return done(place, nf_sys(SYS_mbind, low, high - low, place->mode, n ? nodes : NULL, n, flags));
}

static void only(uint64_t *nodes, uint32_t node) {
    memset(nodes, 0, NF_PLACE_WORDS * sizeof *nodes);
    nodes[node / 64 % NF_PLACE_WORDS] = 1ull << node % 64;
}

static bool bind_part(struct nf_place *place, uintptr_t low, uintptr_t high, uint32_t node, unsigned flags) {
    uint64_t nodes[NF_PLACE_WORDS];
    only(nodes, node);
    return bind_pages(place, low, high, nodes, flags);
}

/* A page belongs to the part that has its middle: threads share the pages at the borders, and so each has
 * the larger half. */
static bool bind_blocks(struct nf_place *place, uintptr_t address, size_t bytes, uintptr_t low, uintptr_t high,
                        unsigned flags) {
    const struct nf_part *part = parts + place->part;
    uint64_t whole = part[place->part_count - 1].end;
    bool all = true;
    for (unsigned i = 0; i < place->part_count && low < high; i++) {
        uint64_t scaled = (uint64_t)((unsigned __int128)part[i].end * bytes / whole);
        uintptr_t end = (address + scaled + PAGE / 2) & ~(PAGE - 1);
        if (end > high || i + 1 == place->part_count) end = high;
        if (end <= low) continue;
        all &= bind_part(place, low, end, part[i].node, flags);
        low = end;
    }
    return all;
}

/* Calls `each` for the runs of a weighted object, of one part or EVERY: part after part, as many units of each as its weight says. */
static bool each_run(struct nf_place *place, uintptr_t low, uintptr_t high, uintptr_t unit, uint32_t part_only,
                     long (*each)(uintptr_t low, uintptr_t high, uint32_t node)) {
    const struct nf_part *part = parts + place->part;
    unsigned i = 0;
    for (uintptr_t from = low & ~(unit - 1); from < high; i = (i + 1) % place->part_count) {
        uintptr_t to = from + part[i].end * unit;
        if (part_only == i || part_only == EVERY)
            if (!done(place, each(from < low ? low : from, to > high ? high : to, part[i].node))) return false;
        from = to;
    }
    return true;
}

static long touch(uintptr_t low, uintptr_t high, uint32_t node) {
    (void)node;
    return nf_sys(SYS_madvise, low, high - low, MADV_POPULATE_WRITE);
}

static long move(uintptr_t low, uintptr_t high, uint32_t node) {
    void *pages[BATCH];
    int nodes[BATCH], status[BATCH];
    while (low < high) {
        unsigned n = 0;
        for (; n < BATCH && low < high; n++, low += PAGE) pages[n] = (void *)low, nodes[n] = (int)node;
        long result = nf_sys(SYS_move_pages, 0, (unsigned long)n, pages, nodes, status, MOVE);
        /* As many as could not be moved: a full node. They stay where they are. */
        if (result < 0) return result;
    }
    return 0;
}

/* Memory that the kernel can give without swapping, the page cache's too; all there can be if it does not say. */
static unsigned long available_kib(void) {
    static const char key[] = "MemAvailable:";
    char text[512];
    size_t had = nf_read_file("/proc/meminfo", text, sizeof text - 1);
    text[had] = 0;
    for (size_t i = 0; i + sizeof key <= had; i++) {
        if (memcmp(text + i, key, sizeof key - 1) != 0) continue;
        const char *at = text + i + sizeof key - 1;
        unsigned long kib;
        while (*at == ' ') at++;
        return nf_number(&at, ULONG_MAX, &kib) ? kib : ULONG_MAX;
    }
    return ULONG_MAX;
}

/* The kernel's weights are the machine's, and a mapping for each run would be tens of thousands. So the pages are made
 * now, those of each node while that is the thread's own policy; what is made later comes in even turns. */
static bool bind_weighted(struct nf_place *place, uintptr_t low, uintptr_t high, bool fresh) {
    uint64_t own[NF_PLACE_WORDS] = {0}, mask[NF_PLACE_WORDS];
    int mode = 0;
    /* More than there is would end the program, which may never use most of it. */
    if ((high - low) >> 10 > available_kib()) return done(place, -ENOMEM);
    uint64_t round = 0;
    for (unsigned i = 0; i < place->part_count; i++) round += parts[place->part + i].end * place->unit;
    uintptr_t unit = (high - low) / ROUNDS < round ? PAGE : place->unit;
    if (unit == PAGE) nf_sys(SYS_madvise, low, high - low, MADV_NOHUGEPAGE);
    if (!done(place, nf_sys(SYS_get_mempolicy, &mode, own, NF_PLACE_WORDS * 64ul, NULL, 0ul))) return false;
    bool all = true;
    for (unsigned i = 0; i < place->part_count && all; i++) {
        only(mask, parts[place->part + i].node);
        all = done(place, nf_sys(SYS_set_mempolicy, PREFERRED, mask, bits(mask))) &&
              each_run(place, low, high, unit, i, touch);
    }
    nf_sys(SYS_set_mempolicy, mode, bits(own) ? own : NULL, bits(own));
    if (all && !fresh) all = each_run(place, low, high, unit, EVERY, move);
    /* One policy of its own also keeps the kernel from moving pages to who uses them. */
    return bind_pages(place, low, high, place->nodes, 0) && all;
}

static void bind(unsigned entry, uintptr_t address, size_t bytes) {
    struct nf_place *place = &table[entry];
    uint64_t turn = place->how == NF_PLACE_TURNS ? atomic_fetch_add(&turns[place->object], 1) : 0;
    uintptr_t low = (address + PAGE - 1) & ~(PAGE - 1), high = (address + bytes) & ~(PAGE - 1);
    if (low >= high) return;
    /* The program's own seccomp filter may not let us: it would end the program. */
    if (nf_quiet()) {
        done(place, -EPERM);
        return;
    }
    uint64_t begin = nf_now(CLOCK_MONOTONIC);
    unsigned flags = fresh(low, high) ? 0 : MOVE;
    bool all = true;
    if (place->huge_pages)
        all = done(place, nf_sys(SYS_madvise, low, high - low,
                                 place->huge_pages == NF_PLACE_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
    switch (place->how) {
    case NF_PLACE_BLOCKS:
        all &= bind_blocks(place, address, bytes, low, high, flags);
        break;
    case NF_PLACE_TURNS:
        all &= bind_part(place, low, high, parts[place->part + turn % place->part_count].node, flags);
        break;
    case NF_PLACE_WEIGHTED:
        all &= bind_weighted(place, low, high, !flags);
        break;
    default:
        all &= bind_pages(place, low, high, place->nodes, flags);
    }
    if (all) {
        __atomic_add_fetch(&place->applied, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&place->bytes, high - low, __ATOMIC_RELAXED);
    }
    __atomic_add_fetch(&place->took_ns, nf_now(CLOCK_MONOTONIC) - begin, __ATOMIC_RELAXED);
}

static int module(struct dl_phdr_info *info, size_t size, void *state) {
    (void)size, (void)state;
    struct stat file;
    /* The program itself has no name here. */
    const char *name = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    if (nf_sys(SYS_newfstatat, AT_FDCWD, name, &file, 0) != 0) return 0;
    for (unsigned i = 0; i < count; i++) {
        if (found[i] || table[i].device != file.st_dev || table[i].inode != file.st_ino) continue;
        found[i] = true;
        base[i] = info->dlpi_addr;
        __atomic_store_n(&table[i].loaded, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

/* Whether the file is as long as it says, and no entry points past its parts. */
static bool sound(const struct nf_places *head, size_t bytes) {
    if (head->magic != NF_PLACES_MAGIC || head->version != NF_PLACES_VERSION || head->entries > MOST) return false;
    if (bytes != sizeof *head + head->entries * sizeof *table + head->parts * sizeof *parts) return false;
    const struct nf_place *entry = (const struct nf_place *)(head + 1);
    for (unsigned i = 0; i < head->entries; i++, entry++) {
        if (entry->object >= head->entries) return false;
        if (entry->how != NF_PLACE_WHOLE && (!entry->part_count || entry->part_count > head->parts ||
                                             entry->part > head->parts - entry->part_count))
            return false;
        if (entry->how == NF_PLACE_WEIGHTED && (entry->unit < PAGE || entry->unit & (entry->unit - 1))) return false;
    }
    const struct nf_part *part = (const struct nf_part *)entry;
    for (unsigned i = 0; i < head->parts; i++)
        if (!part[i].end) return false;
    return true;
}

/* The smallest allocation that may be placed; SIZE_MAX if none is. */
size_t nf_places_init(void) {
    const char *path = nf_environment("NEARFAR_PLACES");
    struct stat file;
    long fd = path ? nf_sys(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return SIZE_MAX;
    long at = -1;
    size_t bytes = 0;
    if (nf_sys(SYS_fstat, fd, &file) == 0 && (bytes = (size_t)file.st_size) >= sizeof(struct nf_places))
        at = nf_sys(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    nf_sys(SYS_close, fd);
    if (at < 0 && at > -4096) return SIZE_MAX;
    struct nf_places *head = (struct nf_places *)at;
    if (!sound(head, bytes)) {
        nf_sys(SYS_munmap, head, bytes);
        return SIZE_MAX;
    }
    table = (struct nf_place *)(head + 1);
    count = head->entries;
    parts = (const struct nf_part *)(table + count);
    __typeof__(&dl_iterate_phdr) iterate;
    void *f = nf_symbol("dl_iterate_phdr");
    memcpy(&iterate, &f, sizeof iterate);
    if (iterate) iterate(module, NULL);
    size_t least = SIZE_MAX;
    for (unsigned i = 0; i < count; i++) {
        if (!found[i]) continue;
        if (table[i].kind == NF_PLACE_STATIC) bind(i, base[i] + table[i].low, table[i].high - table[i].low);
        else if (table[i].least < least) least = table[i].least;
    }
    return least;
}

static bool within(unsigned i, uintptr_t address) {
    /* A return address lies behind its call. */
    return address - 1 - base[i] - table[i].low < table[i].high - table[i].low;
}

__attribute__((no_sanitize("thread", "address")))
void nf_place(uintptr_t address, size_t bytes, const struct nf_site *site) {
    if (!table) return;
    int saved = errno;
    const uintptr_t *word = (const uintptr_t *)site->rsp;
    size_t words = nf_readable(site->rsp, WORDS * sizeof *word) / sizeof *word;
    for (unsigned i = 0; i < count; i++) {
        struct nf_place *place = &table[i];
        if (!found[i] || place->kind != NF_PLACE_CALL || bytes < place->least) continue;
        bool here = within(i, site->rip);
        /* The call may be of operator new, or of a function that allocates for others. */
        for (size_t k = 0; k < words && !here; k++) here = within(i, word[k]);
        if (here) {
            bind(i, address, bytes);
            break;
        }
    }
    errno = saved;
}
