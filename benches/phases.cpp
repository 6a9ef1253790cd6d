// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What a phase costs: a beginning and an end, in nanoseconds of cpu time, without the agent and with it (benches/run
// does both). Rounds in turn; the median with the least and the most.
#include "../include/nearfar.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

static double cpu_ns()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * double(t.tv_sec) + double(t.tv_nsec);
}

template <class Call> static std::array<double, 3> measure(long calls, Call &&call)
{
    std::vector<double> rounds;
    for (int round = 0; round < 15; ++round) {
        const double start = cpu_ns();
        for (long i = 0; i < calls; ++i)
            call(i);
        rounds.push_back((cpu_ns() - start) / double(calls));
    }
    std::sort(rounds.begin(), rounds.end());
    return {rounds[7], rounds.front(), rounds.back()};
}

static void print(const char *what, const std::array<double, 3> &ns)
{
    std::printf("%-58s %7.2f ns (%.2f-%.2f)\n", what, ns[0], ns[1], ns[2]);
}

// Functions of their own: in a loop the compiler asks once for all calls whether there is an agent.
[[gnu::noinline]] static void pair(const char *name)
{
    nearfar_phase_begin(name);
    nearfar_phase_end(name);
}

[[gnu::noinline]] static void value(double v) { nearfar_metric("value", v); }

[[gnu::noinline]] static void nothing(const char *name) { asm volatile("" ::"r"(name)); }

int main()
{
    const std::array<std::string, 4> names = {"Test on CPU 0", "Test on CPU 1", "Test on CPU 2", "Test on CPU 3"};
    const nearfar::phase all("main");
    print("a call of nothing", measure(1000000, [](long) { nothing("recorded"); }));
    // Few enough to be recorded one by one: 4096 a second and path.
    print("begin + end, each recorded", measure(250, [](long) {
              pair("recorded");
          }));
    print("begin + end, counted", measure(200000, [](long) {
              pair("counted");
          }));
    print("begin + end, counted, four names made at run time", measure(200000, [&](long i) {
              pair(names[std::size_t(i % 4)].c_str());
          }));
    print("nearfar_metric, counted", measure(200000, [](long i) { value(double(i)); }));
    std::array<std::array<double, 3>, 2> both;
    std::vector<std::thread> threads;
    for (auto &one : both)
        threads.emplace_back([&one] {
            one = measure(200000, [](long) {
                pair("counted in two threads");
            });
        });
    for (auto &thread : threads)
        thread.join();
    print("begin + end, counted, two threads at once", both[0]);
    return 0;
}
