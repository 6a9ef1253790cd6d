/* Live recorded objects by address, so that only their free() is recorded.
 *
 * Open addressing without locks. An address belongs to one thread between the
 * allocator's return and free(), so a key is never inserted and removed at the
 * same time; only the walk at exit runs beside both, and skips slots without bytes. */
#include "agent.h"

#include <sys/mman.h>

enum { SLOTS = 65536, PROBES = 64 };
static const uintptr_t EMPTY = 0, REMOVED = 1;

struct slot {
    _Atomic uintptr_t address;
    _Atomic size_t bytes;
    _Atomic uint64_t epoch; /* of the process that added it: a fork's child inherits the table */
};

static struct slot *slots;
/* How many recorded objects fall on each filter byte; 255 sticks. */
_Atomic uint8_t nf_object_filter[4096];

bool nf_objects_init(void) {
    void *memory = mmap(NULL, SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    slots = memory;
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
    for (unsigned k = 0; k < PROBES; k++) {
        struct slot *s = first_slot(address, k);
        uintptr_t found = atomic_load_explicit(&s->address, memory_order_acquire);
        if (found == address) return s;
        if (found == EMPTY) return NULL;
    }
    return NULL;
}

bool nf_object_add(uintptr_t address, size_t bytes) {
    /* Still there if it was freed on a path that we do not see. */
    struct slot *s = find(address);
    if (!s) {
        for (unsigned k = 0; k < PROBES && !s; k++) {
            struct slot *candidate = first_slot(address, k);
            uintptr_t found = atomic_load_explicit(&candidate->address, memory_order_relaxed);
            while (found == EMPTY || found == REMOVED) {
                if (atomic_compare_exchange_weak(&candidate->address, &found, address)) {
                    s = candidate;
                    filter_add(address, 1);
                    break;
                }
            }
        }
    }
    if (!s) return false;
    atomic_store_explicit(&s->epoch, nf_process.epoch, memory_order_relaxed);
    atomic_store_explicit(&s->bytes, bytes, memory_order_release);
    return true;
}

size_t nf_object_remove(uintptr_t address) {
    struct slot *s = slots ? find(address) : NULL;
    if (!s) return 0;
    size_t bytes = atomic_exchange(&s->bytes, 0);
    uintptr_t expected = address;
    if (atomic_compare_exchange_strong(&s->address, &expected, REMOVED)) filter_add(address, -1);
    return bytes;
}

void nf_objects_each(bool (*f)(uintptr_t address, size_t bytes, void *), void *state) {
    for (unsigned i = 0; slots && i < SLOTS; i++) {
        struct slot *s = &slots[i];
        uintptr_t address = atomic_load_explicit(&s->address, memory_order_acquire);
        size_t bytes = atomic_load_explicit(&s->bytes, memory_order_acquire);
        if (address > REMOVED && bytes &&
            atomic_load_explicit(&s->epoch, memory_order_relaxed) == nf_process.epoch &&
            !f(address, bytes, state))
            return;
    }
}
