// SPDX-License-Identifier: MIT OR Apache-2.0
//
// iso3dfd: the acoustic wave equation in an isotropic medium, in 3D.
//
// Finite differences of 16th order in space and 2nd order in time. With the
// wave at two time levels,
//     next = 2 * prev - next + vel * laplacian(prev),   then swap,
// where `vel` holds (velocity * time step / grid spacing)^2. The Laplacian at
// a point takes 8 neighbours on each of 6 sides: 61 flops per point. Writing
// over `next` in place needs three arrays and moves 16 bytes per point, if
// caches keep what the neighbours share: read prev, vel, next; write next.
//
// The grid is cut into blocks; OpenMP deals out whole blocks. A halo of 8
// points on each side is never updated. The NUMA defect is in the
// initialisation, which decides where the pages live (flag --init):
//   serial         one thread writes everything: all pages on one node
//   half-parallel  half of the planes that way, half as in first-touch
//   first-touch    each thread writes the blocks that it will later compute
//
// Share of remote accesses with 2 threads on 2 nodes and --schedule static,
// when the number of blocks is even, so that each thread computes half of the
// grid. All pages that one thread writes alone are on its node, 0:
//   serial         thread 0: 0, thread 1: all         (0 + 1) / 2   = 50 %
//   half-parallel  thread 0: 0, thread 1: half        (0 + 1/2) / 2 = 25 %
//   first-touch    only the halo between the two halves             ~  0 %
// That half-parallel splits each thread's planes in two halves is the reason
// why its two kinds of planes alternate over the whole grid.

#include "../include/nearfar.h"
#include "common.hpp"

#include <algorithm>

constexpr std::ptrdiff_t HALO = 8;
constexpr double FLOPS_PER_POINT = 61;
// Groups of planes that half-parallel alternates between the two ways of
// writing: 4, few enough to spread both kinds evenly over every thread's planes
// and enough to fill pages (huge ones need planes of 2 MiB / 4 or more).
constexpr std::ptrdiff_t GROUP = 4;

struct Grid {
    std::ptrdiff_t n1, n2, n3;                   // n1 is the fastest dimension; halo included
    std::ptrdiff_t n1_block, n2_block, n3_block; // blocks of the whole grid
    bool dynamic;
    std::ptrdiff_t plane() const { return n1 * n2; }
    std::ptrdiff_t points() const { return n1 * n2 * n3; }
};

struct Box {
    std::ptrdiff_t x0, x1, y0, y1, z0, z1;
};

// Start values in [-1, 1), different at each point, so that a wrong neighbour
// gives a wrong result. `next` starts close to `prev`: a wave at rest, nearly.
static float start_value(std::uint32_t index)
{
    const std::uint32_t mixed = (index ^ (index >> 15)) * 2654435761u;
    return static_cast<float>(static_cast<std::int32_t>(mixed ^ (mixed >> 13))) * 0x1p-31f;
}
// 0.05 ... 0.10; the scheme is stable below 4 / (3 * 7.43) = 0.179.
static float velocity_value(std::uint32_t index) { return 0.075f + 0.025f * start_value(index + 77777); }

static inline void initialize_rows(float *prev, float *next, float *vel, const Grid &grid, const Box &box)
{
    for (std::ptrdiff_t z = box.z0; z < box.z1; ++z)
        for (std::ptrdiff_t y = box.y0; y < box.y1; ++y)
            for (std::ptrdiff_t x = box.x0; x < box.x1; ++x) {
                const std::ptrdiff_t i = z * grid.plane() + y * grid.n1 + x;
                const std::uint32_t index = static_cast<std::uint32_t>(i);
                prev[i] = start_value(index);
                next[i] = 0.96875f * start_value(index);
                vel[i] = velocity_value(index);
            }
}

// The block at a corner. All blocks together cover the grid, halo included.
static Box block_at(const Grid &g, std::ptrdiff_t bx, std::ptrdiff_t by, std::ptrdiff_t bz)
{
    return {bx, std::min(bx + g.n1_block, g.n1), by, std::min(by + g.n2_block, g.n2),
            bz, std::min(bz + g.n3_block, g.n3)};
}

// What of a block is computed; nothing of one that is in the halo.
static Box without_halo(const Grid &g, Box box)
{
    return {std::max(box.x0, HALO), std::min(box.x1, g.n1 - HALO), std::max(box.y0, HALO),
            std::min(box.y1, g.n2 - HALO), std::max(box.z0, HALO), std::min(box.z1, g.n3 - HALO)};
}

