// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the fast stencil starts from, and whether what it ends with is right.
// Both are those of iso3dfd.cpp, point by point and with the same strictness.
#pragma once

#include "grid.hpp"

#include <cstdint>

namespace stencil {

// In [-1, 1), different at each point, so that a wrong neighbour gives a wrong result.
inline float start_value(std::uint32_t point)
{
    const std::uint32_t mixed = (point ^ (point >> 15)) * 2654435761u;
    return static_cast<float>(static_cast<std::int32_t>(mixed ^ (mixed >> 13))) * 0x1p-31f;
}
// 0.05 ... 0.10; the scheme is stable below 4 / (3 * 7.43) = 0.179.
inline float velocity_value(std::uint32_t point) { return 0.075f + 0.025f * start_value(point + 77777); }

struct Comparison {
    double error, allowed, largest; // largest absolute difference, what rounding explains, largest value
    bool right() const { return error <= allowed; }
};

// With the same computation in double, point by point, and weights from their
// formula instead of the kernel's table.
Comparison compare_with_reference(const float *prev, const float *next, const Grid &grid, Index iterations);

struct Summary {
    double sum, rms;
    bool plausible; // every value is a number, and one that the stable scheme can have reached
};
Summary summarize(const float *prev, const Grid &grid);

} // namespace stencil
