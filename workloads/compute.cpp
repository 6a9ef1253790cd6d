// SPDX-License-Identifier: MIT OR Apache-2.0
//
// compute: all memory is remote, and it does not matter.
//
// Thread t works on the part that thread (t + T/2) mod T touched first, which
// sits on the other of two nodes if threads are pinned compactly: all traffic
// is remote on any even number of nodes. But between two lines there are
// hundreds of multiplications, each waiting for the one before, and the
// prefetcher has all that time. The right advice should leave it alone;
// --repaired, where each thread touches its own part, gains next to nothing.
//
// The result is exact and cheap to check: many steps of x -> A x + C are one
// step of the same form.

#include "../include/nearfar.h"
#include "common.hpp"

constexpr std::uint64_t A = 6364136223846793005u, C = 1442695040888963407u; // Knuth's MMIX generator

struct alignas(64) Record {
    std::uint64_t value; // one to a line
};
constexpr std::size_t PER_PAGE = workload::PAGE / sizeof(Record);

[[gnu::noinline]] static void first_touch(Record *records, std::size_t count, int shift)
{
#pragma omp parallel
    {
        const int t = omp_get_thread_num(), team = omp_get_num_threads();
        const auto range = workload::share_of(count, (t + shift) % team, team, PER_PAGE);
        for (std::size_t i = range.begin; i < range.end; ++i)
            records[i].value = i;
    }
}

[[gnu::noinline]] static void compute_long(Record *records, std::size_t count, std::size_t rounds)
{
#pragma omp parallel
    {
        const auto range = workload::share_of(count, omp_get_thread_num(), omp_get_num_threads(), PER_PAGE);
        for (std::size_t i = range.begin; i < range.end; ++i) {
            std::uint64_t x = records[i].value;
            for (std::size_t r = 0; r < rounds; ++r)
                x = A * x + C;
            records[i].value = x;
        }
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "compute",
                                  "[--repaired] [--lines L] [--rounds R] [--iterations K] [--threads T]\n"
                                  "L cache lines, R dependent multiplications for each.");
    const bool repaired = arguments.given("--repaired");
    const std::size_t count = arguments.count("--lines", std::size_t(3) << 17);
    const std::size_t rounds = arguments.count("--rounds", 200);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const int threads = arguments.threads();
    arguments.finish();
    if (!repaired && threads < 2)
        arguments.fail("the defect needs a second thread to place the memory; use --threads 2 or more");
    const std::size_t steps = workload::product(arguments, {rounds, iterations});
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(Record), count}));

    Record *records = static_cast<Record *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(records, bytes);
    std::printf("lines=%zu rounds=%zu iterations=%zu threads=%d repaired=%s\n", count, rounds, iterations, threads,
                repaired ? "yes" : "no");
    first_touch(records, count, repaired ? 0 : threads / 2);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        compute_long(records, count, rounds);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    // All steps as one: x -> a x + c.
    std::uint64_t a = 1, c = 0;
    for (std::size_t r = 0; r < steps; ++r) {
        a *= A;
        c = A * c + C;
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
        wrong += records[i].value != a * i + c;
    std::free(records);
    return workload::verdict(wrong, count, "records");
}
