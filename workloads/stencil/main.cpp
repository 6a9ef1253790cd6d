// SPDX-License-Identifier: MIT OR Apache-2.0
//
// iso3dfd-fast: the scheme of ../iso3dfd.cpp, in place, as fast as we can.
//
// Interface, start values and output are those of iso3dfd; what differs is how
// the arrays are in memory (grid.hpp), the kernels (kernel.hpp) and the loops
// around them (sweep.cpp). Nothing is wrong with its memory placement unless
// --init reports it.

#include "../../include/nearfar.h"
#include "../common.hpp"
#include "autotune.hpp"
#include "values.hpp"

#include <algorithm>

using namespace stencil;

constexpr double FLOPS_PER_POINT = 61; // as in iso3dfd.cpp

constexpr const char *USAGE_TEXT =
    "n1 n2 n3 iterations n1_block n2_block n3_block [--threads N]\n"
    "               [--init first-touch|serial|half-parallel] [--schedule static|dynamic] [--verify]\n"
    "               [--isa auto|avx512|avx2|portable] [--autotune] [--huge-pages] [--steps-per-sweep K]\n"
    "               [--planes 2|4|8] [--prefetch ROWS]\n"
    "n1 is the fastest dimension; sizes include the halo of 8 points on each side.\n"
    "n1_block is rounded up to whole panels of 128 points.\n"
    "--verify compares with a slow reference in double precision.\n"
    "--autotune replaces the blocks given by the fastest of about 16 choices, tried here.\n"
    "--steps-per-sweep does K iterations in one sweep over memory; pays if the last-level cache\n"
    "  holds 3 * 4 * n1 * n2 * 8 * (K + 2) bytes.\n"
    "example: iso3dfd-fast 512 512 200 10 512 64 200 --huge-pages";

// The kernel that --isa asks for, or a usage error that says what is missing.
static Kernel kernel_for(const workload::Arguments &arguments, const std::string &isa)
{
    Kernel kernels[KERNELS_MOST];
    const int count = all_kernels(kernels);
    std::string names = "auto";
    for (int i = 0; i < count; ++i) {
        if (isa == "auto" ? kernels[i].automatic && kernels[i].runs_here : isa == kernels[i].name) {
            if (!kernels[i].runs_here)
                arguments.fail("--isa " + isa + ": this cpu, or its operating system, lacks " + kernels[i].what +
                               "; --isa auto takes the fastest that runs here");
            return kernels[i];
        }
        if (kernels[i].automatic)
            names += std::string(", ") + kernels[i].name;
    }
    arguments.fail("--isa wants one of " + names + ", not '" + isa + "'");
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "iso3dfd-fast", USAGE_TEXT);
    const std::string init = arguments.choice("--init", {"first-touch", "serial", "half-parallel"});
    const std::string schedule = arguments.choice("--schedule", {"static", "dynamic"});
    const std::string isa = arguments.text("--isa", "auto");
    const bool verify = arguments.given("--verify"), tune = arguments.given("--autotune");
    const bool huge_pages = arguments.given("--huge-pages");
    const Index steps = static_cast<Index>(arguments.count("--steps-per-sweep", 1));
    const std::string planes = arguments.choice("--planes", {"4", "2", "8"});
    const int prefetch = static_cast<int>(arguments.count("--prefetch", 1, 0));
    const int threads = arguments.threads();
    Grid grid{};
    for (auto [size, name] : {std::pair{&grid.n1, "n1"}, {&grid.n2, "n2"}, {&grid.n3, "n3"}})
        *size = static_cast<Index>(arguments.positional(name, 2 * HALO + 1));
    const Index iterations = static_cast<Index>(arguments.positional("iterations"));
    for (auto [size, name] : {std::pair{&grid.n1_block, "n1_block"},
                              {&grid.n2_block, "n2_block"},
                              {&grid.n3_block, "n3_block"}})
        *size = static_cast<Index>(arguments.positional(name));
    arguments.finish();
    workload::product(arguments, {2 * sizeof(float), static_cast<std::size_t>(grid.n1) + PANEL,
                                  static_cast<std::size_t>(grid.n2) + 1, static_cast<std::size_t>(grid.n3)});
    if (prefetch > 64)
        arguments.fail("--prefetch " + std::to_string(prefetch) + " is more than any cache keeps");
    if (steps > 64)
        arguments.fail("--steps-per-sweep " + std::to_string(steps) + " is more than any cache keeps");
    if (schedule == "dynamic" && steps > 1)
        arguments.fail("--steps-per-sweep cuts planes statically; leave out --schedule dynamic");
    const Kernel kernel = kernel_for(arguments, isa);
    grid.n1_block = round_up(smaller(grid.n1_block, grid.panels() * PANEL), PANEL);
    grid.n2_block = smaller(grid.n2_block, grid.n2);
    grid.n3_block = smaller(grid.n3_block, grid.n3);

    const Memory memory(grid, huge_pages);
    if (!memory.there())
        workload::need_memory(nullptr, memory.bytes());
    Run run{grid, kernel, {std::stoi(planes), prefetch}, schedule == "dynamic"};
    std::printf("grid: n1=%td n2=%td n3=%td iterations=%td\n", grid.n1, grid.n2, grid.n3, iterations);
    std::printf("kernel: %s (%s), %td step%s per sweep, pages: %s\n", kernel.name, kernel.what, steps,
                steps == 1 ? "" : "s", huge_pages ? "huge ones asked for" : "the system's choice");
    if (tune)
        autotune(memory, run, init, steps, threads);
    std::printf("blocks: n1=%td n2=%td n3=%td threads=%d init=%s schedule=%s\n", run.grid.n1_block, run.grid.n2_block,
                run.grid.n3_block, threads, init.c_str(), schedule.c_str());
    std::printf("allocated: %.1f MB in prev, next and vel\n", 1e-6 * static_cast<double>(memory.bytes()));

    Arrays arrays = memory.arrays();
    const std::size_t each = static_cast<std::size_t>(grid.floats()) * sizeof(float);
    nearfar_name(arrays.prev, each, "prev");
    nearfar_name(arrays.next, each, "next");
    nearfar_name(arrays.vel, each, "vel");
    initialize(arrays, run.grid, init);

    const double start = workload::wall_seconds();
    nearfar_begin();
    iterate_all(arrays, run, iterations, steps);
    nearfar_end();
    const double seconds = workload::wall_seconds() - start;

    const double updates = static_cast<double>(grid.n1 - 2 * HALO) * static_cast<double>(grid.n2 - 2 * HALO) *
                           static_cast<double>(grid.n3 - 2 * HALO) * static_cast<double>(iterations);
    std::printf("time: %.3f s\n", seconds);
    std::printf("throughput: %.2f MPoints/s\n", 1e-6 * updates / seconds);
    std::printf("flops: %.2f GFlops\n", 1e-9 * FLOPS_PER_POINT * updates / seconds);

    if (verify) {
        const Comparison found = compare_with_reference(arrays.prev, arrays.next, run.grid, iterations);
        std::printf("verify: max abs error %.3g, allowed %.3g, largest value %.3g: %s\n", found.error, found.allowed,
                    found.largest, found.right() ? "ok" : "WRONG");
        return found.right() ? 0 : workload::RESULT_WRONG;
    }
    const Summary summary = summarize(arrays.prev, run.grid);
    std::printf("checksum: %.9g, rms %.6g: %s\n", summary.sum, summary.rms, summary.plausible ? "plausible" : "WRONG");
    return summary.plausible ? 0 : workload::RESULT_WRONG;
}
