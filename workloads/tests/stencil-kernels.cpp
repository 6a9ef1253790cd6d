// SPDX-License-Identifier: MIT OR Apache-2.0
//
// stencil-kernels NAME: one kernel of the fast stencil against the scalar
// reference in double, and against itself: threads, blocks, schedules, tunings
// and temporal blocking may not change one bit of the result.
//
// Sizes are small and odd; widths go through every remainder of a vector and
// every position of the grid's end around the borders of panels.

#include "../stencil/autotune.hpp"
#include "../stencil/values.hpp"

#include <omp.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

using namespace stencil;

static int checks = 0, failures = 0;

static void expect(bool right, const char *what, const Grid &g, Index iterations)
{
    ++checks;
    if (right)
        return;
    ++failures;
    std::printf("WRONG: %s, grid %td %td %td, blocks %td %td %td, %td iterations\n", what, g.n1, g.n2, g.n3,
                g.n1_block, g.n2_block, g.n3_block, iterations);
}

// Both time levels, point by point; what the padding holds does not matter.
struct Result {
    std::vector<float> prev, next;
    bool operator==(const Result &other) const
    {
        const std::size_t bytes = prev.size() * sizeof(float);
        return std::memcmp(prev.data(), other.prev.data(), bytes) == 0 &&
               std::memcmp(next.data(), other.next.data(), bytes) == 0;
    }
};

static Result compute(const Run &run, Index iterations, Index steps, bool *matches_reference)
{
    const Memory memory(run.grid, false);
    Arrays arrays = memory.arrays();
    initialize(arrays, run.grid, "first-touch");
    iterate_all(arrays, run, iterations, steps);
    if (matches_reference != nullptr) {
        const Comparison found = compare_with_reference(arrays.prev, arrays.next, run.grid, iterations);
        *matches_reference = found.right() && found.error <= 1e-5 * found.largest;
    }
    Result result;
    for (Index z = 0; z < run.grid.n3; ++z)
        for (Index y = 0; y < run.grid.n2; ++y)
            for (Index x = 0; x < run.grid.n1; ++x) {
                result.prev.push_back(arrays.prev[run.grid.at(x, y, z)]);
                result.next.push_back(arrays.next[run.grid.at(x, y, z)]);
            }
    return result;
}

static Result reference_checked(const Run &run, Index iterations)
{
    bool right = false;
    Result result = compute(run, iterations, 1, &right);
    expect(right, "differs from the scalar reference", run.grid, iterations);
    return result;
}

int main(int argc, char **argv)
{
    const std::string name = argc == 2 ? argv[1] : "";
    Kernel kernels[KERNELS_MOST];
    const int count = all_kernels(kernels);
    const Kernel *kernel = nullptr;
    for (int i = 0; i < count; ++i)
        if (name == kernels[i].name)
            kernel = &kernels[i];
    if (kernel == nullptr) {
        std::printf("skipped: this program has no kernel '%s'\n", name.c_str());
        return 0;
    }
    if (!kernel->runs_here) {
        std::printf("skipped: this cpu lacks %s; its instructions were not executed\n", kernel->what);
        return 0;
    }
    omp_set_dynamic(0);

    // Every width: ends of vectors and of panels.
    omp_set_num_threads(1);
    for (Index n1 = 17; n1 <= 280; n1 += n1 == 50 ? 62 : n1 == 152 ? 92 : 1)
        reference_checked({{n1, 18, 21, 2 * PANEL, 18, 21}, *kernel, {4, 1}, false}, 2);

    const Index sizes[][3] = {{64, 72, 80}, {96, 50, 37}, {17, 19, 23}, {61, 45, 39}, {151, 33, 29}};
    for (const auto &size : sizes) {
        const Grid whole{size[0], size[1], size[2], 3 * PANEL, size[1], size[2]};
        const Index iterations = 5;
        Run run{whole, *kernel, {4, 1}, false};
        const Result expected = reference_checked(run, iterations);
        for (const int threads : {1, 2, 3, 4}) {
            omp_set_num_threads(threads);
            for (const bool dynamic : {false, true})
                for (const Index block : {Index(1), Index(7), Index(24)}) {
                    run.grid.n1_block = PANEL;
                    run.grid.n2_block = block;
                    run.grid.n3_block = block + 2;
                    run.dynamic = dynamic;
                    // Blocks of one row in four threads cost more than they show.
                    if (block == 1 && (threads > 2 || size[1] > 40))
                        continue;
                    expect(compute(run, iterations, 1, nullptr) == expected, "differs with threads and blocks", run.grid,
                           iterations);
                }
            run.dynamic = false;
            for (const Index steps : {2, 3, 5})
                expect(compute(run, iterations, steps, nullptr) == expected, "differs with steps per sweep", run.grid,
                       iterations);
            run.grid = whole;
            expect(compute(run, iterations, 2, nullptr) == expected, "differs with two steps per sweep", run.grid,
                   iterations);
        }
        for (const int planes : {2, 4, 8})
            for (const int prefetch : {0, 3}) {
                run.tuning = {planes, prefetch};
                expect(compute(run, iterations, 1, nullptr) == expected, "differs with the tuning", run.grid, iterations);
            }
    }
    std::printf("%s: %d of %d checks wrong: %s\n", name.c_str(), failures, checks, failures == 0 ? "ok" : "WRONG");
    return failures == 0 ? 0 : 1;
}
