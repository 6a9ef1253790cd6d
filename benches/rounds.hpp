// SPDX-License-Identifier: MIT OR Apache-2.0
//
// How all benchmarks here measure: in rounds. Each round runs every contestant
// once, every other round in reverse order, so that a host that slows down hits
// all alike; ratios are taken within a round, and printed as their median with
// the least and the greatest. A number from another run is not a partner for a ratio.
//
// Time is the cpu time of all threads, divided by their number: on a shared host
// a thread that waits for a cpu is not slow. It leaves out what threads wait for
// each other only if they sleep meanwhile; benches/run sees to that. Where the
// host gives the threads their cpus one after the other, each has the memory to
// itself while it runs, and bandwidths come out too high: run_rounds tells.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace bench {

inline double seconds_of(clockid_t clock)
{
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Contestant {
    std::string name;
    std::function<void()> run;
    double work; // in units of the caller's choice, per run
    std::vector<double> rates;
};

inline double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

struct Spread {
    double middle, least, most;
};
inline Spread spread(const std::vector<double> &values)
{
    return {median(values), *std::min_element(values.begin(), values.end()),
            *std::max_element(values.begin(), values.end())};
}
inline std::vector<double> ratios(const std::vector<double> &a, const std::vector<double> &b)
{
    std::vector<double> all(a.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        all[i] = a[i] / b[i];
    return all;
}

// The share of the wall clock that the threads had a cpu; below 1 the host was busy.
inline double run_rounds(std::vector<Contestant> &contestants, int rounds, int threads)
{
    double cpu = 0, wall = 0;
    for (Contestant &c : contestants) // pages, caches, branch predictors
        c.run();
    for (int round = 0; round < rounds; ++round)
        for (std::size_t k = 0; k < contestants.size(); ++k) {
            Contestant &c = contestants[round % 2 == 0 ? k : contestants.size() - 1 - k];
            const double start = seconds_of(CLOCK_PROCESS_CPUTIME_ID), clock = seconds_of(CLOCK_MONOTONIC);
            c.run();
            const double spent = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - start) / threads;
            cpu += spent;
            wall += seconds_of(CLOCK_MONOTONIC) - clock;
            c.rates.push_back(c.work / spent);
        }
    return cpu / wall;
}

} // namespace bench
