// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/grid.hpp - grids of two and three dimensions cut into boxes.
//
// Dimension 0 is x, the fastest: neighbours in x are neighbours in memory, and
// element (x, y, z) is element x + nx (y + ny z) of the array. Part numbers run
// the same way: those next to each other in x follow each other.
#ifndef NEARFAR_GRID_HPP
#define NEARFAR_GRID_HPP

#include <array>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "partition.hpp"

namespace nearfar {

// A range in each dimension.
template <std::size_t D>
struct box {
    std::array<range, D> along{};

    constexpr const range &x() const noexcept { return along[0]; }
    constexpr const range &y() const noexcept
    {
        static_assert(D >= 2, "a box of one dimension has no y");
        return along[1];
    }
    constexpr const range &z() const noexcept
    {
        static_assert(D >= 3, "a box of fewer than three dimensions has no z");
        return along[2];
    }

    constexpr std::size_t size() const noexcept
    {
        std::size_t product = 1;
        for (const range &r : along)
            product *= r.size();
        return product;
    }
    constexpr bool empty() const noexcept { return size() == 0; }

    friend constexpr bool operator==(const box &a, const box &b) noexcept
    {
        for (std::size_t d = 0; d < D; ++d)
            if (a.along[d] != b.along[d])
                return false;
        return true;
    }
    friend constexpr bool operator!=(const box &a, const box &b) noexcept { return !(a == b); }
};

template <std::size_t D>
constexpr box<D> intersection(const box<D> &a, const box<D> &b) noexcept
{
    box<D> both;
    for (std::size_t d = 0; d < D; ++d)
        both.along[d] = intersection(a.along[d], b.along[d]);
    return both;
}

// Which neighbours a computation reads: only those along the axes, as
// finite differences do, or the ones across edges and corners as well.
enum class stencil { star, full };

// What a part sends to another one and receives from it.
template <std::size_t D>
struct box_exchange {
    std::size_t peer;
    box<D> send;
    box<D> receive;
};

// A grid cut along each dimension by a partition of its own. Parts cover the
// grid and never overlap; some are empty where a dimension has more parts than
// granules. A part's number is that of its thread, or of its rank: a grid of
// ranks whose boxes are cut again for their threads is two of these, the second
// one made by inside() from the first one's box.
template <std::size_t D>
class grid_partition {
public:
    using counts = std::array<std::size_t, D>;

    // `parts[d]` parts of `extents[d]` elements, cut at multiples of `granules[d]`.
    // Throws std::invalid_argument for no parts or no granule.
    grid_partition(const counts &extents, const counts &parts, const counts &granules = filled(1))
        : along_(split(whole_of(extents), parts, granules, std::make_index_sequence<D>{}))
    {
    }

    // The same for a box of a larger grid, whose indices the parts have, too.
    static grid_partition inside(const box<D> &whole, const counts &parts, const counts &granules = filled(1))
    {
        grid_partition made(filled(0), parts, granules);
        made.along_ = split(whole, parts, granules, std::make_index_sequence<D>{});
        return made;
    }

    // Chooses how many parts each dimension gets. x is cut only if the other
    // dimensions cannot hold that many parts: its rows are what prefetchers
    // and vector units like long, and what fills pages. Of the other ways the
    // one with the least surface between parts, which is what halos move; of
    // equal ones the one that cuts slower dimensions, whose parts are in fewer
    // pieces. Tries all factorisations of `parts`.
    static grid_partition evenly(const counts &extents, std::size_t parts, const counts &granules = filled(1))
    {
        if (parts == 0)
            throw std::invalid_argument("nearfar::grid_partition: parts must be above 0");
        counts best{}, now{};
        cost least{true, std::numeric_limits<std::size_t>::max(), 0.0};
        choose(extents, granules, parts, D - 1, now, best, least);
        return grid_partition(extents, best, granules);
    }

    const partition &along(std::size_t dimension) const { return along_.at(dimension); }
    counts parts_along() const noexcept
    {
        counts all{};
        for (std::size_t d = 0; d < D; ++d)
            all[d] = along_[d].parts();
        return all;
    }
    std::size_t parts() const noexcept
    {
        std::size_t product = 1;
        for (const partition &p : along_)
            product *= p.parts();
        return product;
    }
    std::size_t elements() const noexcept { return whole().size(); }
    box<D> whole() const noexcept
    {
        box<D> all;
        for (std::size_t d = 0; d < D; ++d)
            all.along[d] = along_[d].whole();
        return all;
    }

    // A part's box. Throws std::out_of_range.
    box<D> of(std::size_t part) const
    {
        if (part >= parts())
            throw std::out_of_range("nearfar::grid_partition: no part " + std::to_string(part) + " of " +
                                    std::to_string(parts()));
        box<D> own;
        for (std::size_t d = 0; d < D; ++d) {
            own.along[d] = along_[d].of(part % along_[d].parts());
            part /= along_[d].parts();
        }
        return own;
    }

