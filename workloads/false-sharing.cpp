// SPDX-License-Identifier: MIT OR Apache-2.0
//
// false-sharing: threads of different nodes count in one cache line.
//
// Each thread has a counter that nobody else uses, eight of them in a line.
// Every increment takes the line away from whoever had it last. Slots 2j and
// 2j + 1 belong to threads j and j + T/2, which run on different nodes if
// threads are pinned compactly; up to eight threads share one line anyway.
//
// Lines go from cache to cache, up to one per increment, hardly any from
// memory: shares of DRAM traffic do not see this defect, and no placement
// repairs it. --repaired puts counters 128 bytes apart, two lines, since some
// processors fetch lines in pairs. Nothing moves then.

#include <atomic>
#include <new>

#include "../include/nearfar.h"
#include "common.hpp"

using Counter = std::atomic<std::uint64_t>;
constexpr std::size_t APART = 128 / sizeof(Counter);

// Partners are neighbours; with an odd team the last thread has the last slot.
static std::size_t slot_of(std::size_t thread, std::size_t team)
{
    const std::size_t half = team / 2;
    return thread >= 2 * half ? thread : thread < half ? 2 * thread : 2 * (thread - half) + 1;
}

[[gnu::noinline]] static void initialize_counters(Counter *counters, std::size_t count)
{
    for (std::size_t i = 0; i < count; ++i)
        new (counters + i) Counter(0);
}

[[gnu::noinline]] static void count_up(Counter *counters, std::size_t stride, std::size_t increments)
{
#pragma omp parallel
    {
        const std::size_t slot = slot_of(static_cast<std::size_t>(omp_get_thread_num()),
                                         static_cast<std::size_t>(omp_get_num_threads()));
        Counter &own = counters[slot * stride];
        for (std::size_t k = 0; k < increments; ++k)
            own.fetch_add(k, std::memory_order_relaxed);
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "false-sharing",
                                  "[--repaired] [--increments K] [--threads T]\nK increments of each thread.");
    const bool repaired = arguments.given("--repaired");
    const std::size_t increments = arguments.count("--increments", 200000);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t team = static_cast<std::size_t>(threads), stride = repaired ? APART : 1;
    const std::size_t bytes = workload::whole_pages(team * stride * sizeof(Counter));

    Counter *counters = static_cast<Counter *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(counters, bytes);
    std::printf("increments=%zu threads=%d, counters %zu bytes apart\n", increments, threads,
                stride * sizeof(Counter));
    initialize_counters(counters, bytes / sizeof(Counter));

    const double start = workload::wall_seconds();
    nearfar_begin();
    count_up(counters, stride, increments);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    const std::uint64_t n = increments;
    const std::uint64_t wanted = (n % 2 == 0 ? n / 2 : n) * (n % 2 == 0 ? n - 1 : (n - 1) / 2); // 0 + ... + n-1
    std::size_t wrong = 0;
    for (std::size_t t = 0; t < team; ++t)
        wrong += counters[t * stride].load(std::memory_order_relaxed) != wanted;
    std::free(counters);
    return workload::verdict(wrong, team, "counters");
}
