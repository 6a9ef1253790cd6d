// SPDX-License-Identifier: MIT OR Apache-2.0
//
// One parameter after the other, each with the best of those before it: rows of
// a block, planes in registers, rows of prefetch, then depth and width of the
// block. All combinations would take some twenty times as long.

#include "autotune.hpp"
#include "../common.hpp"

#include <algorithm>
#include <vector>

namespace stencil {

namespace {

constexpr int REPETITIONS = 3; // of which the fastest counts: what disturbs only slows

class Search {
public:
    Search(const Memory &memory, Run &best, const std::string &init, Index steps)
        : memory_(memory), best_(best), init_(init), steps_(steps)
    {
        std::printf("autotune: %8s %8s %8s %8s %8s %10s\n", "n1_block", "n2_block", "n3_block", "planes", "prefetch",
                    "MPoints/s");
        seconds_ = measure(best_);
    }

    void consider(const Run &candidate)
    {
        const Grid &a = candidate.grid, &b = best_.grid;
        if (a.n1_block == b.n1_block && a.n2_block == b.n2_block && a.n3_block == b.n3_block &&
            candidate.tuning.planes == best_.tuning.planes && candidate.tuning.prefetch == best_.tuning.prefetch)
            return;
        const double seconds = measure(candidate);
        if (seconds < seconds_) {
            seconds_ = seconds;
            best_ = candidate;
        }
    }

private:
    double measure(const Run &run)
    {
        memory_.forget();
        Arrays arrays = memory_.arrays();
        initialize(arrays, run.grid, init_);
        double fastest = 0;
        for (int i = 0; i < REPETITIONS; ++i) {
            const double start = workload::wall_seconds();
            sweep(arrays, run, steps_);
            const double seconds = workload::wall_seconds() - start;
            fastest = i == 0 ? seconds : std::min(fastest, seconds);
        }
        const Grid &g = run.grid;
        const double points = static_cast<double>(g.n1 - 2 * HALO) * static_cast<double>(g.n2 - 2 * HALO) *
                              static_cast<double>(g.n3 - 2 * HALO) * static_cast<double>(steps_);
        std::printf("autotune: %8td %8td %8td %8d %8d %10.1f\n", g.n1_block, g.n2_block, g.n3_block,
                    run.tuning.planes, run.tuning.prefetch, 1e-6 * points / fastest);
        std::fflush(stdout);
        return fastest;
    }

    const Memory &memory_;
    Run &best_;
    const std::string &init_;
    Index steps_;
    double seconds_ = 0;
};

} // namespace

void autotune(const Memory &memory, Run &run, const std::string &init, Index steps, int threads)
{
    Search search(memory, run, init, steps);
    Run candidate = run;
    const Index rows = run.grid.n2, depth = run.grid.n3, width = run.grid.panels() * PANEL;

    // Full depth and width. As many blocks as threads, or a small multiple, so
    // that all have the same to do.
    candidate.grid.n1_block = width;
    candidate.grid.n3_block = depth;
    for (const Index share : {1, 2, 3, 4, 6, 8}) {
        const Index parts = share * threads;
        if (rows / parts < 2 && share > 1)
            break;
        candidate.grid.n2_block = larger((rows + parts - 1) / parts, 1);
        search.consider(candidate);
    }
    for (const int planes : {2, 4, 8}) {
        candidate = run;
        candidate.tuning.planes = planes;
        search.consider(candidate);
    }
    for (const int prefetch : {0, 1, 2, 3}) {
        candidate = run;
        candidate.tuning.prefetch = prefetch;
        search.consider(candidate);
    }
    for (const Index part : {2, 4}) {
        candidate = run;
        candidate.grid.n3_block = larger(depth / part, 1);
        search.consider(candidate);
    }
    candidate = run;
    candidate.grid.n1_block = PANEL;
    search.consider(candidate);

    memory.forget();
    std::printf("autotune: chose %td %td %td, %d planes in registers, %d rows of prefetch\n", run.grid.n1_block,
                run.grid.n2_block, run.grid.n3_block, run.tuning.planes, run.tuning.prefetch);
}

} // namespace stencil
