// SPDX-License-Identifier: MIT OR Apache-2.0
//
// far-node: hot data on a node that has memory but no cpu.
//
// Such nodes are CXL memory, HBM, or the memory of a GPU: large or special, and
// far from every core. The array is bound to one (flag --node; otherwise the
// highest-numbered node without cpus that this process may use, or where there
// is none the highest-numbered node). All traffic is remote from every cpu, on
// any number of nodes. --repaired binds nothing: each thread's part is on its
// own node, and nothing is remote.

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "../include/nearfar.h"
#include "common.hpp"

constexpr std::size_t GRANULE = workload::PAGE / sizeof(double); // threads share no page
constexpr std::size_t MOST_NODES = 1024;                         // that Linux can be built for
constexpr std::size_t NOT_GIVEN = SIZE_MAX;
constexpr std::size_t WORD = 8 * sizeof(unsigned long);

struct Nodes {
    unsigned long bits[MOST_NODES / WORD] = {};
    bool has(std::size_t node) const { return (bits[node / WORD] >> (node % WORD) & 1) != 0; }
};

static bool has_cpus(std::size_t node)
{
    const std::string path = "/sys/devices/system/node/node" + std::to_string(node) + "/cpulist";
    std::FILE *file = std::fopen(path.c_str(), "r");
    if (file == nullptr)
        return true; // unknown: do not take it for a node without
    const int first = std::fgetc(file);
    std::fclose(file);
    return first != '\n' && first != EOF;
}

static std::size_t choose_node()
{
    Nodes allowed;
    if (syscall(SYS_get_mempolicy, nullptr, allowed.bits, MOST_NODES, nullptr, MPOL_F_MEMS_ALLOWED) != 0)
        return 0;
    for (const bool without_cpus : {true, false})
        for (std::size_t node = MOST_NODES; node-- > 0;)
            if (allowed.has(node) && (!without_cpus || !has_cpus(node)))
                return node;
    return 0;
}

static void bind_to(double *array, std::size_t bytes, std::size_t node)
{
    Nodes only;
    only.bits[node / WORD] = 1ul << (node % WORD);
    if (syscall(SYS_mbind, array, bytes, MPOL_BIND, only.bits, MOST_NODES, 0) != 0) {
        std::fprintf(stderr,
                     "far-node: cannot bind %zu bytes to node %zu: mbind: %s\n"
                     "far-node: --node must be a node with memory that this process may use (`numactl -H`), and a\n"
                     "          container must permit mbind; --repaired needs neither\n",
                     bytes, node, std::strerror(errno));
        std::exit(workload::NO_MEMORY);
    }
}

static double start_value(std::size_t i) { return static_cast<double>(i % 1021); }

[[gnu::noinline]] static void initialize_parallel(double *array, std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE);
        for (std::size_t i = range.begin; i < range.end; ++i)
            array[i] = start_value(i);
    }
}

[[gnu::noinline]] static void update_array(double *array, std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE);
        for (std::size_t i = range.begin; i < range.end; ++i)
            array[i] += 1.0;
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "far-node",
                                  "[--node N] [--repaired] [--elements E] [--iterations K] [--threads T]");
    const bool repaired = arguments.given("--repaired");
    const std::size_t node = arguments.count("--node", NOT_GIVEN, 0);
    const std::size_t elements = arguments.count("--elements", std::size_t(1) << 22);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const int threads = arguments.threads();
    arguments.finish();
    if (repaired && node != NOT_GIVEN)
        arguments.fail("--repaired binds nothing; leave out --node");
    if (node >= MOST_NODES && node != NOT_GIVEN)
        arguments.fail("--node " + std::to_string(node) + " is more than any machine has");
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(double), elements}));

    double *array = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(array, bytes);
    const std::size_t chosen = repaired || node != NOT_GIVEN ? node : choose_node();
    std::printf("elements=%zu iterations=%zu threads=%d node=%s\n", elements, iterations, threads,
                repaired ? "each thread's own" : std::to_string(chosen).c_str());
    if (!repaired)
        bind_to(array, bytes, chosen);
    initialize_parallel(array, elements);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        update_array(array, elements);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i)
        wrong += array[i] != start_value(i) + static_cast<double>(iterations);
    std::free(array);
    return workload::verdict(wrong, elements, "elements");
}
