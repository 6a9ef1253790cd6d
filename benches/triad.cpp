// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Non-temporal stores against regular ones in workloads/triad.cpp's own loops.
// triad [elements [rounds]]
//
// Arithmetic: 24 bytes per element against 32 with write-allocate, so at equal
// bandwidth non-temporal stores are 32/24 = 1.33 times as fast.

#define main triad_main
#include "../workloads/triad.cpp"
#undef main

#include "rounds.hpp"

#include <sys/mman.h>

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "triad", "[elements [rounds]] [--threads N]");
    const int threads = arguments.threads();
    const bool given = argc > 1 && argv[1][0] != '-';
    const std::size_t elements = given ? arguments.positional("elements") : std::size_t(24) << 20;
    const int rounds = given && argc > 2 && argv[2][0] != '-' ? static_cast<int>(arguments.positional("rounds")) : 9;
    arguments.finish();
#if !defined(__x86_64__)
    std::printf("triad: not measured, the non-temporal stores are written for x86-64 only\n");
    return 0;
#endif
    constexpr std::size_t HUGE = std::size_t(2) << 20;
    const std::size_t bytes = (workload::product(arguments, {sizeof(double), elements}) + HUGE - 1) / HUGE * HUGE;
    double *arrays[3];
    for (double *&array : arrays) {
        array = static_cast<double *>(std::aligned_alloc(HUGE, bytes));
        workload::need_memory(array, bytes);
        madvise(array, bytes, MADV_HUGEPAGE);
    }
    const auto [a, b, c] = arrays;
    initialize_parallel(a, b, c, elements);
    const double bytes_moved = 24 * static_cast<double>(elements);
    std::vector<bench::Contestant> all;
    all.push_back({"regular", [=, a = a, b = b, c = c] { triad(a, b, c, elements); }, bytes_moved, {}});
    all.push_back({"non-temporal", [=, a = a, b = b, c = c] { triad_nontemporal(a, b, c, elements); }, bytes_moved, {}});
    const double had_cpus = bench::run_rounds(all, rounds, threads);

    std::printf("triad of %zu doubles per array, %d threads, %d rounds\n", elements, threads, rounds);
    std::printf("%-16s %30s %30s\n", "stores", "GB/s at 24 bytes per element", "GB/s that the memory moves");
    for (std::size_t k = 0; k < all.size(); ++k)
        std::printf("%-16s %30.1f %30.1f\n", all[k].name.c_str(), 1e-9 * bench::median(all[k].rates),
                    1e-9 * bench::median(all[k].rates) * (k == 0 ? 32.0 / 24 : 1));
    const bench::Spread gain = bench::spread(bench::ratios(all[1].rates, all[0].rates));
    std::printf("non-temporal / regular: %.2f (%.2f-%.2f), by arithmetic 1.33\n", gain.middle, gain.least, gain.most);
    std::printf("rates by cpu time; the threads had a cpu %.0f %% of the time\n", 100 * had_cpus);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i)
        wrong += a[i] != b_value(i) + SCALE * c_value(i);
    for (double *array : arrays)
        std::free(array);
    return workload::verdict(wrong, elements, "elements");
}
