// SPDX-License-Identifier: MIT OR Apache-2.0
//
// false-sharing: threads of different nodes count in one cache line.
//
// Each thread has a counter that nothing else uses, eight of them in a line,
// and adds to it after a little arithmetic. Every addition takes the line away
// from the core that had it last. Slots 2j and 2j + 1 belong to threads j and j + T/2,
// which run on different nodes if threads are pinned compactly; up to eight
// threads share one line anyway.
//
// Lines go from cache to cache, up to one per addition, hardly any from
// memory: shares of DRAM traffic do not see this defect, and no placement
// repairs it. --repaired puts counters 128 bytes apart, two lines, since some
// processors fetch lines in pairs. Nothing moves then.
//
// Where cpus are emulated or shared, one thread may run through all its
// additions while the others stand still, and keep the line. With --burst B
// threads sleep for a moment after every B additions, so that each burst finds
// the line elsewhere: about one transfer per burst at the least.

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "../include/nearfar.h"
#include "common.hpp"

using Counter = std::atomic<std::uint64_t>;
constexpr std::size_t APART = 128 / sizeof(Counter);

// What is added next: some 60 cycles of dependent arithmetic without memory,
// as a program that counts what it finds has, too.
constexpr int ROUNDS = 16;
static std::uint64_t next_value(std::uint64_t x)
{
    for (int r = 0; r < ROUNDS; ++r)
        x = 6364136223846793005u * x + 1442695040888963407u; // Knuth's MMIX generator
    return x;
}

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

// All begin together: a thread that wakes late would have the line to itself.
// The loop keeps those who wait off the line of `arrived`.
static void wait_for_all(std::atomic<std::size_t> &arrived, std::size_t team)
{
    arrived.fetch_add(1);
    while (arrived.load() < team) {
        sched_yield();
        for (int r = 0; r < 1000; ++r)
            workload::memory_is_observed();
    }
}

static void pause_shortly()
{
    const timespec pause = {0, 50000}; // 50 us
    nanosleep(&pause, nullptr);
}

[[gnu::noinline]] static void count_up(Counter *counters, std::size_t stride, std::size_t additions, std::size_t burst)
{
    alignas(128) std::atomic<std::size_t> arrived(0);
#pragma omp parallel
    {
        const std::size_t team = static_cast<std::size_t>(omp_get_num_threads());
        const std::size_t slot = slot_of(static_cast<std::size_t>(omp_get_thread_num()), team);
        Counter &own = counters[slot * stride];
        wait_for_all(arrived, team);
        std::uint64_t x = slot;
        for (std::size_t k = 0; k < additions;) {
            for (const std::size_t end = std::min(additions, k + burst); k < end; ++k) {
                x = next_value(x);
                own.fetch_add(x, std::memory_order_relaxed);
            }
            if (k < additions)
                pause_shortly();
        }
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "false-sharing",
                                  "[--repaired] [--additions K] [--burst B] [--threads T]\n"
                                  "K additions of each thread; after every B of them (default: never) it sleeps a moment.");
    const bool repaired = arguments.given("--repaired");
    const std::size_t additions = arguments.count("--additions", 1000000);
    const std::size_t burst = arguments.count("--burst", additions);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t team = static_cast<std::size_t>(threads), stride = repaired ? APART : 1;
    const std::size_t bytes = workload::whole_pages(team * stride * sizeof(Counter));

    Counter *counters = static_cast<Counter *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(counters, bytes);
    std::printf("additions=%zu burst=%zu threads=%d, counters %zu bytes apart\n", additions, burst, threads,
                stride * sizeof(Counter));
    initialize_counters(counters, bytes / sizeof(Counter));

    const double start = workload::wall_seconds();
    nearfar_begin();
    count_up(counters, stride, additions, burst);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    std::size_t wrong = 0;
    for (std::size_t slot = 0; slot < team; ++slot) {
        std::uint64_t x = slot, wanted = 0;
        for (std::size_t k = 0; k < additions; ++k)
            wanted += x = next_value(x);
        wrong += counters[slot * stride].load(std::memory_order_relaxed) != wanted;
    }
    std::free(counters);
    return workload::verdict(wrong, team, "counters");
}
