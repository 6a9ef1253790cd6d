/* Mapping calls: mappings of the program's own, and what changes the meaning of
 * later page faults. The C library's internal calls (malloc, thread stacks, the
 * loader) do not come through here. */
#include "agent.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>

/* RangeKind in the recording's tables. */
enum { DISCARD = 1, UNMAP = 2, MOVE = 3, PROTECT = 4, POLICY = 5, POPULATE = 6, MIGRATE = 7 };

static void range(uint16_t kind, uintptr_t address, size_t bytes, uintptr_t to) {
    if (bytes < atomic_load_explicit(&nf_process.min_object, memory_order_relaxed)) return;
    int saved = errno;
    if (nf_enter()) {
        struct nf_range body = {.address = address, .bytes = bytes, .to = to};
        nf_emit(NF_RANGE, kind, &body, sizeof body, NULL, 0, true);
        nf_leave();
    }
    errno = saved;
}

static void begins(uint16_t note, void *p, size_t bytes, uintptr_t previous, struct nf_site site) {
    if (bytes >= nf_process.record_from && nf_enter()) {
        nf_object_begins(note, (uintptr_t)p, bytes, previous, &site);
        nf_leave();
    }
}

static void mapped(void *p, size_t bytes, int protection, int flags, struct nf_site site) {
    bool anonymous = flags & MAP_ANONYMOUS, shared = (flags & MAP_TYPE) != MAP_PRIVATE;
    if (bytes < nf_process.min_object || (!anonymous && !shared)) return;
    if (anonymous) nf_place((uintptr_t)p, bytes, &site);
    int saved = errno;
    uint16_t note = NF_MMAP;
    if (shared) note |= NF_ALLOC_SHARED;
    if (!anonymous) note |= NF_ALLOC_FILE;
    if (protection == PROT_NONE) note |= NF_ALLOC_NONE;
    if (flags & MAP_HUGETLB) note |= NF_ALLOC_HUGE;
    begins(note, p, bytes, 0, site);
    if (flags & (MAP_POPULATE | MAP_LOCKED)) range(POPULATE, (uintptr_t)p, bytes, 0);
    errno = saved;
}

/* As it was mapped: shared memory stays that, and a file's. */
static void remapped(void *p, size_t bytes, uint16_t flags, uintptr_t previous, struct nf_site site) {
    if (bytes < nf_process.min_object) return;
    if (!(flags & NF_ALLOC_FILE)) nf_place((uintptr_t)p, bytes, &site);
    int saved = errno;
    begins(flags & (uint16_t)~NF_ALLOC_RESTORED, p, bytes, previous, site);
    errno = saved;
}

/* What was told of a mapping that is about to go. */
struct gone {
    size_t bytes; /* 0: it was no recorded object */
    uint16_t flags;
};

/* FREE for a mapping that is recorded and goes as a whole; else RANGE tells what goes. Of one that came and went in a
 * storm of others nothing was recorded, and nothing is. Nothing goes where the kernel will refuse anyway. */
static struct gone unmapping(uintptr_t address, size_t bytes) {
    bool told = true;
    struct gone gone = {0};
    if (address % 4096 || !bytes) return gone;
    if (nf_object_possible(address) && bytes >= nf_process.min_object && nf_enter()) {
        int saved = errno;
        size_t known = nf_object_bytes(address, &gone.flags);
        if (known && (known <= bytes || known - bytes < 4096)) gone.bytes = nf_object_ends(address, 0, true, &told);
        errno = saved;
        nf_leave();
    }
    if (told || !gone.bytes || gone.bytes < bytes) range(UNMAP, address, bytes, 0);
    return gone;
}

/* The call failed: the object is still there. */
static void not_unmapped(uintptr_t address, struct gone gone, struct nf_site site) {
    int saved = errno;
    if (gone.bytes && nf_enter()) {
        nf_object_begins(gone.flags | NF_ALLOC_RESTORED, address, gone.bytes, address, &site);
        nf_leave();
    }
    errno = saved;
}

static void *map(void *at, size_t bytes, int protection, int flags, int fd, off_t offset, struct nf_site site) {
    static __typeof__(&mmap) next;
    if (UNLIKELY(!next)) next = NF_NEXT(mmap);
    struct gone gone = {0};
    if (UNLIKELY(flags & MAP_FIXED)) gone = unmapping((uintptr_t)at, bytes);
    void *p = next ? next(at, bytes, protection, flags, fd, offset)
                   : (void *)nf_answer(nf_sys(SYS_mmap, at, bytes, protection, flags, fd, offset));
    if (p != MAP_FAILED) mapped(p, bytes, protection, flags, site);
    else not_unmapped((uintptr_t)at, gone, site);
    return p;
}

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(at, bytes, protection, flags, fd, offset, NF_SITE());
}
EXPORT void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset) {
    return map(at, bytes, protection, flags, fd, offset, NF_SITE());
}

