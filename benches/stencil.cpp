// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The fast stencil against the roof of one sweep over memory and against a
// plain blocked C loop, in one run. stencil [n1 n2 n3 [rounds]]
//
// The roof of a round is the best of all kernels of roof.hpp in it, and of
// likwid-bench's update if that is installed, at 16 bytes per point.

#include "../workloads/common.hpp"
#include "../workloads/stencil/sweep.hpp"
#include "plain.hpp"
#include "roof.hpp"
#include "rounds.hpp"

#include <sys/mman.h>

using bench::Contestant;

constexpr double BYTES_PER_POINT = 16;
constexpr int ITERATIONS = 2;

static float *huge_pages(std::size_t floats)
{
    constexpr std::size_t PAGE = std::size_t(2) << 20;
    const std::size_t bytes = (floats * sizeof(float) + PAGE - 1) / PAGE * PAGE;
    void *const block = std::aligned_alloc(PAGE, bytes);
    workload::need_memory(block, bytes);
    madvise(block, bytes, MADV_HUGEPAGE);
    return static_cast<float *>(block);
}

// GB/s of likwid-bench's update kernel for x86 (8 bytes read and 8 written per element
// of one array), or 0 without it.
static double likwid_update(int threads)
{
    const std::string command = "likwid-bench -t update_avx -w S0:1GB:" + std::to_string(threads) + " 2>/dev/null";
    FILE *const pipe = popen(command.c_str(), "r");
    double rate = 0;
    char line[256];
    while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr)
        std::sscanf(line, "MByte/s: %lf", &rate);
    if (pipe != nullptr)
        pclose(pipe);
    return 1e-3 * rate;
}

// The fastest tuning of a kernel, each tried twice.
static stencil::Tuning tuned(stencil::Arrays arrays, stencil::Run run)
{
    stencil::Tuning best{};
    double least = 0;
    for (const int planes : {2, 4, 8})
        for (const int prefetch : {0, 1, 2}) {
            run.tuning = {planes, prefetch};
            for (int repetition = 0; repetition < 2; ++repetition) {
                const double start = bench::seconds_of(CLOCK_PROCESS_CPUTIME_ID);
                stencil::sweep(arrays, run, 1);
                const double seconds = bench::seconds_of(CLOCK_PROCESS_CPUTIME_ID) - start;
                if (least == 0 || seconds < least) {
                    least = seconds;
                    best = run.tuning;
                }
            }
        }
    return best;
}

