// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Partitions of two and three dimensions.
#include <nearfar/parallel.hpp>

#include <vector>

#include "expectations.hpp"

using nearfar::box;
using nearfar::range;
using nearfar::stencil;
using grid2 = nearfar::grid_partition<2>;
using grid3 = nearfar::grid_partition<3>;

template <std::size_t D, class F>
static void each_index(const box<D> &b, F f)
{
    if (b.empty())
        return;
    std::array<std::size_t, D> at{};
    for (std::size_t d = 0; d < D; ++d)
        at[d] = b.along[d].begin;
    for (;;) {
        f(at);
        std::size_t d = 0;
        while (d < D && ++at[d] == b.along[d].end) {
            at[d] = b.along[d].begin;
            ++d;
        }
        if (d == D)
            return;
    }
}

template <std::size_t D>
static std::size_t place(const box<D> &whole, const std::array<std::size_t, D> &at)
{
    std::size_t index = 0;
    for (std::size_t d = D; d-- > 0;)
        index = index * whole.along[d].size() + at[d] - whole.along[d].begin;
    return index;
}

// Each element in one part, which is its owner's; and written once, through
// for_each_row in a team, at its place.
template <std::size_t D>
static void covers(const nearfar::grid_partition<D> &split)
{
    const box<D> whole = split.whole();
    std::vector<std::size_t> owner(whole.size(), SIZE_MAX), written(whole.size(), 0);
    for (std::size_t p = 0; p < split.parts(); ++p)
        each_index(split.of(p), [&](const auto &at) {
            EXPECT_EQUAL(owner[place(whole, at)], SIZE_MAX);
            owner[place(whole, at)] = p;
            EXPECT_EQUAL(split.owner(at), p);
        });
    nearfar::for_each_part(split, [&](std::size_t p, const box<D> &own) {
        nearfar::for_each_row(split, own, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i)
                written[i] += p + 1;
        });
    });
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < owner.size(); ++i)
        wrong += owner[i] == SIZE_MAX || written[i] != owner[i] + 1;
    EXPECT_EQUAL(wrong, 0u);
}

// After the exchanges a part knows exactly the elements that its stencil reads,
// and both sides agree on each box.
template <std::size_t D>
static void exchanges(const nearfar::grid_partition<D> &split, const std::array<std::size_t, D> &halo, stencil reads)
{
    const box<D> whole = split.whole();
    std::size_t wrong = 0;
    for (std::size_t p = 0; p < split.parts(); ++p) {
        std::vector<int> received(whole.size(), 0), read(whole.size(), 0);
        for (const auto &x : split.exchanges(p, halo, reads)) {
            bool answered = false;
            for (const auto &y : split.exchanges(x.peer, halo, reads))
                answered |= y.peer == p && y.send == x.receive && y.receive == x.send;
            wrong += !answered;
            each_index(x.receive, [&](const auto &at) {
                wrong += split.owner(at) != x.peer;
                ++received[place(whole, at)];
            });
        }
        const box<D> own = split.of(p);
        if (reads == stencil::full)
            each_index(split.with_halo(p, halo), [&](const auto &at) { read[place(whole, at)] = 1; });
        else
            for (std::size_t d = 0; d < D; ++d) {
                box<D> arm = own;
                if (!own.empty())
                    arm.along[d] = split.with_halo(p, halo).along[d];
                each_index(arm, [&](const auto &at) { read[place(whole, at)] = 1; });
            }
        each_index(own, [&](const auto &at) { read[place(whole, at)] = 0; });
        for (std::size_t i = 0; i < read.size(); ++i)
            wrong += read[i] != received[i];
    }
    EXPECT_EQUAL(wrong, 0u);
}

