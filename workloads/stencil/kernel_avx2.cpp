// SPDX-License-Identifier: MIT OR Apache-2.0
//
// 8 lanes: AVX2 and FMA.

#define LANES 8
#include "kernel.hpp"

namespace stencil {

void block_avx2(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box, const Tuning &tuning)
{
    any_block(next, prev, vel, grid, box, tuning);
}

} // namespace stencil
