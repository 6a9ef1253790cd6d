// SPDX-License-Identifier: MIT OR Apache-2.0

#include "sweep.hpp"
#include "values.hpp"

#include <sys/mman.h>

#include <utility>

namespace stencil {

constexpr std::size_t HUGE_PAGE = std::size_t(2) << 20;
// Between the arrays: odd numbers of cache lines, so that a point of prev, next
// and vel is in three different sets of the first-level cache.
constexpr Index ARRAY_PAD = 37 * LINE;

Memory::Memory(const Grid &grid, bool huge_pages)
{
    each_ = static_cast<std::size_t>(round_up(grid.floats() + 2 * ARRAY_PAD + LINE, HUGE_PAGE / sizeof(float))) * sizeof(float);
    bytes_ = 3 * each_ + HUGE_PAGE; // the system aligns to small pages only
    block_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block_ == MAP_FAILED)
        block_ = nullptr;
    else if (huge_pages)
        madvise(block_, bytes_, MADV_HUGEPAGE); // a wish: a kernel without them says no, and small ones do
}
Memory::~Memory()
{
    if (block_ != nullptr)
        munmap(block_, bytes_);
}
Arrays Memory::arrays() const
{
    const std::uintptr_t start = (reinterpret_cast<std::uintptr_t>(block_) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    float *const first = reinterpret_cast<float *>(start);
    const std::size_t floats = each_ / sizeof(float);
    return {first, first + floats + ARRAY_PAD, first + 2 * floats + 2 * ARRAY_PAD};
}
void Memory::forget() const { madvise(block_, bytes_, MADV_DONTNEED); }

// Groups of planes that half-parallel alternates between its two ways, and the
// reason, are those of iso3dfd.cpp.
constexpr Index GROUP = 4;
static bool written_by_one_thread(Index z) { return z / GROUP % 2 == 0; }

static void initialize_plane(const Arrays &a, const Grid &g, const Box &box, Index z)
{
    for (Index panel = box.panel0; panel < box.panel1; ++panel) {
        const Index first = larger(0, panel * PANEL - LEAD), last = smaller(g.n1, (panel + 1) * PANEL - LEAD);
        for (Index y = box.y0; y < box.y1; ++y)
            for (Index x = first; x < last; ++x) {
                const Index at = g.at(x, y, z);
                const std::uint32_t point = static_cast<std::uint32_t>((z * g.n2 + y) * g.n1 + x);
                a.prev[at] = start_value(point);
                a.next[at] = 0.96875f * start_value(point);
                a.vel[at] = velocity_value(point);
            }
    }
}

// The same bounds, order, collapse and schedule(static) give each thread the
// same blocks in every loop of this file.
#define FOR_EACH_BLOCK(g)                                                                                              \
    for (Index z = 0; z < (g).n3; z += (g).n3_block)                                                                   \
        for (Index y = 0; y < (g).n2; y += (g).n2_block)                                                               \
            for (Index panel = 0; panel < (g).panels(); panel += (g).panels_per_block())

[[gnu::noinline]] static void initialize_serial(const Arrays &arrays, const Grid &grid)
{
    for (Index z = 0; z < grid.n3; ++z)
        initialize_plane(arrays, grid, {0, grid.panels(), 0, grid.n2, z, z + 1}, z);
}

[[gnu::noinline]] static void initialize_first_touch(const Arrays &arrays, const Grid &grid)
{
#pragma omp parallel for collapse(3) schedule(static)
    FOR_EACH_BLOCK(grid)
    {
        const Box box = block_at(grid, panel, y, z);
        for (Index plane = box.z0; plane < box.z1; ++plane)
            initialize_plane(arrays, grid, box, plane);
    }
}

[[gnu::noinline]] static void initialize_half_parallel(const Arrays &arrays, const Grid &grid)
{
    for (Index z = 0; z < grid.n3; ++z)
        if (written_by_one_thread(z))
            initialize_plane(arrays, grid, {0, grid.panels(), 0, grid.n2, z, z + 1}, z);
#pragma omp parallel for collapse(3) schedule(static)
    FOR_EACH_BLOCK(grid)
    {
        const Box box = block_at(grid, panel, y, z);
        for (Index plane = box.z0; plane < box.z1; ++plane)
            if (!written_by_one_thread(plane))
                initialize_plane(arrays, grid, box, plane);
    }
}

void initialize(const Arrays &arrays, const Grid &grid, const std::string &init)
{
    if (init == "serial")
        initialize_serial(arrays, grid);
    else if (init == "half-parallel")
        initialize_half_parallel(arrays, grid);
    else
        initialize_first_touch(arrays, grid);
}

static void compute(const Arrays &a, const Run &run, const Box &box)
{
    if (box.y0 < box.y1 && box.z0 < box.z1)
        run.kernel.block(a.next, a.prev, a.vel, run.grid, box, run.tuning);
}

[[gnu::noinline]] void iterate(const Arrays &arrays, const Run &run)
{
    if (run.dynamic) {
#pragma omp parallel for collapse(3) schedule(dynamic)
        FOR_EACH_BLOCK(run.grid)
            compute(arrays, run, without_halo(run.grid, block_at(run.grid, panel, y, z)));
    } else {
#pragma omp parallel for collapse(3) schedule(static)
        FOR_EACH_BLOCK(run.grid)
            compute(arrays, run, without_halo(run.grid, block_at(run.grid, panel, y, z)));
    }
}

// Temporal blocking: a wavefront along z. In one round, step 0 computes `chunk`
// planes, step 1 the `chunk` planes HALO below those, and so on; a barrier
// between them. At plane z step s reads what step s - 1 made of z - HALO ...
// z + HALO, whose last plane was made just before; and overwrites, in place,
// what step s - 1 will not read any more, as it goes on HALO above the last
// plane that step s has written.
//
//            z ->   0       8       16      24
//   round 0  step 0 [chunk..)
//   round 1  step 0         [chunk..)               chunk = HALO here
//            step 1 [chunk..)
//
// Planes are cut among the threads by y and x alone, for a block of n3_block
// planes would hold up the wave. The arrays are read from memory once per sweep
// if a cache shared by all threads holds the planes between the first step and
// the last: 3 arrays of chunk + HALO * (steps + 1) planes.
[[gnu::noinline]] static void wavefront(const Arrays &arrays, const Run &run, Index steps)
{
    const Grid &g = run.grid;
    const Index chunk = smaller(g.n3_block, HALO), end = g.n3 - HALO;
#pragma omp parallel
    for (Index front = HALO; front - (steps - 1) * HALO < end; front += chunk)
        for (Index s = 0; s < steps; ++s) {
            const Index z0 = larger(front - s * HALO, HALO), z1 = smaller(front - s * HALO + chunk, end);
            if (z0 >= z1)
                continue; // all threads alike
            const Arrays now = s % 2 == 0 ? arrays : Arrays{arrays.next, arrays.prev, arrays.vel};
#pragma omp for collapse(2) schedule(static)
            for (Index y = 0; y < g.n2; y += g.n2_block)
                for (Index panel = 0; panel < g.panels(); panel += g.panels_per_block()) {
                    Box box = without_halo(g, block_at(g, panel, y, 0));
                    box.z0 = z0;
                    box.z1 = z1;
                    compute(now, run, box);
                }
        }
}

void sweep(Arrays &arrays, const Run &run, Index steps)
{
    if (steps == 1)
        iterate(arrays, run);
    else
        wavefront(arrays, run, steps);
    if (steps % 2 == 1)
        std::swap(arrays.prev, arrays.next);
}

void iterate_all(Arrays &arrays, const Run &run, Index iterations, Index steps)
{
    for (Index done = 0; done < iterations; done += steps)
        sweep(arrays, run, smaller(steps, iterations - done));
}

} // namespace stencil
