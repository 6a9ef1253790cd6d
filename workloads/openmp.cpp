// SPDX-License-Identifier: MIT OR Apache-2.0
//
// openmp: four ways in which OpenMP loops come to use memory of other nodes.
//
// The examples of "Best practices for programming with openMP on NUMA systems"
// (J. Mora, AMD), in functions of their own so that each has its own lines. All
// compute a[i] = b[i] + step. That moves three lines: b is read, a is read
// before it is written (write-allocate), a is written back.
//
// Remote share of the traffic on N nodes, threads pinned compactly:
//  1  a and b initialised by one thread: (N-1)/N.
//  2  only a initialised by one thread: a is two of three lines, 2/3 (N-1)/N.
//  3  initialised by schedule(static), used by schedule(dynamic): a chunk goes
//     to any thread, (N-1)/N.
//  4  initialised over the whole array, used over a subset that leaves out
//     `low` elements at the start and `high` at the end. The j-th border
//     between nodes lies |low - (low + high) j/N| elements away from where it
//     lay, so that many elements are remote; 1/6 of the subset for low = 1/4,
//     high = 0, N = 2. Equal halos cancel in the middle: with two nodes
//     nothing is remote, with four `low` elements are.
// --repaired initialises by the same bounds and schedule that the work has; in
// example 3 that means to make the work static, too. Nothing is remote then.

#include "../include/nearfar.h"
#include "common.hpp"

// Of the dynamic schedule: 8 pages, dear enough to be worth handing out, and
// much less than a thread's share.
constexpr std::size_t CHUNK = 4096;

static double b_value(std::size_t i) { return static_cast<double>(i % 1021); }

static void write_range(double *a, double *b, workload::Range range)
{
    for (std::size_t i = range.begin; i < range.end; ++i) {
        a[i] = -1.0;
        b[i] = b_value(i);
    }
}

[[gnu::noinline]] static void example1_initialize_serial(double *a, double *b, std::size_t elements)
{
    write_range(a, b, {0, elements});
}

[[gnu::noinline]] static void example2_initialize_mixed(double *a, double *b, std::size_t elements)
{
    for (std::size_t i = 0; i < elements; ++i)
        a[i] = -1.0;
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < elements; ++i)
        b[i] = b_value(i);
}

[[gnu::noinline]] static void initialize_static(double *a, double *b, std::size_t elements)
{
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < elements; ++i) {
        a[i] = -1.0;
        b[i] = b_value(i);
    }
}

// The subset by the bounds of the work; main writes what is left out of it.
[[gnu::noinline]] static void example4_initialize_subset(double *a, double *b, std::size_t elements,
                                                          workload::Range subset)
{
    write_range(a, b, {0, subset.begin});
#pragma omp parallel for schedule(static)
    for (std::size_t i = subset.begin; i < subset.end; ++i) {
        a[i] = -1.0;
        b[i] = b_value(i);
    }
    write_range(a, b, {subset.end, elements});
}

[[gnu::noinline]] static void work_static(double *__restrict a, const double *__restrict b, workload::Range range,
                                           double step)
{
#pragma omp parallel for schedule(static)
    for (std::size_t i = range.begin; i < range.end; ++i)
        a[i] = b[i] + step;
}

[[gnu::noinline]] static void example3_work_dynamic(double *__restrict a, const double *__restrict b,
                                                     workload::Range range, double step)
{
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (std::size_t i = range.begin; i < range.end; ++i)
        a[i] = b[i] + step;
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "openmp",
                                  "[--example 1|2|3|4] [--repaired] [--elements N] [--low L] [--high H]\n"
                                  "       [--iterations K] [--threads T]\n"
                                  "Example 4 leaves out L elements at the start (a quarter) and H at the end (none).");
    const int example = std::atoi(arguments.choice("--example", {"1", "2", "3", "4"}).c_str());
    const bool repaired = arguments.given("--repaired");
    const std::size_t elements = arguments.count("--elements", std::size_t(1) << 21);
    const std::size_t low = arguments.count("--low", example == 4 ? elements / 4 : 0, 0);
    const std::size_t high = arguments.count("--high", 0, 0);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const int threads = arguments.threads();
    arguments.finish();
    if (example != 4 && (low > 0 || high > 0))
        arguments.fail("--low and --high belong to --example 4");
    if (low >= elements || high >= elements - low)
        arguments.fail("--low and --high leave nothing of " + std::to_string(elements) + " elements");
    const workload::Range range = {low, elements - high};
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(double), elements}));

    double *a = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    double *b = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    for (const double *array : {a, b})
        workload::need_memory(array, bytes);
    std::printf("example=%d repaired=%s elements=%zu low=%zu high=%zu iterations=%zu threads=%d\n", example,
                repaired ? "yes" : "no", elements, low, high, iterations, threads);

    if (!repaired && example == 1)
        example1_initialize_serial(a, b, elements);
    else if (!repaired && example == 2)
        example2_initialize_mixed(a, b, elements);
    else if (repaired && example == 4)
        example4_initialize_subset(a, b, elements, range);
    else
        initialize_static(a, b, elements);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k) {
        if (!repaired && example == 3)
            example3_work_dynamic(a, b, range, static_cast<double>(k));
        else
            work_static(a, b, range, static_cast<double>(k));
    }
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i) {
        const bool inside = i >= range.begin && i < range.end;
        wrong += a[i] != (inside ? b_value(i) + static_cast<double>(iterations - 1) : -1.0);
    }
    std::free(a);
    std::free(b);
    return workload::verdict(wrong, elements, "elements");
}
