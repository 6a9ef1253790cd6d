// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The kernels that this program contains, and which of them this cpu can run.
#pragma once

#include "grid.hpp"

namespace stencil {

// What may be tuned without moving a point in memory. Results do not depend on it.
struct Tuning {
    int planes;   // z planes whose sums are kept in registers at once: 2, 4 or 8
    int prefetch; // rows ahead that software prefetches, 0 for none
};

// next = 2 * prev - next + vel * laplacian(prev) in one block, by one thread.
using BlockFunction = void (*)(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box,
                               const Tuning &tuning);

struct Kernel {
    const char *name; // as --isa wants it
    const char *what; // for people
    BlockFunction block;
    bool runs_here; // this cpu has its instructions
    bool automatic; // --isa auto may choose it
};

constexpr int KERNELS_MOST = 4;

// Fastest first; returns how many.
int all_kernels(Kernel *kernels);

// One per file, because each is compiled for other instructions.
void block_portable(float *, const float *, const float *, const Grid &, const Box &, const Tuning &);
#if defined(__x86_64__)
void block_avx2(float *, const float *, const float *, const Grid &, const Box &, const Tuning &);
void block_avx512(float *, const float *, const float *, const Grid &, const Box &, const Tuning &);
void block_avx512_in_avx2(float *, const float *, const float *, const Grid &, const Box &, const Tuning &);
#endif

} // namespace stencil
