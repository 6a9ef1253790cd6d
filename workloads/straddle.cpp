// SPDX-License-Identifier: MIT OR Apache-2.0
//
// straddle: two nodes share a huge page.
//
// Chunks are in pairs in one array with huge pages: one chunk of each pair
// belongs to a thread of the first half of the team, the other to its partner
// in the second half, on another node if threads are pinned compactly. Each
// thread first touches its own chunks. With 4 KiB pages that is perfect; a huge
// page comes as a whole to the node of the thread that touches any byte of it first.
//
// Where a chunk is an odd number c of MiB, every pair has one huge page with
// half a page of each partner. It does not matter which is first: half of that
// page is remote, 1 MiB of the pair's 2c, so 1/2 of the traffic for c = 1, 1/6
// for c = 3, on any even number of nodes.
//
// --repaired begins each chunk on a huge page of its own; the room between
// chunks is never touched. --pages small does without huge pages, which also
// repairs the placement, for more TLB misses. Nothing is remote in both.

#include <sys/mman.h>

#include "../include/nearfar.h"
#include "common.hpp"

constexpr std::size_t HUGE_PAGE = std::size_t(1) << 21; // of x86-64, and of AArch64 with 4 KiB pages

struct Layout {
    std::size_t pairs, each, pitch; // elements of a chunk, and from one to the next
};

static double start_value(std::size_t chunk, std::size_t i) { return static_cast<double>((chunk + i) % 1021); }

// The thread to which a chunk belongs: partners are half a team apart.
static bool is_mine(std::size_t chunk)
{
    const std::size_t team = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t half = team < 2 ? 1 : team / 2;
    const std::size_t owner = ((chunk / 2) % half + (chunk % 2) * half) % team;
    return owner == static_cast<std::size_t>(omp_get_thread_num());
}

[[gnu::noinline]] static void initialize_own_chunks(double *chunks, Layout layout)
{
#pragma omp parallel
    for (std::size_t chunk = 0; chunk < 2 * layout.pairs; ++chunk)
        if (is_mine(chunk))
            for (std::size_t i = 0; i < layout.each; ++i)
                chunks[chunk * layout.pitch + i] = start_value(chunk, i);
}

[[gnu::noinline]] static void update_own_chunks(double *chunks, Layout layout)
{
#pragma omp parallel
    for (std::size_t chunk = 0; chunk < 2 * layout.pairs; ++chunk)
        if (is_mine(chunk)) {
            double *const own = chunks + chunk * layout.pitch;
            for (std::size_t i = 0; i < layout.each; ++i)
                own[i] += 1.0;
        }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "straddle",
                                  "[--repaired] [--pages huge|small] [--pairs P] [--chunk-kb B] [--iterations K]\n"
                                  "       [--threads T]\n"
                                  "P pairs of chunks of B KiB; 3072 is another size that straddles.");
    const bool repaired = arguments.given("--repaired");
    const bool huge = arguments.choice("--pages", {"huge", "small"}) == "huge";
    const std::size_t pairs = arguments.count("--pairs", 16);
    const std::size_t kilobytes = arguments.count("--chunk-kb", 1024);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t chunk = workload::product(arguments, {kilobytes, 1024});
    const std::size_t pitch = repaired ? (chunk + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : chunk;
    const std::size_t needed = workload::product(arguments, {pairs, 2, pitch});
    const std::size_t bytes = (needed + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const Layout layout = {pairs, chunk / sizeof(double), pitch / sizeof(double)};

    double *chunks = static_cast<double *>(std::aligned_alloc(HUGE_PAGE, bytes));
    workload::need_memory(chunks, bytes);
    std::printf("pairs=%zu chunk=%zu KiB pitch=%zu KiB pages=%s iterations=%zu threads=%d repaired=%s\n", pairs,
                kilobytes, pitch / 1024, huge ? "huge" : "small", iterations, threads, repaired ? "yes" : "no");
    // A kernel without huge pages refuses; then there is no defect either.
    if (madvise(chunks, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0)
        std::printf("no say about huge pages here: madvise refused\n");
    initialize_own_chunks(chunks, layout);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        update_own_chunks(chunks, layout);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    std::size_t wrong = 0;
    for (std::size_t c = 0; c < 2 * pairs; ++c)
        for (std::size_t i = 0; i < layout.each; ++i)
            wrong += chunks[c * layout.pitch + i] != start_value(c, i) + static_cast<double>(iterations);
    std::free(chunks);
    return workload::verdict(wrong, 2 * pairs * layout.each, "elements");
}