static void print(const char *name, const std::vector<double> &rates, const std::vector<double> &roof,
                  const std::vector<double> &plain)
{
    const bench::Spread part = bench::spread(bench::ratios(rates, roof)), gain = bench::spread(bench::ratios(rates, plain));
    std::printf("%-28s %8.1f   %.3f (%.3f-%.3f)   %.2f (%.2f-%.2f)\n", name, 1e-6 * bench::median(rates), part.middle,
                part.least, part.most, gain.middle, gain.least, gain.most);
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "stencil", "[n1 n2 n3 [rounds]] [--threads N]");
    const int threads = arguments.threads();
    // Not powers of two, whose planes share cache sets in the plain loop's arrays: that would flatter us.
    const bool given = argc > 1 && argv[1][0] != '-';
    const std::ptrdiff_t n1 = given ? static_cast<std::ptrdiff_t>(arguments.positional("n1", 17)) : 496;
    const std::ptrdiff_t n2 = given ? static_cast<std::ptrdiff_t>(arguments.positional("n2", 17)) : 500;
    const std::ptrdiff_t n3 = given ? static_cast<std::ptrdiff_t>(arguments.positional("n3", 17)) : 220;
    const int rounds = given && argc > 4 && argv[4][0] != '-' ? static_cast<int>(arguments.positional("rounds")) : 9;
    arguments.finish();

    stencil::Grid grid{n1, n2, n3, 0, 0, n3};
    grid.n1_block = grid.panels() * stencil::PANEL;
    // Whole rows and depth; rows of a block for equal shares, about 64.
    const std::ptrdiff_t parts = threads * std::max<std::ptrdiff_t>(1, (n2 + 32 * threads) / (64 * threads));
    grid.n2_block = (n2 + parts - 1) / parts;
    const stencil::Memory memory(grid, true);
    workload::need_memory(memory.there() ? &memory : nullptr, memory.bytes());
    stencil::Arrays arrays = memory.arrays();
    stencil::initialize(arrays, grid, "first-touch");

    const PlainGrid plain_grid{n1, n2, n3, n1, 24, 96};
    const std::size_t points = static_cast<std::size_t>(n1 * n2 * n3);
    // An odd number of lines between the arrays, as ours have.
    float *plain_prev = huge_pages(points), *plain_next = huge_pages(points + 592) + 592,
          *plain_vel = huge_pages(points + 1184) + 1184;
    plain_initialize(plain_prev, plain_next, plain_vel, plain_grid);

    const roof::Arrays flat{huge_pages(points), huge_pages(points + 592) + 592, huge_pages(points + 1184) + 1184,
                            static_cast<std::ptrdiff_t>(points)};
    roof::first_touch(flat);

    std::vector<Contestant> all;
    const double bytes = static_cast<double>(points);
    all.push_back({"update", [&] { roof::update(flat); }, 16 * bytes, {}});
    all.push_back({"update, prefetched", [&] { roof::update_prefetched(flat); }, 16 * bytes, {}});
    all.push_back({"STREAM copy", [&] { roof::copy(flat); }, 12 * bytes, {}});
    all.push_back({"STREAM scale", [&] { roof::scale(flat); }, 12 * bytes, {}});
    all.push_back({"STREAM add", [&] { roof::add(flat); }, 16 * bytes, {}});
    all.push_back({"STREAM triad", [&] { roof::triad(flat); }, 16 * bytes, {}});
    const std::size_t kernels_of_roof = all.size();

    const double updates = static_cast<double>(ITERATIONS) * static_cast<double>((n1 - 16) * (n2 - 16) * (n3 - 16));
    all.push_back({"plain loop 24x96", [&] {
                       for (int i = 0; i < ITERATIONS; ++i) {
                           plain_iterate(plain_next, plain_prev, plain_vel, plain_grid);
                           std::swap(plain_next, plain_prev);
                       }
                   }, updates, {}});
    const std::size_t plain = all.size() - 1;
    stencil::Kernel kernels[stencil::KERNELS_MOST];
    const int count = stencil::all_kernels(kernels);
    bool first = true;
    for (int k = 0; k < count; ++k) {
        if (!kernels[k].automatic)
            continue;
        if (!kernels[k].runs_here) {
            std::printf("%s: not measured, this cpu lacks it\n", kernels[k].name);
            continue;
        }
        stencil::Run run{grid, kernels[k], {4, 1}, false};
        run.tuning = tuned(arrays, run);
        char name[80];
        std::snprintf(name, sizeof name, "%s, %d planes, %d ahead", kernels[k].name, run.tuning.planes, run.tuning.prefetch);
        all.push_back({name, [&arrays, run] { stencil::iterate_all(arrays, run, ITERATIONS, 1); }, updates, {}});
        if (first)
            all.push_back({std::string(kernels[k].name) + ", two steps a sweep",
                           [&arrays, run] { stencil::iterate_all(arrays, run, ITERATIONS, 2); }, updates, {}});
        first = false;
    }

    std::printf("grid %td x %td x %td, %d threads, %d rounds, blocks of ours %td x %td x %td\n", n1, n2, n3, threads,
                rounds, grid.n1_block, grid.n2_block, grid.n3_block);
    const double likwid = likwid_update(threads);
    const double had_cpus = bench::run_rounds(all, rounds, threads);

    std::vector<double> roof(static_cast<std::size_t>(rounds), 1e9 * likwid / BYTES_PER_POINT);
    std::printf("\n%-28s %8s\n", "memory", "GB/s");
    for (std::size_t k = 0; k < kernels_of_roof; ++k) {
        const bench::Spread s = bench::spread(all[k].rates);
        std::printf("%-28s %8.1f   (%.1f-%.1f)\n", all[k].name.c_str(), 1e-9 * s.middle, 1e-9 * s.least, 1e-9 * s.most);
        for (std::size_t r = 0; r < roof.size(); ++r)
            roof[r] = std::max(roof[r], all[k].rates[r] / BYTES_PER_POINT);
    }
    if (likwid > 0)
        std::printf("%-28s %8.1f   (once, by the wall clock)\n", "likwid-bench update", likwid);
    else
        std::printf("%-28s %8s\n", "likwid-bench update", "not installed");
    std::printf("roof, best of each round     %8.1f   %.1f MPoints/s at 16 bytes\n\n",
                1e-9 * BYTES_PER_POINT * bench::median(roof), 1e-6 * bench::median(roof));
    std::printf("%-28s %8s   %-20s   %s\n", "stencil", "MPoints/s", "of the roof", "times the plain loop");
    for (std::size_t k = kernels_of_roof; k < all.size(); ++k)
        print(all[k].name.c_str(), all[k].rates, roof, all[plain].rates);
    std::printf("\nrates by cpu time; the threads had a cpu %.0f %% of the time\n", 100 * had_cpus);
    if (had_cpus < 0.8)
        std::printf("busy host: threads rarely ran at once, each had the memory to itself, and the roof is too high\n");
}
