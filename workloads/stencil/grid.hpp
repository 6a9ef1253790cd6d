// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Where a point of the fast stencil's grid is in memory, and how the grid is
// cut into blocks.
//
// Each array is stored in panels: PANEL points of x, all of y, all of z, then
// the next panel. In rows of the whole n1, 17 rows of y for several planes
// exceed the first-level cache; in a panel they fit (17 * 4 * 512 bytes), lie
// side by side, so that hardware prefetchers follow them over row ends, and
// their distance is a constant in the instructions. On a Zen 3 this brought 12 %.
//
// Planes and panels are a few cache lines longer than their points. At a
// distance of a power of two, the 17 planes of one stencil would all fall into
// the same few sets of the caches: on 512 x 512 points that cost half the speed.
#pragma once

#include <cstddef>

namespace stencil {

using Index = std::ptrdiff_t;

// Functions that kernels call are always inlined: of a copy that is not, the
// linker might keep the one compiled for a cpu that this is not.
constexpr Index HALO = 8;    // 16th order: 8 neighbours on each of 6 sides
constexpr Index PANEL = 128; // points of x in a row of a panel: 8 cache lines
constexpr Index LINE = 16;   // floats in a cache line of 64 bytes
// x is stored at x + LEAD, which puts the first point that is computed at the
// start of a cache line: HALO + LEAD = LINE.
constexpr Index LEAD = 8;
constexpr Index PLANE_PAD = 5 * LINE, PANEL_PAD = 7 * LINE; // odd numbers of lines, chosen

[[gnu::always_inline]] constexpr Index smaller(Index a, Index b) { return a < b ? a : b; }
[[gnu::always_inline]] constexpr Index larger(Index a, Index b) { return a > b ? a : b; }
[[gnu::always_inline]] constexpr Index round_up(Index value, Index unit) { return (value + unit - 1) / unit * unit; }

struct Grid {
    Index n1, n2, n3;                   // points, halo included; n1 is the fastest dimension
    Index n1_block, n2_block, n3_block; // of the whole grid; n1_block in whole panels

    [[gnu::always_inline]] Index points() const { return n1 * n2 * n3; }
    [[gnu::always_inline]] Index panels() const { return (n1 + LEAD + PANEL - 1) / PANEL; }
    [[gnu::always_inline]] Index plane_stride() const { return n2 * PANEL + PLANE_PAD; }
    [[gnu::always_inline]] Index panel_stride() const { return n3 * plane_stride() + PANEL_PAD; }
    [[gnu::always_inline]] Index floats() const { return panels() * panel_stride(); }
    [[gnu::always_inline]] Index panels_per_block() const { return n1_block / PANEL; }
    [[gnu::always_inline]] Index at(Index x, Index y, Index z) const
    {
        const Index stored = x + LEAD;
        return stored / PANEL * panel_stride() + z * plane_stride() + y * PANEL + stored % PANEL;
    }
};

// Points from the first (included) to the second (excluded); panels for x.
struct Box {
    Index panel0, panel1, y0, y1, z0, z1;
};

// The block at a corner. All blocks together cover the grid, halo included.
inline Box block_at(const Grid &g, Index panel, Index y, Index z)
{
    return {panel, smaller(panel + g.panels_per_block(), g.panels()), y, smaller(y + g.n2_block, g.n2),
            z,     smaller(z + g.n3_block, g.n3)};
}

// What of a block is computed; nothing of one that is in the halo. The halo
// in x is left to the kernel, since panels do not end with it.
inline Box without_halo(const Grid &g, const Box &box)
{
    return {box.panel0,
            box.panel1,
            larger(box.y0, HALO),
            smaller(box.y1, g.n2 - HALO),
            larger(box.z0, HALO),
            smaller(box.z1, g.n3 - HALO)};
}

} // namespace stencil