    // The same and what it reads of its neighbours, up to halo[d] elements along
    // each dimension, corners too, clipped where the grid ends.
    box<D> with_halo(std::size_t part, const counts &halo) const { return grown(of(part), halo); }

    // The part that has this element. Throws std::out_of_range.
    std::size_t owner(const counts &index) const
    {
        std::size_t part = 0;
        for (std::size_t d = D; d-- > 0;)
            part = part * along_[d].parts() + along_[d].owner(index[d]);
        return part;
    }

    // Which boxes a part exchanges with which others before it can use its
    // halo, in order of the peers. With stencil::star there is one box per
    // neighbour along an axis; with stencil::full also those across edges and
    // corners. Looks at every part.
    std::vector<box_exchange<D>> exchanges(std::size_t part, const counts &halo, stencil reads = stencil::star) const
    {
        std::vector<box_exchange<D>> all;
        const box<D> own = of(part);
        if (own.empty())
            return all;
        for (std::size_t peer = 0; peer < parts(); ++peer) {
            const box<D> theirs = of(peer);
            if (peer == part || theirs.empty())
                continue;
            counts only = halo;
            if (reads == stencil::star) {
                // Of parts of one grid, those in line differ in one dimension.
                std::size_t differ = 0, dimension = 0;
                for (std::size_t d = 0; d < D; ++d)
                    if (own.along[d] != theirs.along[d]) {
                        ++differ;
                        dimension = d;
                    }
                if (differ != 1)
                    continue;
                only = filled(0);
                only[dimension] = halo[dimension];
            }
            const box<D> receive = intersection(theirs, grown(own, only));
            if (!receive.empty())
                all.push_back({peer, intersection(own, grown(theirs, only)), receive});
        }
        return all;
    }

    static constexpr counts filled(std::size_t value) noexcept
    {
        counts all{};
        for (std::size_t d = 0; d < D; ++d)
            all[d] = value;
        return all;
    }

private:
    // Less is better: whether parts stay empty, parts along x, surface.
    using cost = std::tuple<bool, std::size_t, double>;

    // From the slowest dimension to x, more parts of it first: the first of
    // equally good ones stays.
    static void choose(const counts &extents, const counts &granules, std::size_t left, std::size_t d, counts &now,
                       counts &best, cost &least)
    {
        if (d > 0) {
            for (std::size_t p = left; p > 0; --p)
                if (left % p == 0) {
                    now[d] = p;
                    choose(extents, granules, left / p, d - 1, now, best, least);
                }
            return;
        }
        now[0] = left;
        bool empty = false;
        double surface = 0;
        for (std::size_t e = 0; e < D; ++e) {
            double face = 1;
            for (std::size_t f = 0; f < D; ++f)
                face *= f == e ? 1.0 : static_cast<double>(extents[f]);
            surface += static_cast<double>(now[e] - 1) * face;
            empty |= granules[e] != 0 && now[e] > extents[e] / granules[e] + (extents[e] % granules[e] != 0);
        }
        const cost found{empty, left, surface};
        if (found < least) {
            least = found;
            best = now;
        }
    }

    static box<D> whole_of(const counts &extents) noexcept
    {
        box<D> all;
        for (std::size_t d = 0; d < D; ++d)
            all.along[d] = {0, extents[d]};
        return all;
    }

    box<D> grown(box<D> part, const counts &halo) const noexcept
    {
        for (std::size_t d = 0; d < D; ++d)
            part.along[d] = widened(part.along[d], halo[d], halo[d], along_[d].whole());
        return part;
    }

    template <std::size_t... d>
    static std::array<partition, D> split(const box<D> &whole, const counts &parts, const counts &granules,
                                          std::index_sequence<d...>)
    {
        return {partition(whole.along[d], parts[d], granules[d])...};
    }

    std::array<partition, D> along_;
};

// The same parts in an array that has more than the grid: the box of a rank in
// an array with its halo, say. Indices count from the first element of `stored`,
// whose shape the array has, and parts at the ends have what lies outside.
template <std::size_t D>
class stored_grid {
public:
    // `stored` must contain split.whole().
    stored_grid(const grid_partition<D> &split, const box<D> &stored) : split_(split), stored_(stored) {}

    std::size_t elements() const noexcept { return stored_.size(); }
    std::size_t parts() const noexcept { return split_.parts(); }
    box<D> whole() const noexcept { return shifted(stored_); }
    box<D> of(std::size_t part) const
    {
        box<D> own = split_.of(part);
        const box<D> all = split_.whole();
        for (std::size_t d = 0; d < D; ++d)
            own.along[d] = stored_partition::outer(own.along[d], all.along[d], stored_.along[d]);
        return shifted(own);
    }

private:
    box<D> shifted(box<D> b) const noexcept
    {
        for (std::size_t d = 0; d < D; ++d)
            b.along[d] = b.along[d].relative_to(stored_.along[d].begin);
        return b;
    }
    grid_partition<D> split_;
    box<D> stored_;
};

} // namespace nearfar

#endif
