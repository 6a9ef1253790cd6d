// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A matrix by rows and by columns, with workloads/matrix.cpp's own loops.
// matrix [side [rounds]]
//
// Two column codes. The true one sums every column. The other is found in a
// tutorial's example of what columns cost: its address leaves out the outer
// index, so it reads the same pair of columns again and again. That pair stays in
// cache once its lines do, so it shows the price of strides without that of
// memory: it touches side * 64 bytes where the true one touches the whole matrix.

#define main matrix_main
#include "../workloads/matrix.cpp"
#undef main

#include "rounds.hpp"

#include <sys/mman.h>

// As sum_columns, but of columns 0 and 1 in turns, whatever column is meant.
[[gnu::noinline]] static void sum_one_pair(const float *matrix, double *sums, std::size_t rows, std::size_t columns)
{
#pragma omp parallel for schedule(static)
    for (std::size_t column = 0; column < columns; ++column)
        sums[column] += column_squares(matrix, rows, columns, column % 2);
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "matrix", "[side [rounds]] [--threads N]");
    const int threads = arguments.threads();
    const bool given = argc > 1 && argv[1][0] != '-';
    // Not a power of two, or else a column's lines would share a few cache sets.
    const std::size_t side = given ? arguments.positional("side", 2) : 10000;
    const int rounds = given && argc > 2 && argv[2][0] != '-' ? static_cast<int>(arguments.positional("rounds")) : 5;
    arguments.finish();
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(float), side, side}));
    float *const matrix = static_cast<float *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(matrix, bytes);
    // Small pages, as the example has them: part of a column's price is the TLB.
    madvise(matrix, bytes, MADV_NOHUGEPAGE);
    initialize_parallel(matrix, side, side);

    std::vector<double> sums[3] = {std::vector<double>(side), std::vector<double>(side), std::vector<double>(side)};
    const double elements = static_cast<double>(side) * static_cast<double>(side);
    std::vector<bench::Contestant> all;
    all.push_back({"rows", [&] { sum_rows(matrix, sums[0].data(), side, side); }, elements, {}});
    all.push_back({"columns", [&] { sum_columns(matrix, sums[1].data(), side, side); }, elements, {}});
    all.push_back({"one pair of columns", [&] { sum_one_pair(matrix, sums[2].data(), side, side); }, elements, {}});
    const double had_cpus = bench::run_rounds(all, rounds, threads);

    std::printf("matrix of %zu x %zu floats, %d threads, %d rounds\n", side, side, threads, rounds);
    std::printf("%-22s %14s   %s\n", "sums of", "ns per element", "times the rows' time");
    for (const bench::Contestant &c : all) {
        const bench::Spread slower = bench::spread(bench::ratios(all[0].rates, c.rates));
        std::printf("%-22s %14.3f   %.1f (%.1f-%.1f)\n", c.name.c_str(), 1e9 / bench::median(c.rates), slower.middle,
                    slower.least, slower.most);
    }
    std::printf("times are those of one element of one thread's share of %d; by cpu time; the threads had a cpu %.0f %% of the time\n",
                threads, 100 * had_cpus);
    double by_rows = 0, by_columns = 0; // of whole numbers: exact in any order
    for (std::size_t i = 0; i < side; ++i) {
        by_rows += sums[0][i];
        by_columns += sums[1][i];
    }
    std::free(matrix);
    return workload::verdict(by_rows != by_columns, 1, "totals");
}
