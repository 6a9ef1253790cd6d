// SPDX-License-Identifier: MIT OR Apache-2.0
//
// triad: a[i] = b[i] + s * c[i] over three long arrays of doubles.
//
// The simplest program whose traffic is known by arithmetic: each element reads
// 16 bytes and writes 8, that is 24. A regular store to a line that is not in
// cache fetches the line first (write-allocate), which makes 32; a non-temporal
// store (--nt) does not.
//
// The NUMA defect is the initialisation (flag --init): `serial` places all
// pages on the node of one thread, `parallel` lets each thread write the part
// that it will later compute.

#include "../include/nearfar.h"
#include "common.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

constexpr double SCALE = 3.0;
// Threads share no page of the arrays (and, a fortiori, no cache line, which
// also keeps the non-temporal stores aligned).
constexpr std::size_t GRANULE = workload::PAGE / sizeof(double);

// Small whole numbers, so that the result is exact.
static double b_value(std::size_t i) { return static_cast<double>(i % 1021); }
static double c_value(std::size_t i) { return static_cast<double>(i % 509); }

static void write_range(double *a, double *b, double *c, workload::Range range)
{
    for (std::size_t i = range.begin; i < range.end; ++i) {
        a[i] = -1.0;
        b[i] = b_value(i);
        c[i] = c_value(i);
    }
}

[[gnu::noinline]] static void initialize_serial(double *a, double *b, double *c, std::size_t elements)
{
    write_range(a, b, c, {0, elements});
}

[[gnu::noinline]] static void initialize_parallel(double *a, double *b, double *c, std::size_t elements)
{
#pragma omp parallel
    write_range(a, b, c, workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE));
}

[[gnu::noinline]] static void triad(double *__restrict a, const double *__restrict b, const double *__restrict c,
                                     std::size_t elements)
{
#pragma omp parallel
    {
        const auto range = workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE);
        for (std::size_t i = range.begin; i < range.end; ++i)
            a[i] = b[i] + SCALE * c[i];
    }
}

[[gnu::noinline]] static void triad_nontemporal(double *__restrict a, const double *__restrict b,
                                                 const double *__restrict c, std::size_t elements)
{
#if defined(__x86_64__)
#pragma omp parallel
    {
        const auto range = workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE);
        const __m128d scale = _mm_set1_pd(SCALE);
        std::size_t i = range.begin;
        for (; i + 2 <= range.end; i += 2)
            _mm_stream_pd(a + i, _mm_add_pd(_mm_load_pd(b + i), _mm_mul_pd(scale, _mm_load_pd(c + i))));
        for (; i < range.end; ++i)
            a[i] = b[i] + SCALE * c[i];
        _mm_sfence();
    }
#else
    (void)a, (void)b, (void)c, (void)elements;
#endif
}

// Reference cycles: the time stamp counter ticks at a constant rate, whatever
// the clock of the core does. Unknown (0) on other machines.
static std::uint64_t reference_cycles()
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "triad",
                                  "[--elements N] [--iterations K] [--threads T] [--init serial|parallel] [--nt]\n"
                                  "--nt writes `a` with non-temporal stores (x86-64 only).");
    const std::size_t elements = arguments.count("--elements", std::size_t(1) << 24);
    const std::size_t iterations = arguments.count("--iterations", 20);
    const std::string init = arguments.choice("--init", {"serial", "parallel"});
    const bool nontemporal = arguments.given("--nt");
    const int threads = arguments.threads();
    arguments.finish();
#if !defined(__x86_64__)
    if (nontemporal)
        arguments.fail("--nt is written for x86-64 only; leave it out here");
#endif
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(double), elements}));

    double *a = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    double *b = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    double *c = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    for (const double *array : {a, b, c})
        workload::need_memory(array, bytes);
    std::printf("elements=%zu iterations=%zu threads=%d init=%s stores=%s allocated=%.1f MB\n", elements, iterations,
                threads, init.c_str(), nontemporal ? "non-temporal" : "regular", 3e-6 * static_cast<double>(bytes));

    if (init == "serial")
        initialize_serial(a, b, c, elements);
    else
        initialize_parallel(a, b, c, elements);

    const double start = workload::wall_seconds();
    const std::uint64_t first_cycle = reference_cycles();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k) {
        if (nontemporal)
            triad_nontemporal(a, b, c, elements);
        else
            triad(a, b, c, elements);
    }
    nearfar_end();
    const double cycles = static_cast<double>(reference_cycles() - first_cycle);
    const double seconds = workload::wall_seconds() - start;

    const double updates = static_cast<double>(elements) * static_cast<double>(iterations);
    std::printf("time: %.4f s\n", seconds);
    std::printf("bandwidth: %.2f GB/s (24 bytes per element)\n", 24e-9 * updates / seconds);
    if (!nontemporal)
        std::printf("bandwidth with write-allocate: %.2f GB/s (32 bytes per element)\n", 32e-9 * updates / seconds);
    if (cycles > 0)
        std::printf("bytes per cycle: %.3f (24 bytes per element, reference cycles of %.3f GHz as measured)\n",
                    24 * updates / cycles, 1e-9 * cycles / seconds);
    else
        std::printf("bytes per cycle: unknown (no time stamp counter)\n");

    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i)
        wrong += a[i] != b_value(i) + SCALE * c_value(i);
    std::printf("verify: %zu of %zu elements wrong: %s\n", wrong, elements, wrong ? "WRONG" : "ok");
    std::free(a);
    std::free(b);
    std::free(c);
    return wrong ? workload::RESULT_WRONG : 0;
}
