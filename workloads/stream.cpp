// SPDX-License-Identifier: MIT OR Apache-2.0
//
// stream: the four loops of McCalpin's STREAM, with nothing wrong.
//
// Copy, scale, add and triad over three arrays, each thread on the part that
// it first touched. It waits for memory all the time and yet has no placement
// defect: of the traffic about 0 is remote on any number of nodes, and every
// node's memory is equally busy. A tool that finds fault here is wrong.
//
// The result is exact: a round multiplies a by 15 (c = a, b = 3c, c = a + b,
// a = b + 3c), and small whole numbers times 15^10 still fit a double.

#include "../include/nearfar.h"
#include "common.hpp"

constexpr double SCALE = 3.0;
constexpr std::size_t GRANULE = workload::PAGE / sizeof(double); // threads share no page
constexpr std::size_t LINE = 8;                                 // elements of a cache line
constexpr std::size_t MOST_ITERATIONS = 10;

static double start_value(std::size_t i) { return static_cast<double>(1 + i % 1021); }

static workload::Range mine(std::size_t elements)
{
    return workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE);
}

[[gnu::noinline]] static void initialize_parallel(double *a, double *b, double *c, std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = mine(elements);
        for (std::size_t i = range.begin; i < range.end; ++i) {
            a[i] = start_value(i);
            b[i] = c[i] = -1.0;
        }
    }
}

[[gnu::noinline]] static void stream_copy(double *__restrict c, const double *__restrict a, std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = mine(elements);
        // A cache line at a time: the compiler would make memcpy of a plain
        // loop, and that stores in another way on each machine.
        std::size_t i = range.begin;
        for (; i + LINE <= range.end; i += LINE) {
            for (std::size_t k = 0; k < LINE; ++k)
                c[i + k] = a[i + k];
            workload::memory_is_observed();
        }
        for (; i < range.end; ++i)
            c[i] = a[i];
    }
}

[[gnu::noinline]] static void stream_scale(double *__restrict b, const double *__restrict c, std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = mine(elements);
        for (std::size_t i = range.begin; i < range.end; ++i)
            b[i] = SCALE * c[i];
    }
}

[[gnu::noinline]] static void stream_add(double *__restrict c, const double *__restrict a, const double *__restrict b,
                                          std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = mine(elements);
        for (std::size_t i = range.begin; i < range.end; ++i)
            c[i] = a[i] + b[i];
    }
}

[[gnu::noinline]] static void stream_triad(double *__restrict a, const double *__restrict b,
                                            const double *__restrict c, std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = mine(elements);
        for (std::size_t i = range.begin; i < range.end; ++i)
            a[i] = b[i] + SCALE * c[i];
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "stream", "[--elements N] [--iterations K] [--threads T]");
    const std::size_t elements = arguments.count("--elements", std::size_t(3) << 19);
    const std::size_t iterations = arguments.count("--iterations", 2);
    const int threads = arguments.threads();
    arguments.finish();
    if (iterations > MOST_ITERATIONS)
        arguments.fail("--iterations above " + std::to_string(MOST_ITERATIONS) + " would round in the result");
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(double), elements}));

    double *a = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    double *b = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    double *c = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    for (const double *array : {a, b, c})
        workload::need_memory(array, bytes);
    std::printf("elements=%zu iterations=%zu threads=%d\n", elements, iterations, threads);
    initialize_parallel(a, b, c, elements);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k) {
        stream_copy(c, a, elements);
        stream_scale(b, c, elements);
        stream_add(c, a, b, elements);
        stream_triad(a, b, c, elements);
    }
    nearfar_end();
    const double seconds = workload::wall_seconds() - start;
    // Ten arrays per round are named in the four loops: 2 + 2 + 3 + 3.
    std::printf("time: %.4f s, %.2f GB/s\n", seconds,
                80e-9 * static_cast<double>(elements) * static_cast<double>(iterations) / seconds);

    const double factor = std::pow(15.0, static_cast<double>(iterations - 1)); // a before the last round
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i) {
        const double before = start_value(i) * factor;
        wrong += a[i] != 15 * before || b[i] != 3 * before || c[i] != 4 * before;
    }
    std::free(a);
    std::free(b);
    std::free(c);
    return workload::verdict(wrong, elements, "elements");
}
