// SPDX-License-Identifier: MIT OR Apache-2.0
//
// two-phase: write memory of another node, then read it and write one's own.
//
// Phase "initialise" only writes `node1_mem`; phase "combine" reads it and
// writes `node0_mem`. Seen from the memory controllers, the defect gives
// writes to the other node in the first phase, and in the second reads from
// the other node with writes to the own.
//
// No library binds the memory; its first toucher does. `node0_mem` is always
// first touched by the thread that uses it. The NUMA defect is in `node1_mem`
// (flag --placement): with `remote` the part of thread t is first touched by
// thread (t + T/2) mod T, which sits on the other of two nodes if threads are
// pinned compactly (OMP_PROC_BIND=close); with `local` by thread t itself.
//
// --workers half is the published form of it: only the first half of the team
// works, the threads of node 0; the other half does no more than touch what
// should be on node 1. --only names the phase that is the region of interest.

#include "../include/nearfar.h"
#include "common.hpp"

static float start_value(std::size_t i) { return static_cast<float>(i % 65536); } // exact in a float

// Each thread owns `each` elements, a whole number of pages.
static workload::Range part_of(int thread, std::size_t each)
{
    const std::size_t begin = static_cast<std::size_t>(thread) * each;
    return {begin, begin + each};
}

// The part of each of the `workers` in both arrays; thread t touches node1_mem for thread t - shift, so the
// part of u is touched by u + shift.
[[gnu::noinline]] static void first_touch(float *node1_mem, float *node0_mem, std::size_t each, int shift,
                                           int workers)
{
#pragma omp parallel
    {
        const int t = omp_get_thread_num(), team = omp_get_num_threads();
        const int user = (t - shift + team) % team;
        const workload::Range none = {0, 0};
        const auto other = user < workers ? part_of(user, each) : none, own = t < workers ? part_of(t, each) : none;
        for (std::size_t i = other.begin; i < other.end; ++i)
            node1_mem[i] = -1.0f;
        for (std::size_t i = own.begin; i < own.end; ++i)
            node0_mem[i] = -1.0f;
    }
}

[[gnu::noinline]] static void phase_initialise(float *node1_mem, std::size_t each, std::size_t iterations,
                                                int workers)
{
#pragma omp parallel num_threads(workers)
    {
        const auto own = part_of(omp_get_thread_num(), each);
        for (std::size_t step = 0; step < iterations; ++step) {
            const float add = static_cast<float>(step);
            for (std::size_t i = own.begin; i < own.end; ++i)
                node1_mem[i] = start_value(i) + add;
            workload::memory_is_observed();
        }
    }
}

[[gnu::noinline]] static void phase_combine(float *__restrict node0_mem, const float *__restrict node1_mem,
                                             std::size_t each, std::size_t iterations, int workers)
{
#pragma omp parallel num_threads(workers)
    {
        const auto own = part_of(omp_get_thread_num(), each);
        for (std::size_t step = 0; step < iterations; ++step) {
            const float add = static_cast<float>(step);
            for (std::size_t i = own.begin; i < own.end; ++i)
                node0_mem[i] = node1_mem[i] + add;
            workload::memory_is_observed();
        }
    }
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "two-phase",
                                  "[--placement remote|local] [--mb M] [--iterations K] [--threads T]\n"
                                  "                 [--workers all|half] [--only both|initialise|combine]\n"
                                  "M MiB per working thread in each of the two arrays.");
    const bool remote = arguments.choice("--placement", {"remote", "local"}) == "remote";
    const std::size_t megabytes = arguments.count("--mb", 64);
    const std::size_t iterations = arguments.count("--iterations", 20);
    const bool half = arguments.choice("--workers", {"all", "half"}) == "half";
    const std::string only = arguments.choice("--only", {"both", "initialise", "combine"});
    const int threads = arguments.threads();
    arguments.finish();
    if (half && threads % 2 != 0)
        arguments.fail("--workers half wants an even number of threads, not " + std::to_string(threads));
    const int workers = half ? threads / 2 : threads;
    if (remote && threads < 2)
        arguments.fail("--placement remote needs a second thread to place the memory; use --threads 2 or more");
    if (iterations > 65536)
        arguments.fail("--iterations above 65536 would round in the result and could not be checked");
    const std::size_t bytes =
        workload::product(arguments, {megabytes, std::size_t(1) << 20, static_cast<std::size_t>(workers)});
    const std::size_t elements = bytes / sizeof(float), each = elements / static_cast<std::size_t>(workers);

    float *node1_mem = static_cast<float *>(std::aligned_alloc(workload::PAGE, bytes));
    float *node0_mem = static_cast<float *>(std::aligned_alloc(workload::PAGE, bytes));
    for (const float *array : {node1_mem, node0_mem})
        workload::need_memory(array, bytes);
    std::printf("placement=%s threads=%d of which %d work, iterations=%zu, %zu MiB per thread and array\n",
                remote ? "remote" : "local", threads, workers, iterations, megabytes);
    first_touch(node1_mem, node0_mem, each, remote ? threads / 2 : 0, workers);

    const double start = workload::wall_seconds();
    if (only != "combine")
        nearfar_begin();
    nearfar_phase_begin("initialise");
    phase_initialise(node1_mem, each, iterations, workers);
    nearfar_phase_end("initialise");
    if (only == "initialise")
        nearfar_end();
    else if (only == "combine")
        nearfar_begin();
    const double middle = workload::wall_seconds();
    nearfar_phase_begin("combine");
    phase_combine(node0_mem, node1_mem, each, iterations, workers);
    nearfar_phase_end("combine");
    if (only != "initialise")
        nearfar_end();
    const double end = workload::wall_seconds();

    const double swept = 1e-9 * static_cast<double>(bytes) * static_cast<double>(iterations);
    std::printf("initialise: %.4f s, %.2f GB/s written\n", middle - start, swept / (middle - start));
    std::printf("combine: %.4f s, %.2f GB/s read and as much written\n", end - middle, swept / (end - middle));

    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i) {
        const float last = static_cast<float>(iterations - 1);
        wrong += node1_mem[i] != start_value(i) + last || node0_mem[i] != start_value(i) + last + last;
    }
    std::printf("verify: %zu of %zu elements wrong: %s\n", wrong, elements, wrong ? "WRONG" : "ok");
    std::free(node1_mem);
    std::free(node0_mem);
    return wrong ? workload::RESULT_WRONG : 0;
}
