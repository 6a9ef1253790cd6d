// SPDX-License-Identifier: MIT OR Apache-2.0
//
// stream-kernels: the four loops of STREAM, one per run.
//
//   copy   c[i] = a[i]            16 bytes per element
//   scale  b[i] = s * c[i]        16
//   add    c[i] = a[i] + b[i]     24
//   triad  a[i] = b[i] + s * c[i] 24
//
// These bytes are what STREAM counts and what moves if the result is written
// with non-temporal stores, as compilers for that benchmark do. Regular stores
// (--regular) fetch each line of it first: 8 bytes more.
//
// Nothing is wrong here: each thread first touches what it later uses. With
// --init serial one thread places all pages.

#include "../include/nearfar.h"
#include "common.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum class Kernel { copy, scale, add, triad };

constexpr double SCALE = 3.0;
constexpr std::size_t GRANULE = workload::PAGE / sizeof(double);

// Whole numbers, so that results are exact.
static double first_value(std::size_t i) { return static_cast<double>(i % 1021); }
static double second_value(std::size_t i) { return static_cast<double>(i % 509); }

static void write_range(double *to, double *first, double *second, workload::Range range)
{
    for (std::size_t i = range.begin; i < range.end; ++i) {
        to[i] = -1.0;
        first[i] = first_value(i);
        second[i] = second_value(i);
    }
}

template <Kernel kernel> static double result(double first, double second)
{
    switch (kernel) {
    case Kernel::copy: return first;
    case Kernel::scale: return SCALE * first;
    case Kernel::add: return first + second;
    case Kernel::triad: return first + SCALE * second;
    }
}

template <Kernel kernel>
[[gnu::noinline]] static void run(double *__restrict to, const double *__restrict first,
                                  const double *__restrict second, std::size_t elements, bool regular)
{
    constexpr bool two = kernel == Kernel::add || kernel == Kernel::triad;
#pragma omp parallel
    {
        const auto range = workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE);
        std::size_t i = range.begin;
#if defined(__x86_64__)
        for (; !regular && i + 2 <= range.end; i += 2) {
            const __m128d a = _mm_load_pd(first + i);
            const __m128d b = two ? _mm_load_pd(second + i) : a;
            const __m128d scale = _mm_set1_pd(SCALE);
            const __m128d value = kernel == Kernel::copy    ? a
                                  : kernel == Kernel::scale ? _mm_mul_pd(scale, a)
                                  : kernel == Kernel::add   ? _mm_add_pd(a, b)
                                                            : _mm_add_pd(a, _mm_mul_pd(scale, b));
            _mm_stream_pd(to + i, value);
        }
        _mm_sfence();
#endif
        for (; i < range.end; ++i) {
            to[i] = result<kernel>(first[i], two ? second[i] : 0.0);
            // Without this the copy would become a call of memcpy, which chooses its own stores.
            asm volatile("" ::: "memory");
        }
    }
}

template <Kernel kernel>
static std::size_t timed(double *to, double *first, double *second, std::size_t elements, std::size_t iterations,
                         bool regular)
{
    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        run<kernel>(to, first, second, elements, regular);
    nearfar_end();
    const double seconds = workload::wall_seconds() - start;
    const double bytes = kernel == Kernel::add || kernel == Kernel::triad ? 24 : 16;
    std::printf("rate: %.1f MB/s (%g bytes per element)\n",
                1e-6 * bytes * static_cast<double>(elements) * static_cast<double>(iterations) / seconds, bytes);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i)
        wrong += to[i] != result<kernel>(first_value(i), second_value(i));
    return wrong;
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "stream-kernels",
                                  "[--kernel triad|copy|scale|add] [--elements N] [--iterations K] [--threads T]\n"
                                  "                      [--init parallel|serial] [--regular]\n"
                                  "--regular: ordinary stores instead of non-temporal ones (x86-64).");
    const std::string kernel = arguments.choice("--kernel", {"triad", "copy", "scale", "add"});
    const std::size_t elements = arguments.count("--elements", std::size_t(1) << 24);
    const std::size_t iterations = arguments.count("--iterations", 10);
    const bool serial = arguments.choice("--init", {"parallel", "serial"}) == "serial";
    const bool regular = arguments.given("--regular");
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(double), elements}));

    double *to = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    double *first = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    double *second = static_cast<double *>(std::aligned_alloc(workload::PAGE, bytes));
    for (const double *array : {to, first, second})
        workload::need_memory(array, bytes);
    std::printf("kernel=%s elements=%zu iterations=%zu threads=%d init=%s stores=%s\n", kernel.c_str(), elements,
                iterations, threads, serial ? "serial" : "parallel", regular ? "regular" : "non-temporal");
    if (serial) {
        write_range(to, first, second, {0, elements});
    } else {
#pragma omp parallel
        write_range(to, first, second,
                    workload::share_of(elements, omp_get_thread_num(), omp_get_num_threads(), GRANULE));
    }
    const auto of = [&](auto which) { return which(to, first, second, elements, iterations, regular); };
    const std::size_t wrong = kernel == "copy"    ? of(timed<Kernel::copy>)
                              : kernel == "scale" ? of(timed<Kernel::scale>)
                              : kernel == "add"   ? of(timed<Kernel::add>)
                                                  : of(timed<Kernel::triad>);
    std::free(to);
    std::free(first);
    std::free(second);
    return workload::verdict(wrong, elements, "elements");
}
