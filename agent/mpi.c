/* Calls of MPI as phases, without MPI: where a program or its libraries were linked against one, their entries for its
 * functions are pointed to ours when the agent starts. Names of MPI are not defined for the program: one that asks
 * whether MPI is there gets the answer that it gets alone. Libraries that are loaded later (mpi4py) keep their own. */
#include "agent.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#define SITE ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* Arguments are integers and pointers, at most thirteen: those of Fortran's MPI_Sendrecv, which has one more than C's, where the error goes.
 * A function with fewer leaves what it does not have alone. */
#define PARAMETERS                                                                                                    \
    long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l, long m
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k, l, m
typedef long call(PARAMETERS);

#define FUNCTIONS(X)                                                                                                  \
    X(Init, init) X(Init_thread, init_thread) X(Finalize, finalize) X(Barrier, barrier) X(Bcast, bcast)               \
    X(Reduce, reduce) X(Allreduce, allreduce) X(Reduce_scatter, reduce_scatter) X(Gather, gather)                     \
    X(Gatherv, gatherv) X(Scatter, scatter) X(Scatterv, scatterv) X(Allgather, allgather)                             \
    X(Allgatherv, allgatherv) X(Alltoall, alltoall) X(Alltoallv, alltoallv) X(Scan, scan) X(Exscan, exscan)           \
    X(Send, send) X(Ssend, ssend) X(Bsend, bsend) X(Rsend, rsend) X(Recv, recv) X(Sendrecv, sendrecv)                 \
    X(Isend, isend) X(Irecv, irecv) X(Wait, wait) X(Waitall, waitall) X(Waitany, waitany) X(Waitsome, waitsome)       \
    X(Probe, probe) X(Ibarrier, ibarrier) X(Ibcast, ibcast) X(Iallreduce, iallreduce) X(Put, put) X(Get, get)         \
    X(Accumulate, accumulate) X(Win_fence, win_fence)

/* Of C, and of Fortran, whose compilers write small letters and a line at the end. */
#define HOOK(name, small)                                                                                             \
    static call *next_##name, *next_##small;                                                                          \
    static long hook_##name(PARAMETERS) {                                                                             \
        nf_phase_begin("MPI_" #name "()", SITE, NF_SAID_BY_MPI, NULL);                                                \
        long result = next_##name(ARGUMENTS);                                                                         \
        nf_phase_end("MPI_" #name "()", SITE, NF_SAID_BY_MPI, NULL);                                                  \
        return result;                                                                                                \
    }                                                                                                                 \
    static long hook_##small(PARAMETERS) {                                                                            \
        nf_phase_begin("MPI_" #name "()", SITE, NF_SAID_BY_MPI, NULL);                                                \
        long result = next_##small(ARGUMENTS);                                                                        \
        nf_phase_end("MPI_" #name "()", SITE, NF_SAID_BY_MPI, NULL);                                                  \
        return result;                                                                                                \
    }
FUNCTIONS(HOOK)

#define ROW(name, small)                                                                                              \
    {"MPI_" #name, hook_##name, &next_##name}, {"mpi_" #small "_", hook_##small, &next_##small},
static const struct {
    const char *name;
    call *hook;
    call **next;
} table[] = {FUNCTIONS(ROW)};
enum { ROWS = sizeof table / sizeof table[0] };

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#else
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

static bool same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

/* Points an entry to a hook. The loader has made some read-only (RELRO); they are again, after. */
static void point(const struct dl_phdr_info *module, uintptr_t *slot, call *hook) {
    uintptr_t page = (uintptr_t)slot & ~(uintptr_t)4095;
    bool sealed = false;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &module->dlpi_phdr[i];
        uintptr_t from = module->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_GNU_RELRO && (uintptr_t)slot >= from && (uintptr_t)slot < from + p->p_memsz) sealed = true;
    }
    if (sealed && nf_sys(SYS_mprotect, page, 4096, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_store_n(slot, (uintptr_t)hook, __ATOMIC_RELEASE);
    if (sealed) nf_sys(SYS_mprotect, page, 4096, PROT_READ);
}

static void hook_entries(const struct dl_phdr_info *module, const ElfW(Rela) *rela, size_t bytes,
                         const ElfW(Sym) *symbols, const char *names) {
    for (size_t i = 0; i < bytes / sizeof *rela; i++) {
        unsigned type = (unsigned)ELF64_R_TYPE(rela[i].r_info);
        if (type != JUMP_SLOT && type != GLOB_DAT) continue;
        const char *name = names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name;
        if ((name[0] != 'M' || name[1] != 'P') && (name[0] != 'm' || name[1] != 'p')) continue;
        for (size_t row = 0; row < ROWS; row++) {
            if (!same(table[row].name, name)) continue;
            /* The first definition there is, which may be another tool's. */
            void *next = nf_symbol(name);
            if (!next) break;
            memcpy(table[row].next, &next, sizeof next);
            point(module, (uintptr_t *)(module->dlpi_addr + rela[i].r_offset), table[row].hook);
        }
    }
}

/* A function of MPI's C library and one of its Fortran library; NULL where there is none. */
struct libraries {
    void *c, *fortran;
};

static int hook_module(struct dl_phdr_info *module, size_t size, void *data) {
    (void)size;
    const struct libraries *libraries = data;
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &module->dlpi_phdr[i];
        uintptr_t from = module->dlpi_addr + p->p_vaddr;
        /* What MPI calls of itself is not the program's call. */
        uintptr_t c = (uintptr_t)libraries->c, fortran = (uintptr_t)libraries->fortran, end = from + p->p_memsz;
        if (p->p_type == PT_LOAD && ((c >= from && c < end) || (fortran >= from && fortran < end))) return 0;
        if (p->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)from;
    }
    const ElfW(Rela) *rela = NULL, *jumps = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    size_t rela_bytes = 0, jump_bytes = 0;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t value = dynamic->d_un.d_ptr;
        /* The loader has added where the module is; musl's leaves the file's. */
        uintptr_t at = value < module->dlpi_addr ? value + module->dlpi_addr : value;
        switch (dynamic->d_tag) {
        case DT_RELA: rela = (const ElfW(Rela) *)at; break;
        case DT_RELASZ: rela_bytes = value; break;
        case DT_JMPREL: jumps = (const ElfW(Rela) *)at; break;
        case DT_PLTRELSZ: jump_bytes = value; break;
        case DT_SYMTAB: symbols = (const ElfW(Sym) *)at; break;
        case DT_STRTAB: names = (const char *)at; break;
        default: break;
        }
    }
    if (!symbols || !names || module->dlpi_name[0] == '[') return 0;
    if (rela) hook_entries(module, rela, rela_bytes, symbols, names);
    if (jumps) hook_entries(module, jumps, jump_bytes, symbols, names);
    return 0;
}

void nf_mpi_init(void) {
    struct libraries libraries = {nf_symbol("MPI_Init"), nf_symbol("mpi_init_")};
    void *f = nf_symbol("dl_iterate_phdr");
    int (*each)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    memcpy(&each, &f, sizeof each);
    if ((libraries.c || libraries.fortran) && each) each(hook_module, &libraries);
}
