// SPDX-License-Identifier: MIT OR Apache-2.0

#include "plain.hpp"

#define main iso3dfd_main
#include "../workloads/iso3dfd.cpp"
#undef main

static Grid grid_of(const PlainGrid &g) { return {g.n1, g.n2, g.n3, g.n1_block, g.n2_block, g.n3_block, false}; }

void plain_initialize(float *prev, float *next, float *vel, const PlainGrid &grid)
{
    initialize_first_touch(prev, next, vel, grid_of(grid));
}

void plain_iterate(float *next, const float *prev, const float *vel, const PlainGrid &grid)
{
    iso3dfd_iteration(next, prev, vel, grid_of(grid));
}
