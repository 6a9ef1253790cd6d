// SPDX-License-Identifier: MIT OR Apache-2.0
//
// saturated: every node's memory is busy to the limit, and nothing is wrong.
//
// Each thread changes a large block of its own in place, which it first
// touched: a line read and a line written back per line, nothing else to do,
// nothing shared. All traffic is local on any number of nodes. The program is
// slow because memory is, not because of where it is; no placement helps.

#include "../include/nearfar.h"
#include "common.hpp"

static double start_value(std::size_t i) { return static_cast<double>(i % 1021); }

[[gnu::noinline]] static void initialize_own(double *const *blocks, std::size_t each)
{
#pragma omp parallel
    {
        double *const block = blocks[omp_get_thread_num()];
        for (std::size_t i = 0; i < each; ++i)
            block[i] = start_value(i);
    }
}

[[gnu::noinline]] static void update_in_place(double *const *blocks, std::size_t each)
{
#pragma omp parallel
    {
        double *const block = blocks[omp_get_thread_num()];
        for (std::size_t i = 0; i < each; ++i)
            block[i] += 1.0;
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "saturated",
                                  "[--kb B] [--iterations K] [--threads T]\nB KiB per thread.");
    const std::size_t kilobytes = arguments.count("--kb", 4096);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {kilobytes, 1024}));
    const std::size_t each = bytes / sizeof(double);

    std::vector<double *> blocks(static_cast<std::size_t>(threads));
    for (double *&block : blocks) {
        block = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
        workload::need_memory(block, bytes);
    }
    std::printf("threads=%d iterations=%zu, %zu KiB per thread\n", threads, iterations, bytes / 1024);
    initialize_own(blocks.data(), each);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        update_in_place(blocks.data(), each);
    nearfar_end();
    const double seconds = workload::wall_seconds() - start;
    std::printf("time: %.4f s, %.2f GB/s read and as much written\n", seconds,
                1e-9 * static_cast<double>(bytes) * threads * static_cast<double>(iterations) / seconds);

    std::size_t wrong = 0;
    for (const double *block : blocks)
        for (std::size_t i = 0; i < each; ++i)
            wrong += block[i] != start_value(i) + static_cast<double>(iterations);
    for (double *block : blocks)
        std::free(block);
    return workload::verdict(wrong, each * blocks.size(), "elements");
}
