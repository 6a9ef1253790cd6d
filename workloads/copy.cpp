// SPDX-License-Identifier: MIT OR Apache-2.0
//
// copy: one thread copies the first half of a block over and over from the
// second, from each cpu in turn, while the memory stays where one cpu placed it.
//
// The test of TAU's "Opteron NUMA Analysis" (40 copies of 256 MiB): time and
// lines by the cpu that copies. With regular stores three lines move for each
// line copied: it is read, its target is read before it is written
// (write-allocate), and the target is written back. Non-temporal stores (--nt),
// as today's memcpy uses for large blocks, leave out the second.
//
// The defect is the cpu that places the memory (--memory-cpu): for cpus of other
// nodes all of it is remote. --repaired lets each cpu place its own.

#include "../include/nearfar.h"
#include "common.hpp"

#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void move_to(const workload::Arguments &arguments, std::size_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (cpu >= CPU_SETSIZE || sched_setaffinity(0, sizeof set, &set) != 0)
        arguments.fail("may not run on cpu " + std::to_string(cpu) + "; `nproc` and `taskset -p $$` say where it may");
}

static std::uint64_t value(std::size_t i) { return workload::scramble(i); }

[[gnu::noinline]] static void place(std::uint64_t *block, std::size_t words)
{
    for (std::size_t i = 0; i < words; ++i)
        block[i] = i < words / 2 ? 0 : value(i);
}

// Eight words are a line. The barrier keeps the compiler from making a call of memcpy out of the loop, which would
// choose its own stores.
[[gnu::noinline]] static void copy_regular(std::uint64_t *__restrict to, const std::uint64_t *__restrict from,
                                           std::size_t words)
{
    for (std::size_t i = 0; i < words; i += 8) {
        for (std::size_t j = i; j < i + 8; ++j)
            to[j] = from[j];
        asm volatile("" : "+r"(to), "+r"(from));
    }
}

[[gnu::noinline]] static void copy_nontemporal(std::uint64_t *__restrict to, const std::uint64_t *__restrict from,
                                               std::size_t words)
{
#if defined(__x86_64__)
    for (std::size_t i = 0; i < words; i += 2)
        _mm_stream_si128(reinterpret_cast<__m128i *>(to + i),
                         _mm_load_si128(reinterpret_cast<const __m128i *>(from + i)));
    _mm_sfence();
#else
    (void)to, (void)from, (void)words;
#endif
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "copy",
                                  "[--mb M] [--iterations K] [--cpus N] [--memory-cpu C] [--repaired] [--nt]\n"
                                  "Copies M MiB K times on each of the cpus 0 to N-1, of memory placed by cpu C.");
    const std::size_t megabytes = arguments.count("--mb", 16);
    const std::size_t iterations = arguments.count("--iterations", 2);
    const std::size_t cpus = arguments.count("--cpus", 1);
    const std::size_t memory_cpu = arguments.count("--memory-cpu", 0, 0);
    const bool repaired = arguments.given("--repaired");
    const bool nontemporal = arguments.given("--nt");
    arguments.finish();
#if !defined(__x86_64__)
    if (nontemporal)
        arguments.fail("--nt is written for x86-64 only; leave it out here");
#endif
    const std::size_t bytes = workload::product(arguments, {2, megabytes, std::size_t(1) << 20});
    const std::size_t words = bytes / sizeof(std::uint64_t);
    std::size_t wrong = 0;
    std::uint64_t *block = nullptr;
    std::printf("%zu MiB, %zu copies on each of %zu cpus, stores %s\n", megabytes, iterations, cpus,
                nontemporal ? "non-temporal" : "regular");
    for (std::size_t cpu = 0; cpu < cpus; ++cpu) {
        if (block == nullptr || repaired) {
            std::free(block);
            block = static_cast<std::uint64_t *>(std::aligned_alloc(workload::PAGE, bytes));
            workload::need_memory(block, bytes);
            move_to(arguments, repaired ? cpu : memory_cpu);
            place(block, words);
        }
        move_to(arguments, cpu);
        const double start = workload::wall_seconds();
        nearfar_begin();
        for (std::size_t k = 0; k < iterations; ++k) {
            if (nontemporal)
                copy_nontemporal(block, block + words / 2, words / 2);
            else
                copy_regular(block, block + words / 2, words / 2);
            workload::memory_is_observed();
        }
        nearfar_end();
        std::printf("%zu: time = %.4f seconds\n", cpu, workload::wall_seconds() - start);
        for (std::size_t i = 0; i < words / 2; ++i)
            wrong += block[i] != value(i + words / 2);
    }
    std::free(block);
    return workload::verdict(wrong, cpus * (words / 2), "words");
}