static void chosen()
{
    using c3 = grid3::counts;
    // A cube: slowest first, then as square as it goes, x whole.
    EXPECT((grid3::evenly({64, 64, 64}, 2).parts_along() == c3{1, 1, 2}));
    EXPECT((grid3::evenly({64, 64, 64}, 8).parts_along() == c3{1, 2, 4}));
    EXPECT((grid3::evenly({64, 64, 64}, 16).parts_along() == c3{1, 4, 4}));
    EXPECT((grid3::evenly({64, 256, 16}, 8).parts_along() == c3{1, 8, 1}));
    // x only where the others cannot hold the parts, granules counted.
    EXPECT((grid3::evenly({64, 2, 2}, 8).parts_along() == c3{2, 2, 2}));
    EXPECT((grid3::evenly({64, 64, 64}, 8, {1, 64, 32}).parts_along() == c3{4, 1, 2}));
    EXPECT((grid2::evenly({1000, 1000}, 6).parts_along() == grid2::counts{1, 6}));
    EXPECT((grid2::evenly({1, 1}, 4).parts() == 4));
    EXPECT_THROWS(std::invalid_argument, grid3::evenly({1, 1, 1}, 0));
    EXPECT_THROWS(std::invalid_argument, grid3({1, 1, 1}, {1, 0, 1}));
    EXPECT_THROWS(std::invalid_argument, grid3({1, 1, 1}, {1, 1, 1}, {0, 1, 1}));
    EXPECT_THROWS(std::out_of_range, grid3({4, 4, 4}, {1, 2, 2}).of(4));
}

static void shape()
{
    const grid3 split({10, 8, 6}, {1, 2, 3}, {1, 4, 1});
    const box<3> third = split.of(3); // y 1, z 1: x fastest, then y
    EXPECT((third.x() == range{0, 10} && third.y() == range{4, 8} && third.z() == range{2, 4}));
    EXPECT_EQUAL(third.size(), 80u);
    const box<3> wide = split.with_halo(3, {1, 2, 1});
    EXPECT((wide.x() == range{0, 10} && wide.y() == range{2, 8} && wide.z() == range{1, 5}));
}

// A rank's box, cut for its threads, in the rank's array with its halo: all of
// the array is touched, by the thread that uses what is next to it.
static void ranks_over_threads()
{
    const grid3 ranks({12, 10, 8}, {1, 2, 2});
    for (std::size_t r = 0; r < ranks.parts(); ++r) {
        const box<3> own = ranks.of(r), stored = ranks.with_halo(r, {2, 2, 2});
        const grid3 threads = grid3::inside(own, {1, 1, 3});
        const nearfar::stored_grid<3> array(threads, stored);
        EXPECT_EQUAL(array.elements(), stored.size());
        std::vector<int> touched(array.elements(), 0);
        nearfar::parallel_fill(touched.data(), array, 1);
        std::size_t sum = 0;
        for (std::size_t t = 0; t < array.parts(); ++t) {
            sum += array.of(t).size();
            each_index(threads.of(t), [&](const std::array<std::size_t, 3> &at) {
                const box<3> part = array.of(t);
                for (std::size_t d = 0; d < 3; ++d)
                    EXPECT(part.along[d].contains(at[d] - stored.along[d].begin));
            });
        }
        EXPECT_EQUAL(sum, array.elements());
        for (const int t : touched)
            EXPECT_EQUAL(t, 1);
    }
}

int main()
{
    for (const std::size_t nx : {1ul, 5ul})
        for (const std::size_t ny : {1ul, 4ul, 7ul})
            for (const std::size_t nz : {1ul, 6ul})
                for (std::size_t parts = 1; parts <= 12; ++parts) {
                    const grid3 three = grid3::evenly({nx, ny, nz}, parts, {1, 2, 1});
                    EXPECT_EQUAL(three.parts(), parts);
                    covers(three);
                    covers(grid2::evenly({nx, ny}, parts));
                    for (const stencil reads : {stencil::star, stencil::full}) {
                        exchanges(three, {1, 1, 1}, reads);
                        exchanges(three, {2, 0, 3}, reads);
                        exchanges(grid2::evenly({nx, ny}, parts), {3, 1}, reads);
                    }
                }
    covers(grid3::inside({{range{3, 9}, range{1, 5}, range{7, 8}}}, {2, 3, 1}));
    exchanges(grid3({6, 6, 6}, {2, 3, 2}), {1, 4, 1}, stencil::star);
    exchanges(grid3({6, 6, 6}, {2, 3, 2}), {1, 4, 1}, stencil::full);
    chosen();
    shape();
    ranks_over_threads();
    return expectations::report("grids");
}
