// SPDX-License-Identifier: MIT OR Apache-2.0
//
// 16 lanes: the AVX-512 kernel's source, compiled for AVX2.

#define LANES 16
#include "kernel.hpp"

namespace stencil {

void block_avx512_in_avx2(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box, const Tuning &tuning)
{
    any_block(next, prev, vel, grid, box, tuning);
}

} // namespace stencil