static bool written_by_one_thread(std::ptrdiff_t z) { return z / GROUP % 2 == 0; }

[[gnu::noinline]] static void initialize_serial(float *prev, float *next, float *vel, const Grid &grid)
{
    initialize_rows(prev, next, vel, grid, {0, grid.n1, 0, grid.n2, 0, grid.n3});
}

// The loop must be the one of iso3dfd_iteration with schedule(static): the same
// bounds, order and collapse give each thread the same blocks.
[[gnu::noinline]] static void initialize_first_touch(float *prev, float *next, float *vel, const Grid &grid)
{
#pragma omp parallel for collapse(3) schedule(static)
    for (std::ptrdiff_t bz = 0; bz < grid.n3; bz += grid.n3_block)
        for (std::ptrdiff_t by = 0; by < grid.n2; by += grid.n2_block)
            for (std::ptrdiff_t bx = 0; bx < grid.n1; bx += grid.n1_block)
                initialize_rows(prev, next, vel, grid, block_at(grid, bx, by, bz));
}

[[gnu::noinline]] static void initialize_half_parallel(float *prev, float *next, float *vel, const Grid &grid)
{
    for (std::ptrdiff_t z = 0; z < grid.n3; ++z)
        if (written_by_one_thread(z))
            initialize_rows(prev, next, vel, grid, {0, grid.n1, 0, grid.n2, z, z + 1});

#pragma omp parallel for collapse(3) schedule(static)
    for (std::ptrdiff_t bz = 0; bz < grid.n3; bz += grid.n3_block)
        for (std::ptrdiff_t by = 0; by < grid.n2; by += grid.n2_block)
            for (std::ptrdiff_t bx = 0; bx < grid.n1; bx += grid.n1_block) {
                const Box box = block_at(grid, bx, by, bz);
                for (std::ptrdiff_t z = box.z0; z < box.z1; ++z)
                    if (!written_by_one_thread(z))
                        initialize_rows(prev, next, vel, grid, {box.x0, box.x1, box.y0, box.y1, z, z + 1});
            }
}

// One row of one block. The weights of the central difference for the second
// derivative; those of the three axes are the same, so the middle counts 3 times.
static inline void iso3dfd_row(float *__restrict next, const float *__restrict prev, const float *__restrict vel,
                       std::ptrdiff_t count, std::ptrdiff_t row, std::ptrdiff_t plane)
{
    const float w0 = 3 * -3.0548446f, w1 = 1.7777778f, w2 = -0.31111111f, w3 = 0.075420875f, w4 = -0.017676768f,
                w5 = 3.4809635e-3f, w6 = -5.1800052e-4f, w7 = 5.0742907e-5f, w8 = -2.4281274e-6f;
#pragma omp simd
    for (std::ptrdiff_t x = 0; x < count; ++x) {
        const float *const p = prev + x;
        const auto ring = [p, row, plane](std::ptrdiff_t k) {
            return ((p[k] + p[-k]) + (p[k * row] + p[-k * row])) + (p[k * plane] + p[-k * plane]);
        };
        float laplacian = w0 * p[0];
        laplacian += w1 * ring(1);
        laplacian += w2 * ring(2);
        laplacian += w3 * ring(3);
        laplacian += w4 * ring(4);
        laplacian += w5 * ring(5);
        laplacian += w6 * ring(6);
        laplacian += w7 * ring(7);
        laplacian += w8 * ring(8);
        next[x] = 2.0f * p[0] - next[x] + vel[x] * laplacian;
    }
}

static inline void iso3dfd_block(float *next, const float *prev, const float *vel, const Grid &grid, const Box &box)
{
    for (std::ptrdiff_t z = box.z0; z < box.z1; ++z)
        for (std::ptrdiff_t y = box.y0; y < box.y1; ++y) {
            const std::ptrdiff_t at = z * grid.plane() + y * grid.n1 + box.x0;
            iso3dfd_row(next + at, prev + at, vel + at, box.x1 - box.x0, grid.n1, grid.plane());
        }
}

