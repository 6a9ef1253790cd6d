// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>

// The plain blocked C loop is workloads/iso3dfd.cpp itself, compiled into the
// benchmark with its own flags.
struct PlainGrid {
    std::ptrdiff_t n1, n2, n3, n1_block, n2_block, n3_block;
};
void plain_initialize(float *prev, float *next, float *vel, const PlainGrid &grid);
void plain_iterate(float *next, const float *prev, const float *vel, const PlainGrid &grid);