EXPORT int munmap(void *at, size_t bytes) {
    static __typeof__(&munmap) next;
    if (UNLIKELY(!next)) next = NF_NEXT(munmap);
    struct gone gone = unmapping((uintptr_t)at, bytes);
    int result = next ? next(at, bytes) : (int)nf_answer(nf_sys(SYS_munmap, at, bytes));
    if (UNLIKELY(result != 0)) not_unmapped((uintptr_t)at, gone, NF_SITE());
    return result;
}

EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...) {
    static __typeof__(&mremap) next;
    if (UNLIKELY(!next)) next = NF_NEXT(mremap);
    void *to = NULL;
    if (flags & MREMAP_FIXED) {
        va_list rest;
        va_start(rest, flags);
        to = va_arg(rest, void *);
        va_end(rest);
    }
    /* Before: afterwards the address may be another thread's. Of no bytes of a shared mapping a second one is made,
     * and the old one stays. */
    struct gone gone = {0};
    bool twice = !old_bytes;
    if (nf_object_possible((uintptr_t)old))
        gone.bytes = twice ? nf_object_bytes((uintptr_t)old, &gone.flags) : nf_object_forget((uintptr_t)old, &gone.flags);
    void *p = next ? next(old, old_bytes, bytes, flags, to)
                   : (void *)nf_answer(nf_sys(SYS_mremap, old, old_bytes, bytes, flags, to));
    if (p == MAP_FAILED) {
        if (!twice) not_unmapped((uintptr_t)old, gone, NF_SITE());
        return p;
    }
    if (twice) {
        if (gone.bytes) remapped(p, bytes, gone.flags, 0, NF_SITE());
        return p;
    }
    if (p != old) range(MOVE, (uintptr_t)old, old_bytes < bytes ? old_bytes : bytes, (uintptr_t)p);
    else if (bytes < old_bytes) range(UNMAP, (uintptr_t)old + bytes, old_bytes - bytes, 0);
    if (gone.bytes) remapped(p, bytes, gone.flags, (uintptr_t)old, NF_SITE());
    return p;
}

EXPORT int mprotect(void *at, size_t bytes, int protection) {
    static __typeof__(&mprotect) next;
    if (UNLIKELY(!next)) next = NF_NEXT(mprotect);
    range(PROTECT, (uintptr_t)at, bytes, 0);
    return next ? next(at, bytes, protection) : (int)nf_answer(nf_sys(SYS_mprotect, at, bytes, protection));
}

EXPORT int madvise(void *at, size_t bytes, int advice) {
    static __typeof__(&madvise) next;
    if (UNLIKELY(!next)) next = NF_NEXT(madvise);
    switch (advice) {
    case 4: case 8: case 9: case 24: /* DONTNEED, FREE, REMOVE, DONTNEED_LOCKED */
        range(DISCARD, (uintptr_t)at, bytes, 0);
        break;
    case 22: case 23: /* POPULATE_READ, POPULATE_WRITE */
        range(POPULATE, (uintptr_t)at, bytes, 0);
        break;
    }
    return next ? next(at, bytes, advice) : (int)nf_answer(nf_sys(SYS_madvise, at, bytes, advice));
}

EXPORT int mlock(const void *at, size_t bytes) {
    static __typeof__(&mlock) next;
    if (UNLIKELY(!next)) next = NF_NEXT(mlock);
    range(POPULATE, (uintptr_t)at, bytes, 0);
    return next ? next(at, bytes) : (int)nf_answer(nf_sys(SYS_mlock, at, bytes));
}

/* libnuma's functions are bare system calls, so the call is made here: its library
 * may be loaded privately, where the next definition cannot be found. */
EXPORT long mbind(void *at, unsigned long bytes, int mode, const unsigned long *nodes,
                  unsigned long most, unsigned flags) {
    range(POLICY, (uintptr_t)at, bytes, 0);
    return nf_answer(nf_sys(SYS_mbind, at, bytes, mode, nodes, most, flags));
}

EXPORT long move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status, int flags) {
    long result = nf_answer(nf_sys(SYS_move_pages, pid, count, pages, nodes, status, flags));
    if (result >= 0 && nodes && (pid == 0 || (uint32_t)pid == nf_process.pid) && count) {
        uintptr_t low = UINTPTR_MAX, high = 0;
        for (unsigned long i = 0; i < count; i++) {
            uintptr_t page = (uintptr_t)pages[i];
            if (page < low) low = page;
            if (page > high) high = page;
        }
        range(MIGRATE, low & ~(uintptr_t)4095, (high | 4095) + 1 - (low & ~(uintptr_t)4095), 0);
    }
    return result;
}