// Two loops rather than schedule(runtime): only schedule(static) written out
// promises the same split as the loop that initialises.
[[gnu::noinline]] static void iso3dfd_iteration(float *next, const float *prev, const float *vel, const Grid &grid)
{
    if (grid.dynamic) {
#pragma omp parallel for collapse(3) schedule(dynamic)
        for (std::ptrdiff_t bz = 0; bz < grid.n3; bz += grid.n3_block)
            for (std::ptrdiff_t by = 0; by < grid.n2; by += grid.n2_block)
                for (std::ptrdiff_t bx = 0; bx < grid.n1; bx += grid.n1_block)
                    iso3dfd_block(next, prev, vel, grid, without_halo(grid, block_at(grid, bx, by, bz)));
    } else {
#pragma omp parallel for collapse(3) schedule(static)
        for (std::ptrdiff_t bz = 0; bz < grid.n3; bz += grid.n3_block)
            for (std::ptrdiff_t by = 0; by < grid.n2; by += grid.n2_block)
                for (std::ptrdiff_t bx = 0; bx < grid.n1; bx += grid.n1_block)
                    iso3dfd_block(next, prev, vel, grid, without_halo(grid, block_at(grid, bx, by, bz)));
    }
}

// The same computation, point by point, unblocked, in double, with weights from
// the formula 2 (-1)^(k+1) (M!)^2 / (k^2 (M-k)! (M+k)!) instead of the table.
static bool matches_reference(const float *prev, const float *next, const Grid &grid, std::size_t iterations)
{
    double weight[HALO + 1] = {0};
    for (int k = 1; k <= HALO; ++k) {
        double ratio = 1; // (M!)^2 / ((M-k)! (M+k)!)
        for (int j = 1; j <= k; ++j)
            ratio *= static_cast<double>(HALO - k + j) / static_cast<double>(HALO + j);
        weight[k] = (k % 2 ? 2.0 : -2.0) * ratio / (k * k);
        weight[0] -= 2 * weight[k];
    }
    std::vector<double> now(static_cast<std::size_t>(grid.points())), old(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
        now[i] = start_value(static_cast<std::uint32_t>(i));
        old[i] = 0.96875f * start_value(static_cast<std::uint32_t>(i));
    }
    for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
        for (std::ptrdiff_t z = HALO; z < grid.n3 - HALO; ++z)
            for (std::ptrdiff_t y = HALO; y < grid.n2 - HALO; ++y)
                for (std::ptrdiff_t x = HALO; x < grid.n1 - HALO; ++x) {
                    const std::ptrdiff_t i = z * grid.plane() + y * grid.n1 + x;
                    const double *const p = now.data() + i;
                    double sum = 3 * weight[0] * p[0];
                    for (std::ptrdiff_t k = 1; k <= HALO; ++k)
                        for (const std::ptrdiff_t stride : {std::ptrdiff_t(1), grid.n1, grid.plane()})
                            sum += weight[k] * (p[k * stride] + p[-k * stride]);
                    double &target = old[static_cast<std::size_t>(i)];
                    target = 2 * p[0] - target + velocity_value(static_cast<std::uint32_t>(i)) * sum;
                }
        std::swap(now, old);
    }
    double error = 0, scale = 1;
    for (std::size_t i = 0; i < now.size(); ++i) {
        const double off = std::max(std::fabs(prev[i] - now[i]), std::fabs(next[i] - old[i]));
        if (!(off <= error)) // also true for NaN, which max() would drop
            error = off;
        scale = std::max({scale, std::fabs(now[i]), std::fabs(old[i])});
    }
    // One rounding costs up to 6e-8 of the value. Each iteration adds a few, and
    // as the scheme carries on differences of levels, n of them grow as n^1.5.
    const double allowed = 1e-6 * scale * std::max(1.0, std::pow(static_cast<double>(iterations) / 4, 1.5));
    const bool right = error <= allowed;
    std::printf("verify: max abs error %.3g, allowed %.3g, largest value %.3g: %s\n", error, allowed, scale,
                right ? "ok" : "WRONG");
    return right;
}

// Without --verify: every value is a number, and one that the stable scheme
// can have reached.
static bool looks_sane(const float *prev, const Grid &grid)
{
    double sum = 0, squares = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum, squares)
    for (std::ptrdiff_t i = 0; i < grid.points(); ++i) {
        sum += prev[i];
        squares += static_cast<double>(prev[i]) * prev[i];
    }
    const double rms = std::sqrt(squares / static_cast<double>(grid.points()));
    const bool sane = std::isfinite(sum) && rms > 1e-3 && rms < 1e3;
    std::printf("checksum: %.9g, rms %.6g: %s\n", sum, rms, sane ? "plausible" : "WRONG");
    return sane;
}

