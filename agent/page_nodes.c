/* Where an object's pages are at the end of its life: afterwards nobody can ask.
 *
 * move_pages without target nodes only asks. Pages are taken at even distances,
 * a number of pages apart that neither powers of two, by which programs stride, nor
 * the number of nodes that pages are interleaved over divide or are divided by. */
#include "agent.h"

enum { PAGE = 4096, AT_ONCE = 128 };
static const size_t SMALLEST = 1u << 20;
static const uint64_t AT_EXIT_NS = 200000000;
/* Programs that free large blocks all the time: at most 1/64 of their time, after a start. */
static const uint64_t FREE_OF_CHARGE_NS = 20000000;

static _Atomic uint64_t spent_ns, skipped;
static _Atomic bool refused;

static void look_up(uintptr_t address, size_t bytes) {
    uintptr_t first = (address + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t end = (address + bytes) & ~(uintptr_t)(PAGE - 1);
    if (end <= first) return;
    size_t pages = (end - first) / PAGE;
    size_t step = ((pages + nf_process.looked_up_pages - 1) / nf_process.looked_up_pages) | 1;
    while (step % 3 == 0 || step % 5 == 0 || step % 7 == 0) step += 2;
    size_t left = (pages + step - 1) / step;
    /* Small chunks on the stack: the thread's may be 16 KiB. */
    while (left) {
        void *asked[AT_ONCE];
        int status[AT_ONCE];
        struct nf_run runs[AT_ONCE];
        unsigned count = left < AT_ONCE ? (unsigned)left : AT_ONCE;
        for (unsigned i = 0; i < count; i++) asked[i] = (void *)(first + i * step * PAGE);
        if (nf_sys(SYS_move_pages, 0, count, asked, NULL, status, 0) < 0) {
            if (!atomic_exchange(&refused, true)) nf_lost(NF_PAGE_NODES_REFUSED, 0);
            return;
        }
        struct nf_page_nodes page_nodes = {.address = first, .stride = step * PAGE};
        for (unsigned i = 0; i < count; i++) {
            int16_t node = status[i] < 0 ? -1 : (int16_t)status[i];
            if (page_nodes.runs && runs[page_nodes.runs - 1].node == node) runs[page_nodes.runs - 1].pages++;
            else runs[page_nodes.runs++] = (struct nf_run){.node = node, .pages = 1};
        }
        nf_emit(NF_PAGE_NODES, 0, &page_nodes, sizeof page_nodes, runs, page_nodes.runs * sizeof runs[0], true);
        first += count * step * PAGE;
        left -= count;
    }
}

void nf_page_nodes(uintptr_t address, size_t bytes) {
    if (!nf_process.looked_up_pages || bytes < SMALLEST || atomic_load(&refused) || nf_quiet()) return;
    uint64_t before = nf_now(CLOCK_MONOTONIC);
    uint64_t allowed = FREE_OF_CHARGE_NS + (before - nf_process.start_ns) / 64;
    if (atomic_load(&spent_ns) > allowed) {
        atomic_fetch_add(&skipped, 1);
        return;
    }
    look_up(address, bytes);
    atomic_fetch_add(&spent_ns, nf_now(CLOCK_MONOTONIC) - before);
}

static bool one_at_exit(uintptr_t address, size_t bytes, void *state) {
    uint64_t deadline = *(uint64_t *)state;
    if (bytes < SMALLEST) return true;
    if (nf_now(CLOCK_MONOTONIC) > deadline) atomic_fetch_add(&skipped, 1);
    else look_up(address, bytes);
    return !atomic_load(&refused);
}

void nf_page_nodes_at_exit(void (*each)(bool (*)(uintptr_t, size_t, void *), void *)) {
    uint64_t deadline = nf_now(CLOCK_MONOTONIC) + AT_EXIT_NS;
    if (nf_process.looked_up_pages && !atomic_load(&refused)) each(one_at_exit, &deadline);
    uint64_t count = atomic_exchange(&skipped, 0);
    if (count) nf_lost(NF_PAGE_NODES_BUDGET, count);
}
