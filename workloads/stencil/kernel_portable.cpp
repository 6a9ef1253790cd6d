// SPDX-License-Identifier: MIT OR Apache-2.0
//
// 4 lanes: which every compiler that knows vectors can lower: SSE2, NEON.

#define LANES 4
#include "kernel.hpp"

namespace stencil {

void block_portable(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box, const Tuning &tuning)
{
    any_block(next, prev, vel, grid, box, tuning);
}

} // namespace stencil