constexpr const char *USAGE_TEXT =
    "n1 n2 n3 iterations n1_block n2_block n3_block [--threads N]\n"
    "               [--init serial|half-parallel|first-touch] [--schedule static|dynamic] [--verify]\n"
    "n1 is the fastest dimension; sizes include the halo of 8 points on each side.\n"
    "--verify compares with a slow reference in double precision.\n"
    "example: iso3dfd 256 256 256 10 256 24 96 --init first-touch";

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "iso3dfd", USAGE_TEXT);
    const std::string init = arguments.choice("--init", {"serial", "half-parallel", "first-touch"});
    const std::string schedule = arguments.choice("--schedule", {"static", "dynamic"});
    const bool verify = arguments.given("--verify");
    const int threads = arguments.threads();
    Grid grid{};
    for (auto [size, name] : {std::pair{&grid.n1, "n1"}, {&grid.n2, "n2"}, {&grid.n3, "n3"}})
        *size = static_cast<std::ptrdiff_t>(arguments.positional(name, 2 * HALO + 1));
    const std::size_t iterations = arguments.positional("iterations");
    for (auto [size, name] : {std::pair{&grid.n1_block, "n1_block"},
                              {&grid.n2_block, "n2_block"},
                              {&grid.n3_block, "n3_block"}})
        *size = static_cast<std::ptrdiff_t>(arguments.positional(name));
    arguments.finish();
    grid.dynamic = schedule == "dynamic";
    const std::size_t bytes = workload::whole_pages(workload::product(
        arguments, {sizeof(float), static_cast<std::size_t>(grid.n1), static_cast<std::size_t>(grid.n2),
                    static_cast<std::size_t>(grid.n3)}));
    grid.n1_block = std::min(grid.n1_block, grid.n1);
    grid.n2_block = std::min(grid.n2_block, grid.n2);
    grid.n3_block = std::min(grid.n3_block, grid.n3);
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        arguments.fail("built for AVX2 and FMA, which this cpu lacks; build with -DNEARFAR_WORKLOADS_AVX2=OFF");
#endif

    float *prev = static_cast<float *>(std::aligned_alloc(workload::PAGE, bytes));
    float *next = static_cast<float *>(std::aligned_alloc(workload::PAGE, bytes));
    float *vel = static_cast<float *>(std::aligned_alloc(workload::PAGE, bytes));
    for (const float *array : {prev, next, vel})
        workload::need_memory(array, bytes);
    std::printf("grid: n1=%td n2=%td n3=%td iterations=%zu\n", grid.n1, grid.n2, grid.n3, iterations);
    std::printf("blocks: n1=%td n2=%td n3=%td threads=%d init=%s schedule=%s\n", grid.n1_block, grid.n2_block,
                grid.n3_block, threads, init.c_str(), schedule.c_str());
    std::printf("allocated: %.1f MB in prev, next and vel\n", 3e-6 * static_cast<double>(bytes));

    if (init == "serial")
        initialize_serial(prev, next, vel, grid);
    else if (init == "half-parallel")
        initialize_half_parallel(prev, next, vel, grid);
    else
        initialize_first_touch(prev, next, vel, grid);

    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
        iso3dfd_iteration(next, prev, vel, grid);
        std::swap(prev, next);
    }
    nearfar_end();
    const double seconds = workload::wall_seconds() - start;

    const double updates = static_cast<double>(grid.n1 - 2 * HALO) * static_cast<double>(grid.n2 - 2 * HALO) *
                           static_cast<double>(grid.n3 - 2 * HALO) * static_cast<double>(iterations);
    std::printf("time: %.3f s\n", seconds);
    std::printf("throughput: %.2f MPoints/s\n", 1e-6 * updates / seconds);
    std::printf("flops: %.2f GFlops\n", 1e-9 * FLOPS_PER_POINT * updates / seconds);

    const bool right = verify ? matches_reference(prev, next, grid, iterations) : looks_sane(prev, grid);
    std::free(prev);
    std::free(next);
    std::free(vel);
    return right ? 0 : workload::RESULT_WRONG;
}
