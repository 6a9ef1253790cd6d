/* Memory policies of single objects: NEARFAR_PLACES names a file of `nearfar run --placement` with a table
 * of calls and static variables. What such a call allocates is bound before the program sees it. The table
 * is shared: what was done is counted in it. */
#include "agent.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 256,       /* entries */
       WORDS = 64,       /* of the stack above the hook that are compared with the calls */
       MOVE = 1 << 1 };  /* MPOL_MF_MOVE: pages of a reused block are there already */

static struct nf_place *table;
static unsigned count;
static uintptr_t base[MOST]; /* of the entry's module here; 0 and not found: `found` */
static bool found[MOST];

static void bind(struct nf_place *place, uintptr_t address, size_t bytes) {
    uintptr_t page = 4096; /* a smaller one than the kernel's is refused and counted */
    uintptr_t low = (address + page - 1) & ~(page - 1), high = (address + bytes) & ~(page - 1);
    if (low >= high) return;
    /* mbind(2) reads one bit less than it is told; policies without nodes have neither mask nor number. */
    bool none = true;
    for (unsigned i = 0; i < NF_PLACE_WORDS; i++) none = none && !place->nodes[i];
    long result = syscall(SYS_mbind, low, high - low, place->mode, none ? NULL : place->nodes,
                          none ? 0ul : NF_PLACE_WORDS * 64ul + 1, MOVE);
    if (result == 0) {
        __atomic_add_fetch(&place->applied, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&place->bytes, high - low, __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(&place->error, (uint64_t)errno, __ATOMIC_RELAXED);
        __atomic_add_fetch(&place->failed, 1, __ATOMIC_RELAXED);
    }
}

static int module(struct dl_phdr_info *info, size_t size, void *state) {
    (void)size, (void)state;
    struct stat file;
    /* The program itself has no name here. */
    const char *name = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    if (stat(name, &file) != 0) return 0;
    for (unsigned i = 0; i < count; i++) {
        if (found[i] || table[i].device != file.st_dev || table[i].inode != file.st_ino) continue;
        found[i] = true;
        base[i] = info->dlpi_addr;
        __atomic_store_n(&table[i].loaded, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

/* The smallest allocation that may be placed; SIZE_MAX if none is. */
size_t nf_places_init(void) {
    const char *path = getenv("NEARFAR_PLACES");
    struct stat file;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return SIZE_MAX;
    void *map = MAP_FAILED;
    size_t entries = 0;
    if (fstat(fd, &file) == 0 && file.st_size > 0 && file.st_size % (off_t)sizeof *table == 0) {
        entries = (size_t)file.st_size / sizeof *table;
        map = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (map == MAP_FAILED) return SIZE_MAX;
    table = map;
    count = entries < MOST ? (unsigned)entries : MOST;
    dl_iterate_phdr(module, NULL);
    size_t least = SIZE_MAX;
    for (unsigned i = 0; i < count; i++) {
        if (!found[i]) continue;
        if (table[i].kind == NF_PLACE_STATIC) bind(&table[i], base[i] + table[i].low, table[i].high - table[i].low);
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
            bind(place, address, bytes);
            break;
        }
    }
    errno = saved;
}
