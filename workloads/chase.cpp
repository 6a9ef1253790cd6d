// SPDX-License-Identifier: MIT OR Apache-2.0
//
// chase: follow pointers through memory in random order.
//
// Each thread has a region of its own, cut into cache lines; each line holds
// the address of the next line to visit. The order is one random cycle over
// the whole region (Sattolo's algorithm), so no prefetcher can guess it and
// each step waits for the one before: the time per step is the latency of the
// memory, and, if the region exceeds the reach of the TLB, of the page walk.
//
// The NUMA defect is the initialisation (flag --init): with `serial` one
// thread builds all regions, so all are on its node; with `parallel` each
// thread builds its own.

#include "../include/nearfar.h"
#include "common.hpp"

#include <algorithm>

using workload::Link;

[[gnu::noinline]] static void initialize_serial(Link *chain, std::size_t lines, int threads)
{
    for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t)
        workload::make_cycle(chain + t * lines, lines);
}

[[gnu::noinline]] static void initialize_parallel(Link *chain, std::size_t lines)
{
#pragma omp parallel
    workload::make_cycle(chain + static_cast<std::size_t>(omp_get_thread_num()) * lines, lines);
}

[[gnu::noinline]] static const Link *walk(const Link *at, std::uint64_t steps)
{
    for (; steps >= 8; steps -= 8)
        at = at->next->next->next->next->next->next->next->next;
    for (; steps > 0; --steps)
        at = at->next;
    return at;
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "chase",
                                  "[--bytes N] [--steps K] [--threads T] [--init serial|parallel]\n"
                                  "N bytes and K steps are for each thread; N is rounded up to whole pages.");
    const std::size_t region = workload::whole_pages(arguments.count("--bytes", std::size_t(64) << 20));
    const std::uint64_t steps = arguments.count("--steps", 10'000'000);
    const std::string init = arguments.choice("--init", {"serial", "parallel"});
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t bytes = workload::product(arguments, {region, static_cast<std::size_t>(threads)});
    const std::size_t lines = region / sizeof(Link);

    Link *chain = static_cast<Link *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(chain, bytes);
    std::printf("bytes=%zu per thread, steps=%llu per thread, threads=%d init=%s\n", region,
                static_cast<unsigned long long>(steps), threads, init.c_str());

    if (init == "serial")
        initialize_serial(chain, lines, threads);
    else
        initialize_parallel(chain, lines);

    std::vector<const Link *> reached(static_cast<std::size_t>(threads));
    std::vector<double> seconds(reached.size());
    nearfar_begin();
#pragma omp parallel
    {
        const std::size_t t = static_cast<std::size_t>(omp_get_thread_num());
        const double start = workload::wall_seconds();
        reached[t] = walk(chain + t * lines, steps);
        seconds[t] = workload::wall_seconds() - start;
    }
    nearfar_end();

    double sum = 0;
    for (double each : seconds)
        sum += each;
    const auto per_step = [&](double time) { return 1e9 * time / static_cast<double>(steps); };
    std::printf("latency: %.2f ns per step (mean over threads; fastest %.2f, slowest %.2f)\n", per_step(sum / threads),
                per_step(*std::min_element(seconds.begin(), seconds.end())),
                per_step(*std::max_element(seconds.begin(), seconds.end())));

    int wrong = 0;
    for (std::size_t t = 0; t < reached.size(); ++t)
        wrong += !workload::cycle_leads_to(chain + t * lines, lines, steps, reached[t]);
    std::printf("verify: %d of %d threads ended at a wrong place: %s\n", wrong, threads, wrong ? "WRONG" : "ok");
    std::free(chain);
    return wrong ? workload::RESULT_WRONG : 0;
}
