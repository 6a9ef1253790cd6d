/* Where an object's pages are at the end of its life: afterwards nobody can ask.
 *
 * move_pages without target nodes only asks. Pages are taken at even distances,
 * a number of pages apart that neither powers of two, by which programs stride, nor
 * the number of nodes that pages are interleaved over divide or are divided by. */
#include "agent.h"

enum { PAGE = 4096, AT_ONCE = 128 };
static const size_t SMALLEST = 1u << 20;
/* Programs that free large blocks all the time: at most 1/64 of their time, after a start. The start is
 * counted in pages, of which the kernel answers two or three in a microsecond: a time would be used up by
 * whatever else the processors do, or by an emulator, and which objects are known would depend on it. */
enum { FREE_OF_CHARGE = 32768 };
/* The same at the end, where those beyond have a time. */
static const uint64_t AT_EXIT_NS = 200000000;

static _Atomic uint64_t asked_pages, spent_ns, skipped;
static _Atomic bool refused;

/* Returns how many pages were asked for. */
static size_t look_up(uintptr_t address, size_t bytes) {
    uintptr_t first = (address + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t end = (address + bytes) & ~(uintptr_t)(PAGE - 1);
    if (end <= first) return 0;
    size_t pages = (end - first) / PAGE;
    size_t step = ((pages + nf_process.looked_up_pages - 1) / nf_process.looked_up_pages) | 1;
    while (step % 3 == 0 || step % 5 == 0 || step % 7 == 0) step += 2;
    size_t looked_up = (pages + step - 1) / step, left = looked_up;
    /* Small chunks on the stack: the thread's may be 16 KiB. */
    while (left) {
        void *asked[AT_ONCE];
        int status[AT_ONCE];
        struct nf_run runs[AT_ONCE];
        unsigned count = left < AT_ONCE ? (unsigned)left : AT_ONCE;
        for (unsigned i = 0; i < count; i++) asked[i] = (void *)(first + i * step * PAGE);
        if (nf_sys(SYS_move_pages, 0, count, asked, NULL, status, 0) < 0) {
            if (!atomic_exchange(&refused, true)) nf_lost(NF_PAGE_NODES_REFUSED, 0);
            return looked_up - left;
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
    return looked_up;
}

void nf_page_nodes(uintptr_t address, size_t bytes) {
    if (!nf_process.looked_up_pages || bytes < SMALLEST || atomic_load(&refused) || nf_quiet()) return;
    uint64_t before = nf_now(CLOCK_MONOTONIC);
    if (atomic_load(&asked_pages) >= FREE_OF_CHARGE &&
        atomic_load(&spent_ns) > (before - nf_process.start_ns) / 64) {
        atomic_fetch_add(&skipped, 1);
        return;
    }
    atomic_fetch_add(&asked_pages, look_up(address, bytes));
    atomic_fetch_add(&spent_ns, nf_now(CLOCK_MONOTONIC) - before);
}

struct at_exit {
    uint64_t deadline;
    size_t asked_pages;
};

static bool one_at_exit(uintptr_t address, size_t bytes, void *state) {
    struct at_exit *exit = state;
    if (bytes < SMALLEST) return true;
    if (exit->asked_pages >= FREE_OF_CHARGE && nf_now(CLOCK_MONOTONIC) > exit->deadline)
        atomic_fetch_add(&skipped, 1);
    else exit->asked_pages += look_up(address, bytes);
    return !atomic_load(&refused);
}

void nf_page_nodes_at_exit(void (*each)(bool (*)(uintptr_t, size_t, void *), void *)) {
    struct at_exit exit = {.deadline = nf_now(CLOCK_MONOTONIC) + AT_EXIT_NS};
    if (nf_process.looked_up_pages && !atomic_load(&refused)) each(one_at_exit, &exit);
    uint64_t count = atomic_exchange(&skipped, 0);
    if (count) nf_lost(NF_PAGE_NODES_BUDGET, count);
}
