// SPDX-License-Identifier: MIT OR Apache-2.0
//
// rows: the allocator touches the pages before the parallel loop does.
//
// A matrix of many small rows, each from a malloc of its own, is initialised in
// parallel by the threads that use it, as it should be. But main has allocated
// the rows, and malloc wrote a header in front of each. Where rows are about as
// large as a page, nearly every page has a header in it, and so is on main's
// node before the first element is written. The parallel initialisation comes
// too late, and from the source nothing seems wrong.
//
// Remote share on N nodes: (N-1)/N of the pages with a header, which are all
// for rows up to 4 KiB, half of them for 8 KiB, and so on. With --repaired the
// threads also allocate their own rows: malloc gives each thread memory of its
// own arena, headers included, and nothing is remote.

#include "../include/nearfar.h"
#include "common.hpp"

static double start_value(std::size_t row, std::size_t column)
{
    return static_cast<double>((7 * row + column) % 1021);
}

static double *allocate_row(std::size_t bytes)
{
    double *row = static_cast<double *>(std::malloc(bytes));
    workload::need_memory(row, bytes);
    return row;
}

[[gnu::noinline]] static void allocate_serial(double **rows, std::size_t count, std::size_t columns)
{
    for (std::size_t r = 0; r < count; ++r)
        rows[r] = allocate_row(columns * sizeof(double));
}

[[gnu::noinline]] static void allocate_by_users(double **rows, std::size_t count, std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t r = 0; r < count; ++r)
        rows[r] = allocate_row(columns * sizeof(double));
}

[[gnu::noinline]] static void initialize_parallel(double *const *rows, std::size_t count, std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t r = 0; r < count; ++r)
        for (std::size_t c = 0; c < columns; ++c)
            rows[r][c] = start_value(r, c);
}

[[gnu::noinline]] static void update_rows(double *const *rows, std::size_t count, std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t r = 0; r < count; ++r) {
        double *const row = rows[r];
        for (std::size_t c = 0; c < columns; ++c)
            row[c] += 1.0;
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "rows",
                                  "[--repaired] [--rows R] [--columns C] [--iterations K] [--threads T]");
    const bool repaired = arguments.given("--repaired");
    const std::size_t count = arguments.count("--rows", 8000);
    const std::size_t columns = arguments.count("--columns", 500); // with its header a little less than a page
    const std::size_t iterations = arguments.count("--iterations", 4);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t bytes = workload::product(arguments, {count, columns, sizeof(double)});

    std::vector<double *> rows(count);
    std::printf("rows=%zu columns=%zu iterations=%zu threads=%d repaired=%s allocated=%.1f MB\n", count, columns,
                iterations, threads, repaired ? "yes" : "no", 1e-6 * static_cast<double>(bytes));
    if (repaired)
        allocate_by_users(rows.data(), count, columns);
    else
        allocate_serial(rows.data(), count, columns);
    initialize_parallel(rows.data(), count, columns);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        update_rows(rows.data(), count, columns);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    std::size_t wrong = 0;
    for (std::size_t r = 0; r < count; ++r)
        for (std::size_t c = 0; c < columns; ++c)
            wrong += rows[r][c] != start_value(r, c) + static_cast<double>(iterations);
    for (double *row : rows)
        std::free(row);
    return workload::verdict(wrong, count * columns, "elements");
}
