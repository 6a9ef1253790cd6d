// SPDX-License-Identifier: MIT OR Apache-2.0
//
// cached: memory on the wrong node that is never fetched.
//
// Main initialises a small block for each thread, so by its node all memory of
// the threads on other nodes is remote, (N-1)/N of it on N nodes. But a block
// stays in the first-level cache of its thread: after the first pass nothing
// comes from memory. Nothing is wrong, and --repaired, where each thread
// touches its own block first, gains nothing. Where shares are of traffic or of
// stalls there is nothing to see; shares of accesses would cry wolf.

#include "../include/nearfar.h"
#include "common.hpp"

static double start_value(std::size_t i) { return static_cast<double>(i % 1021); }

[[gnu::noinline]] static void initialize_serial(double *blocks, std::size_t elements)
{
    for (std::size_t i = 0; i < elements; ++i)
        blocks[i] = start_value(i);
}

[[gnu::noinline]] static void initialize_by_users(double *blocks, std::size_t each)
{
#pragma omp parallel
    {
        const std::size_t begin = static_cast<std::size_t>(omp_get_thread_num()) * each;
        for (std::size_t i = begin; i < begin + each; ++i)
            blocks[i] = start_value(i);
    }
}

[[gnu::noinline]] static void update_again_and_again(double *blocks, std::size_t each, std::size_t iterations)
{
#pragma omp parallel
    {
        double *const own = blocks + static_cast<std::size_t>(omp_get_thread_num()) * each;
        for (std::size_t k = 0; k < iterations; ++k) {
            for (std::size_t i = 0; i < each; ++i)
                own[i] += 1.0;
            workload::memory_is_observed();
        }
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "cached",
                                  "[--repaired] [--kb B] [--iterations K] [--threads T]\n"
                                  "B KiB per thread, half of the usual first-level cache unless told otherwise.");
    const bool repaired = arguments.given("--repaired");
    const std::size_t kilobytes = arguments.count("--kb", 16);
    const std::size_t iterations = arguments.count("--iterations", 500);
    const int threads = arguments.threads();
    arguments.finish();
    // Whole pages each, so that the repaired placement is exact.
    const std::size_t block = workload::whole_pages(workload::product(arguments, {kilobytes, 1024}));
    const std::size_t bytes = workload::product(arguments, {block, static_cast<std::size_t>(threads)});
    const std::size_t elements = bytes / sizeof(double), each = block / sizeof(double);

    double *blocks = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(blocks, bytes);
    std::printf("repaired=%s threads=%d iterations=%zu, %zu KiB per thread\n", repaired ? "yes" : "no", threads,
                iterations, block / 1024);
    if (repaired)
        initialize_by_users(blocks, each);
    else
        initialize_serial(blocks, elements);

    const double start = workload::wall_seconds();
    nearfar_begin();
    update_again_and_again(blocks, each, iterations);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i)
        wrong += blocks[i] != start_value(i) + static_cast<double>(iterations);
    std::free(blocks);
    return workload::verdict(wrong, elements, "elements");
}
