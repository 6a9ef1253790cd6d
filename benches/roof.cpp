// SPDX-License-Identifier: MIT OR Apache-2.0

#include "roof.hpp"

namespace roof {

using index = std::ptrdiff_t;
constexpr float S = 0.25f; // keeps all values bounded, however often the kernels run
// Half a page ahead, chosen: beyond what hardware prefetchers fetch by themselves. In floats.
constexpr index AHEAD = 512, LINE = 16;

#define FOR_EACH(x, i) for (index i = 0; i < (x).count; ++i)

void first_touch(const Arrays &x)
{
    float *__restrict const a = x.a, *__restrict const b = x.b, *__restrict const c = x.c;
#pragma omp parallel for simd schedule(static)
    FOR_EACH(x, i) a[i] = 1, b[i] = 0.5f, c[i] = 0.25f;
}
void update(const Arrays &x)
{
    float *__restrict const b = x.b;
    const float *__restrict const a = x.a, *__restrict const c = x.c;
#pragma omp parallel for simd schedule(static)
    FOR_EACH(x, i) b[i] = 2 * a[i] - b[i] + S * c[i];
}
void update_prefetched(const Arrays &x)
{
    float *__restrict const b = x.b;
    const float *__restrict const a = x.a, *__restrict const c = x.c;
#pragma omp parallel for schedule(static)
    for (index line = 0; line < x.count; line += LINE) {
        __builtin_prefetch(a + line + AHEAD);
        __builtin_prefetch(b + line + AHEAD, 1);
        __builtin_prefetch(c + line + AHEAD);
        const index end = line + LINE < x.count ? line + LINE : x.count;
#pragma omp simd
        for (index i = line; i < end; ++i)
            b[i] = 2 * a[i] - b[i] + S * c[i];
    }
}
void copy(const Arrays &x)
{
    float *__restrict const c = x.c;
    const float *__restrict const a = x.a;
#pragma omp parallel for simd schedule(static)
    FOR_EACH(x, i) c[i] = a[i];
}
void scale(const Arrays &x)
{
    float *__restrict const b = x.b;
    const float *__restrict const c = x.c;
#pragma omp parallel for simd schedule(static)
    FOR_EACH(x, i) b[i] = S * c[i];
}
void add(const Arrays &x)
{
    float *__restrict const c = x.c;
    const float *__restrict const a = x.a, *__restrict const b = x.b;
#pragma omp parallel for simd schedule(static)
    FOR_EACH(x, i) c[i] = a[i] + b[i];
}
void triad(const Arrays &x)
{
    float *__restrict const a = x.a;
    const float *__restrict const b = x.b, *__restrict const c = x.c;
#pragma omp parallel for simd schedule(static)
    FOR_EACH(x, i) a[i] = b[i] + S * c[i];
}

} // namespace roof
