// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The kernel of the fast stencil, for vectors of LANES floats. Included by one
// file per instruction set, which defines LANES and is compiled for it.
//
// Per row of a panel, two passes that meet in a buffer in the first-level cache:
//   z    R planes at once. Each of the R + 16 values of a column is loaded once
//        and added, with its weight, to all of the R sums that want it: R
//        registers of sums, (R + 16) / R loads per result instead of 17.
//   x, y one plane after the other. Neighbours in y are rows at constant
//        distance; those in x are shuffled from registers that move along the
//        row, because a load that crosses a cache line costs two.
// One pass for all three would save the buffer's store and load, but the chains
// of dependent additions then exceed what the core can keep in flight, and GCC
// runs out of registers: it was 8 to 14 % slower on a large grid (Zen 3, GCC 12).
//
// All of this has internal linkage and calls nothing inline of the standard
// library: the linker keeps one copy of an inline function, and that of a file
// compiled for AVX-512 must not end up in the portable path.

#include "kernels.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace stencil {
namespace {

#define NEARFAR_INLINE [[gnu::always_inline]] inline

// may_alias, because arrays of floats are read through it.
typedef float Vector __attribute__((vector_size(4 * LANES), may_alias));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// The weights of iso3dfd.cpp: of the second derivative's central difference,
// the middle one for three axes.
constexpr float WEIGHT[HALO + 1] = {3 * -3.0548446f, 1.7777778f,     -0.31111111f,  0.075420875f, -0.017676768f,
                                    3.4809635e-3f,   -5.1800052e-4f, 5.0742907e-5f, -2.4281274e-6f};

NEARFAR_INLINE Vector load(const float *at) { return *reinterpret_cast<const Vector *>(at); }
NEARFAR_INLINE void store(float *at, Vector value) { *reinterpret_cast<Vector *>(at) = value; }

// Loops whose counter is a constant in the body; neither compiler can be asked
// in one way for a full unrolling that it will not refuse.
template <int I>
struct Constant {
    static constexpr int value = I;
};
template <int FROM, int TO, typename Body>
NEARFAR_INLINE void repeat(Body &&body)
{
    if constexpr (FROM < TO) {
        body(Constant<FROM>{});
        repeat<FROM + 1, TO>(body);
    }
}
#define NEARFAR_BODY __attribute__((always_inline))

template <int... I>
struct Lanes {};
template <int N, int... I>
struct LanesTo : LanesTo<N - 1, N - 1, I...> {};
template <int... I>
struct LanesTo<0, I...> {
    using type = Lanes<I...>;
};

// LANES floats from the SHIFTth on of `low` followed by `high`.
template <int SHIFT, int... I>
NEARFAR_INLINE Vector join(Vector low, Vector high, Lanes<I...>)
{
#if defined(__clang__)
    return __builtin_shufflevector(low, high, (I + SHIFT)...);
#else
    typedef int Mask __attribute__((vector_size(4 * LANES)));
    return __builtin_shuffle(low, high, Mask{(I + SHIFT)...});
#endif
}

#if LANES == 8
// AVX2 shifts within halves of 16 bytes. Both halves of the result are cut from
// neighbouring quarters, which are in the same half of two registers once there
// is one with the middle quarters. Written out, or else GCC takes four steps.
template <int SHIFT>
NEARFAR_INLINE Vector in_halves(Vector low, Vector high)
{
    constexpr int A = SHIFT, B = SHIFT < 3 ? SHIFT + 1 : SHIFT + 5, C = SHIFT < 2 ? SHIFT + 2 : SHIFT + 6,
                  D = SHIFT + 7;
#if defined(__clang__)
    return __builtin_shufflevector(low, high, A, B, C, D, A + 4, B + 4, C + 4, D + 4);
#else
    typedef int Mask __attribute__((vector_size(4 * LANES)));
    return __builtin_shuffle(low, high, Mask{A, B, C, D, A + 4, B + 4, C + 4, D + 4});
#endif
}
template <int SHIFT>
NEARFAR_INLINE Vector shifted(Vector low, Vector high)
{
    const Vector middle = join<4>(low, high, LanesTo<8>::type{});
    if constexpr (SHIFT < 4)
        return in_halves<SHIFT>(low, middle);
    else if constexpr (SHIFT == 4)
        return middle;
    else
        return in_halves<SHIFT - 4>(middle, high);
}
#elif LANES == 16 && defined(__AVX512F__)
// One instruction, valignd. For the general form GCC 12 takes vpermt2ps, whose
// table it must load again each time, because the result overwrites it. With a
// mask of all lanes, since GCC 12 warns of its own header's form without one.
template <int SHIFT>
NEARFAR_INLINE Vector shifted(Vector low, Vector high)
{
    return Vector(_mm512_maskz_alignr_epi32(0xffff, __m512i(high), __m512i(low), SHIFT));
}
#else
template <int SHIFT>
NEARFAR_INLINE Vector shifted(Vector low, Vector high)
{
    return join<SHIFT>(low, high, typename LanesTo<LANES>::type{});
}
#endif

// Multiples of a stride in bytes. An address of x86 may be base + register *
// 1, 2, 4 or 8: three multiples in registers give all of 0 ... 8. Left to
// itself, GCC makes a pointer of each of the 20 planes, and spills them. The
// empty assembler text hides from it where a value comes from.
struct Strides {
    Index one, three, five, seven;
};
NEARFAR_INLINE Strides strides_of(Index floats)
{
    Strides s{4 * floats, 12 * floats, 20 * floats, 28 * floats};
    asm("" : "+r"(s.one), "+r"(s.three), "+r"(s.five), "+r"(s.seven));
    return s;
}
template <typename Float>
NEARFAR_INLINE Float *hidden(Float *pointer)
{
    asm("" : "+r"(pointer));
    return pointer;
}
template <int K, typename Float>
NEARFAR_INLINE Float *step(Float *base, const Strides &s)
{
    const Index bytes = K == 0   ? 0
                        : K == 3 ? s.three
                        : K == 5 ? s.five
                        : K == 6 ? 2 * s.three
                        : K == 7 ? s.seven
                                 : K * s.one; // 1, 2, 4, 8
    return reinterpret_cast<Float *>(reinterpret_cast<Index>(base) + bytes);
}

// The part of a row that one call computes, at the panel's first point of it.
struct Row {
    float *next;
    const float *prev, *vel;
    const float *left, *right; // prev's rows in the panels beside; the row itself at the ends
    int from, to;              // points
    Index ahead;               // bytes to what is prefetched, or 0
};

// `sums` gets, for R planes, the middle and the neighbours in z.
template <int R>
NEARFAR_INLINE void pass_z(float (*sums)[PANEL], const Row &row, const Strides &z)
{
    for (int x = row.from; x < row.to; x += LANES) {
        const float *const here = row.prev + x;
        const float *const below = hidden(step<0>(here, z) - 2 * z.one); // 8 planes of z.one bytes, in floats
        const float *const above = hidden(here + 2 * z.one);
        // One prefetch per line: for a vector at the start of one.
        if (row.ahead != 0 && x % LINE == 0)
            repeat<0, R>([&](auto r) NEARFAR_BODY {
                constexpr int plane = decltype(r)::value;
                __builtin_prefetch(reinterpret_cast<const char *>(step<plane>(above, z)) + row.ahead);
                __builtin_prefetch(reinterpret_cast<const char *>(step<plane>(row.vel + x, z)) + row.ahead);
                __builtin_prefetch(reinterpret_cast<const char *>(step<plane>(row.next + x, z)) + row.ahead, 1);
            });
        Vector sum[R];
        repeat<0, R + 2 * HALO>([&](auto p) NEARFAR_BODY {
            constexpr int plane = decltype(p)::value - HALO;
            const float *from;
            if constexpr (plane < 0)
                from = step<plane + 8>(below, z);
            else if constexpr (plane < 8)
                from = step<plane>(here, z);
            else
                from = step<plane - 8>(above, z);
            const Vector value = load(from);
            repeat<0, R>([&](auto r) NEARFAR_BODY {
                constexpr int distance = plane > decltype(r)::value ? plane - decltype(r)::value
                                                                    : decltype(r)::value - plane;
                if constexpr (decltype(r)::value - plane == HALO) // the first that this sum gets
                    sum[decltype(r)::value] = WEIGHT[HALO] * value;
                else if constexpr (distance <= HALO)
                    sum[decltype(r)::value] += WEIGHT[distance] * value;
            });
        });
        repeat<0, R>([&](auto r) NEARFAR_BODY { store(sums[decltype(r)::value] + x, sum[decltype(r)::value]); });
    }
}

constexpr int BESIDE = LANES < HALO ? HALO / LANES : 1; // vectors on each side that x needs

// Adds the neighbours in x and y and updates `next`, one plane.
NEARFAR_INLINE void pass_xy(const float *sums, const Row &row)
{
    Vector window[2 * BESIDE + 1]; // of prev, around the current one
    repeat<1, 2 * BESIDE + 1>([&](auto w) NEARFAR_BODY {
        const int x = row.from + (decltype(w)::value - 1 - BESIDE) * LANES;
        window[decltype(w)::value] = load(x < 0 ? row.left + PANEL + x : x < PANEL ? row.prev + x : row.right - PANEL + x);
    });
    // `coming` is the row of the vector that enters the window.
    const auto result = [&](int x, const float *coming) NEARFAR_BODY {
        repeat<0, 2 * BESIDE>([&](auto w) NEARFAR_BODY { window[decltype(w)::value] = window[decltype(w)::value + 1]; });
        window[2 * BESIDE] = load(coming + x + BESIDE * LANES);
        const float *const here = row.prev + x;
        Vector sum[2]; // two chains of additions hide more latency than one
        repeat<1, HALO + 1>([&](auto k) NEARFAR_BODY {
            constexpr int K = decltype(k)::value;
            constexpr int west = BESIDE * LANES - K, east = BESIDE * LANES + K; // in floats of the window
            Vector a = window[west / LANES], b = window[east / LANES];
            if constexpr (west % LANES != 0)
                a = shifted<west % LANES>(a, window[west / LANES + 1]);
            if constexpr (east % LANES != 0)
                b = shifted<east % LANES>(b, window[east / LANES + 1]);
            const Vector ring = (a + b) + (load(here + K * PANEL) + load(here - K * PANEL));
            if constexpr (K <= 2)
                sum[K % 2] = WEIGHT[K] * ring;
            else
                sum[K % 2] += WEIGHT[K] * ring;
        });
        const Vector middle = window[BESIDE], laplacian = load(sums + x) + (sum[0] + sum[1]);
        return (middle + middle - load(row.next + x)) + load(row.vel + x) * laplacian;
    };
    const int whole = row.from + (row.to - row.from) / LANES * LANES;
    const int inside = whole < static_cast<int>(PANEL) - BESIDE * LANES ? whole : static_cast<int>(PANEL) - BESIDE * LANES;
    int x = row.from;
    for (; x < inside; x += LANES)
        store(row.next + x, result(x, row.prev));
    for (; x < whole; x += LANES)
        store(row.next + x, result(x, row.right - PANEL));
    if (x < row.to) { // the halo begins within the vector: keep it
        alignas(64) float last[LANES];
        store(last, result(x, x + BESIDE * LANES < PANEL ? row.prev : row.right - PANEL));
        for (int lane = 0; x + lane < row.to; ++lane)
            row.next[x + lane] = last[lane];
    }
}

// All rows of one panel in R planes from z on.
template <int R>
void planes(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box, Index panel, Index z,
            int prefetch)
{
    const Strides strides = strides_of(grid.plane_stride());
    alignas(64) float sums[R][PANEL];
    // The points that are computed, stored at HALO + LEAD ... n1 - HALO + LEAD.
    const Index from = larger(0, HALO + LEAD - panel * PANEL);
    const Index to = smaller(PANEL, grid.n1 - HALO + LEAD - panel * PANEL);
    if (from >= to)
        return;
    for (Index y = box.y0; y < box.y1; ++y) {
        const Index at = panel * grid.panel_stride() + z * grid.plane_stride() + y * PANEL;
        Row row{next + at,
                prev + at,
                vel + at,
                panel > 0 ? prev + at - grid.panel_stride() : prev + at,
                panel + 1 < grid.panels() ? prev + at + grid.panel_stride() : prev + at,
                static_cast<int>(from),
                static_cast<int>(to),
                4 * prefetch * PANEL};
        pass_z<R>(sums, row, strides);
        for (int r = 0; r < R; ++r) {
            pass_xy(sums[r], row);
            row.next += grid.plane_stride();
            row.prev += grid.plane_stride();
            row.vel += grid.plane_stride();
            row.left += grid.plane_stride();
            row.right += grid.plane_stride();
        }
    }
}

// All panels of a block in one group of planes before the next group: what the
// panels share in x and the groups in z is still in cache then.
template <int R>
NEARFAR_INLINE void block(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box,
                          int prefetch)
{
    Index z = box.z0;
    for (; z + R <= box.z1; z += R)
        for (Index panel = box.panel0; panel < box.panel1; ++panel)
            planes<R>(next, prev, vel, grid, box, panel, z, prefetch);
    for (; z < box.z1; ++z)
        for (Index panel = box.panel0; panel < box.panel1; ++panel)
            planes<1>(next, prev, vel, grid, box, panel, z, prefetch);
}

NEARFAR_INLINE void any_block(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box,
                              const Tuning &tuning)
{
    if (tuning.planes >= 8)
        block<8>(next, prev, vel, grid, box, tuning.prefetch);
    else if (tuning.planes >= 4)
        block<4>(next, prev, vel, grid, box, tuning.prefetch);
    else
        block<2>(next, prev, vel, grid, box, tuning.prefetch);
}

} // namespace
} // namespace stencil
