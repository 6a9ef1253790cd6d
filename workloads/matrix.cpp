// SPDX-License-Identifier: MIT OR Apache-2.0
//
// matrix: sums of squares of a large matrix, one per row or one per column.
//
// The matrix is stored row by row. Summing a row reads consecutive floats: each
// cache line is fetched once, ahead of time, and used 16 times. Summing a
// column (flag --order columns, the defect; rows is the repair) reads one float
// per line and per row: once the rows outnumber the lines of a cache, each
// access misses it, and beyond the reach of the TLB it misses that as well.
// Both orders read the whole matrix in each pass.
//
// --order first-column is the loop of a published example that meant to sum
// columns and left out the column's number: it reads the first column, and of
// it the next row again, once per column. Its lines, 64 bytes per row, stay in
// a third level that has room for them, so that not memory but the L3 is slow.
//
// A second defect is the initialisation (flag --init), with `serial` by one
// thread, with `parallel` by the thread that will sum the same rows. It repairs
// the placement for --order rows; a thread that walks columns crosses the rows,
// and hence the pages, of all the others.

#include "../include/nearfar.h"
#include "common.hpp"

// 0 ... 6, so that all sums are exact in any order.
static unsigned small_value(std::size_t row, std::size_t column)
{
    return static_cast<unsigned>((31 * row + 17 * column) % 7);
}

static void write_row(float *matrix, std::size_t row, std::size_t columns)
{
    for (std::size_t column = 0; column < columns; ++column)
        matrix[row * columns + column] = static_cast<float>(small_value(row, column));
}

[[gnu::noinline]] static void initialize_serial(float *matrix, std::size_t rows, std::size_t columns)
{
    for (std::size_t row = 0; row < rows; ++row)
        write_row(matrix, row, columns);
}

[[gnu::noinline]] static void initialize_parallel(float *matrix, std::size_t rows, std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t row = 0; row < rows; ++row)
        write_row(matrix, row, columns);
}

// One column in a function of its own, or else the compiler may interchange
// the loops and with that repair the defect.
[[gnu::noinline]] static double column_squares(const float *matrix, std::size_t rows, std::size_t columns,
                                                std::size_t column)
{
    double sum = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        const double value = matrix[row * columns + column];
        sum += value * value;
    }
    return sum;
}

// Products of neighbours in the first column; `matrix` is opaque to the caller's loop.
[[gnu::noinline]] static double first_column_products(const float *matrix, std::size_t rows, std::size_t columns)
{
    double sum = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t next = row + 1 >= rows ? 0 : row + 1;
        sum += static_cast<double>(matrix[row * columns]) * static_cast<double>(matrix[next * columns]);
    }
    return sum;
}

[[gnu::noinline]] static double row_squares(const float *matrix, std::size_t columns, std::size_t row)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t column = 0; column < columns; ++column) {
        const double value = matrix[row * columns + column];
        sum += value * value;
    }
    return sum;
}

[[gnu::noinline]] static void sum_rows(const float *matrix, double *sums, std::size_t rows, std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t row = 0; row < rows; ++row)
        sums[row] += row_squares(matrix, columns, row);
}

[[gnu::noinline]] static void sum_columns(const float *matrix, double *sums, std::size_t rows, std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t column = 0; column < columns; ++column)
        sums[column] += column_squares(matrix, rows, columns, column);
}

[[gnu::noinline]] static void sum_first_column(const float *matrix, double *sums, std::size_t rows,
                                                std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t column = 0; column < columns; ++column) {
        sums[column] += first_column_products(matrix, rows, columns);
        workload::memory_is_observed();
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "matrix",
                                  "[--rows R] [--cols C] [--order columns|rows|first-column]\n"
                                  "              [--init serial|parallel]\n"
                                  "              [--passes P] [--threads T]");
    const std::size_t rows = arguments.count("--rows", 8192);
    const std::size_t columns = arguments.count("--cols", 8192);
    const std::string order = arguments.choice("--order", {"columns", "rows", "first-column"});
    const bool by_rows = order == "rows", first_column = order == "first-column";
    const std::string init = arguments.choice("--init", {"serial", "parallel"});
    const std::size_t passes = arguments.count("--passes", 3);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(float), rows, columns}));

    float *matrix = static_cast<float *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(matrix, bytes);
    std::vector<double> sums(by_rows ? rows : columns, 0.0);
    std::printf("rows=%zu cols=%zu order=%s init=%s passes=%zu threads=%d allocated=%.1f MB\n", rows, columns,
                order.c_str(), init.c_str(), passes, threads, 1e-6 * static_cast<double>(bytes));

    if (init == "serial")
        initialize_serial(matrix, rows, columns);
    else
        initialize_parallel(matrix, rows, columns);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t pass = 0; pass < passes; ++pass) {
        if (by_rows)
            sum_rows(matrix, sums.data(), rows, columns);
        else if (first_column)
            sum_first_column(matrix, sums.data(), rows, columns);
        else
            sum_columns(matrix, sums.data(), rows, columns);
        workload::memory_is_observed();
    }
    nearfar_end();
    const double seconds = workload::wall_seconds() - start;
    const double reads = static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(passes);
    std::printf("time: %.4f s, %.3f ns per element\n", seconds, 1e9 * seconds / reads);

    // The expected sums from the formula of the values, not from the matrix.
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        std::uint64_t expected = 0;
        for (std::size_t j = 0; j < (by_rows ? columns : rows); ++j) {
            const std::uint64_t value = by_rows ? small_value(i, j) : small_value(j, first_column ? 0 : i);
            expected += value * (first_column ? small_value(j + 1 < rows ? j + 1 : 0, 0) : value);
        }
        wrong += sums[i] != static_cast<double>(expected * passes);
    }
    std::printf("verify: %zu of %zu sums wrong: %s\n", wrong, sums.size(), wrong ? "WRONG" : "ok");
    std::free(matrix);
    return wrong ? workload::RESULT_WRONG : 0;
}
