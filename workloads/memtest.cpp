// SPDX-License-Identifier: MIT OR Apache-2.0
//
// memtest: memory allocated on each cpu in turn, and copied within by each cpu: a table of near and far.
//
// The test of TAU's "Opteron NUMA Analysis" with its phases and timers: "Memory allocated on CPU i" has a
// "Test on CPU j" for each cpu j. Which cpus of the table are slow says which share a node. Regular stores move
// three lines for each line copied.
//
// There is nothing to repair: the program measures. --own tests each memory only on the cpu that placed it.

#include "../include/nearfar.hpp"
#include "common.hpp"

#include <sched.h>
#include <string>

static void move_to(const workload::Arguments &arguments, std::size_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (cpu >= CPU_SETSIZE || sched_setaffinity(0, sizeof set, &set) != 0)
        arguments.fail("may not run on cpu " + std::to_string(cpu) + "; `nproc` and `taskset -p $$` say where it may");
}

static std::uint64_t value(std::size_t i) { return workload::scramble(i); }

// Eight words are a line. The barrier keeps the compiler from making a call of memcpy out of the loop, which would
// choose its own stores.
[[gnu::noinline]] static void memtest(std::uint64_t *__restrict to, const std::uint64_t *__restrict from,
                                      std::size_t words)
{
    for (std::size_t i = 0; i < words; i += 8) {
        for (std::size_t j = i; j < i + 8; ++j)
            to[j] = from[j];
        asm volatile("" : "+r"(to), "+r"(from));
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "memtest",
                                  "[--mb M] [--iterations K] [--cpus N] [--own]\n"
                                  "Allocates 2 M MiB on each of the cpus 0 to N-1 and copies half of it K times on each.");
    const std::size_t megabytes = arguments.count("--mb", 16);
    const std::size_t iterations = arguments.count("--iterations", 2);
    const std::size_t cpus = arguments.count("--cpus", 1);
    const bool own = arguments.given("--own");
    arguments.finish();
    const std::size_t bytes = workload::product(arguments, {2, megabytes, std::size_t(1) << 20});
    const std::size_t words = bytes / sizeof(std::uint64_t);
    std::size_t wrong = 0, tests = 0;

    const nearfar::phase all("main()");
    for (std::size_t memory = 0; memory < cpus; ++memory) {
        const nearfar::phase allocated("Memory allocated on CPU " + std::to_string(memory));
        move_to(arguments, memory);
        std::uint64_t *block = static_cast<std::uint64_t *>(std::aligned_alloc(workload::PAGE, bytes));
        workload::need_memory(block, bytes);
        for (std::size_t i = 0; i < words; ++i)
            block[i] = i < words / 2 ? 0 : value(i);
        std::printf("\nMemory allocated on cpu %zu\n", memory);
        for (std::size_t cpu = own ? memory : 0; cpu < (own ? memory + 1 : cpus); ++cpu) {
            move_to(arguments, cpu);
            const double start = workload::wall_seconds();
            {
                const nearfar::phase test("Test on CPU " + std::to_string(cpu));
                for (std::size_t k = 0; k < iterations; ++k) {
                    memtest(block, block + words / 2, words / 2);
                    workload::memory_is_observed();
                }
            }
            std::printf("%zu: time = %.4f seconds\n", cpu, workload::wall_seconds() - start);
            nearfar_metric("MiB copied", double(megabytes * iterations));
            ++tests;
            for (std::size_t i = 0; i < words / 2; i += 4096)
                wrong += block[i] != value(i + words / 2);
        }
        std::free(block);
    }
    return workload::verdict(wrong, tests * (words / 2 / 4096), "words");
}
