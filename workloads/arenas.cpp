// SPDX-License-Identifier: MIT OR Apache-2.0
//
// arenas: main prepares the private memory of every thread.
//
// Each thread has an arena that nothing else uses, which sounds as local as
// memory can be. But main allocates and clears them all, and clearing is the
// first touch: all arenas are on main's node. Of the traffic (N-1)/N is remote
// on N nodes. With --repaired each thread allocates and clears its own, and
// nothing is remote.

#include <cstring>

#include "../include/nearfar.h"
#include "common.hpp"

static std::uint64_t *new_arena(std::size_t bytes)
{
    void *const arena = std::aligned_alloc(workload::PAGE, bytes);
    workload::need_memory(arena, bytes);
    return static_cast<std::uint64_t *>(std::memset(arena, 0, bytes));
}

[[gnu::noinline]] static void prepare_by_main(std::vector<std::uint64_t *> &arenas, std::size_t bytes)
{
    for (std::uint64_t *&arena : arenas)
        arena = new_arena(bytes);
}

[[gnu::noinline]] static void prepare_by_users(std::vector<std::uint64_t *> &arenas, std::size_t bytes)
{
#pragma omp parallel
    arenas[static_cast<std::size_t>(omp_get_thread_num())] = new_arena(bytes);
}

// Thread t adds t + 1 plus the index to each of its elements.
[[gnu::noinline]] static void work_in_arena(const std::vector<std::uint64_t *> &arenas, std::size_t each)
{
#pragma omp parallel
    {
        std::uint64_t *const arena = arenas[static_cast<std::size_t>(omp_get_thread_num())];
        const std::uint64_t first = static_cast<std::uint64_t>(omp_get_thread_num()) + 1;
        for (std::size_t i = 0; i < each; ++i)
            arena[i] += first + i;
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "arenas",
                                  "[--repaired] [--kb B] [--iterations K] [--threads T]\nB KiB per thread.");
    const bool repaired = arguments.given("--repaired");
    const std::size_t kilobytes = arguments.count("--kb", 3072);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {kilobytes, 1024}));
    const std::size_t each = bytes / sizeof(std::uint64_t);

    std::vector<std::uint64_t *> arenas(static_cast<std::size_t>(threads));
    std::printf("repaired=%s threads=%d iterations=%zu, %zu KiB per thread\n", repaired ? "yes" : "no", threads,
                iterations, bytes / 1024);
    if (repaired)
        prepare_by_users(arenas, bytes);
    else
        prepare_by_main(arenas, bytes);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        work_in_arena(arenas, each);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    std::size_t wrong = 0;
    for (std::size_t t = 0; t < arenas.size(); ++t)
        for (std::size_t i = 0; i < each; ++i)
            wrong += arenas[t][i] != iterations * (t + 1 + i);
    for (std::uint64_t *arena : arenas)
        std::free(arena);
    return workload::verdict(wrong, each * arenas.size(), "elements");
}
