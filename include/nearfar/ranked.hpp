// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/ranked.hpp - an index for MPI over an index for OpenMP.
//
// Needs no MPI: ranks are numbers.
#ifndef NEARFAR_RANKED_HPP
#define NEARFAR_RANKED_HPP

#include <vector>

#include "partition.hpp"

namespace nearfar {

// What a rank sends to another and receives from it before it can use its
// halo, in indices of the whole array.
struct exchange {
    std::size_t peer;
    range send;
    range receive;
};

// An index for MPI over an index for OpenMP: the array is split among ranks,
// and each rank's part among its threads. A rank needs memory for its part and
// a halo; threads share it, so that halos are exchanged between ranks alone.
//
// Ranks and threads are numbers here: pass what MPI_Comm_rank and
// omp_get_thread_num give, or anything else.
class ranked_partition {
public:
    // `halo` elements on each side. Threads' borders are at multiples of
    // `granule` elements of the rank's own array, of which element 0 is the
    // first one of its halo: with a page's elements each page has one owner.
    // Throws std::invalid_argument for no ranks, no threads or no granule.
    ranked_partition(std::size_t elements, std::size_t ranks, std::size_t threads, std::size_t halo = 0,
                     std::size_t granule = 1)
        : ranks_(elements, ranks), threads_(threads), halo_(halo), granule_(granule)
    {
        static_cast<void>(inside(0)); // throws now what it would throw in a loop
    }

    std::size_t ranks() const noexcept { return ranks_.parts(); }
    std::size_t threads() const noexcept { return threads_; }
    std::size_t halo() const noexcept { return halo_; }

    // In indices of the whole array: what a rank has, what one of its threads
    // has, and both with what they read of their neighbours. with_halo(rank) is
    // what a rank needs memory for. All throw std::out_of_range.
    range of(std::size_t rank) const { return ranks_.of(rank); }
    range of(std::size_t rank, std::size_t thread) const { return inside(rank).of(thread); }
    range with_halo(std::size_t rank) const { return ranks_.with_halo(rank, halo_); }
    range with_halo(std::size_t rank, std::size_t thread) const
    {
        return widened(of(rank, thread), halo_, halo_, ranks_.whole());
    }

    // In indices of the rank's own array: the same elements.
    range local(std::size_t rank, range part) const { return part.relative_to(with_halo(rank).begin); }

    // The rank's own array, element 0 the first of its halo, split for first
    // touch: to parallel_fill and first_touch_vector what a partition is.
    stored_partition array_of(std::size_t rank) const { return {inside(rank), with_halo(rank)}; }

    // Which ranks exchange what with this rank, nearest below to farthest above; a
    // halo longer than the neighbour's part comes from several. Takes a step
    // for each peer.
    std::vector<exchange> exchanges(std::size_t rank) const
    {
        std::vector<exchange> all;
        const range own = of(rank), read = with_halo(rank);
        if (own.empty())
            return all;
        for (std::size_t peer = ranks_.owner(read.begin); peer <= ranks_.owner(read.end - 1); ++peer)
            if (peer != rank && !of(peer).empty())
                all.push_back({peer, intersection(own, with_halo(peer)), intersection(of(peer), read)});
        return all;
    }

private:
    partition inside(std::size_t rank) const
    {
        const std::size_t before = of(rank).begin - with_halo(rank).begin;
        const std::size_t lead = granule_ == 0 ? 0 : (granule_ - before % granule_) % granule_;
        return partition(of(rank), threads_, granule_, lead);
    }

    partition ranks_;
    std::size_t threads_, halo_, granule_;
};

} // namespace nearfar

#endif
