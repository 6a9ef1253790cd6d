// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/partition.hpp - who works on which elements of an array.
//
// Pure arithmetic: no OpenMP, no MPI, no system call. Ranges are half-open,
// [begin, end). All functions take constant time unless they say otherwise.
#ifndef NEARFAR_PARTITION_HPP
#define NEARFAR_PARTITION_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>

namespace nearfar {

// The elements begin, begin + 1, ... end - 1.
struct range {
    std::size_t begin = 0;
    std::size_t end = 0;

    constexpr std::size_t size() const noexcept { return end > begin ? end - begin : 0; }
    constexpr bool empty() const noexcept { return end <= begin; }
    constexpr bool contains(std::size_t index) const noexcept { return index >= begin && index < end; }

    // The first and the last element. An empty range has neither: its
    // final_index() is one less than its initial_index(), and both wrap at 0.
    // Loops are better written with begin and end.
    constexpr std::size_t initial_index() const noexcept { return begin; }
    constexpr std::size_t final_index() const noexcept { return end - 1; }

    // The same elements, counted from `origin`, which must not lie behind begin.
    constexpr range relative_to(std::size_t origin) const noexcept { return {begin - origin, end - origin}; }

    friend constexpr bool operator==(range a, range b) noexcept { return a.begin == b.begin && a.end == b.end; }
    friend constexpr bool operator!=(range a, range b) noexcept { return !(a == b); }
};

// What both have; empty, somewhere, if that is nothing.
constexpr range intersection(range a, range b) noexcept
{
    const std::size_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
    return {begin, std::max(begin, end)};
}

// `part` with `low` elements more in front and `high` more behind, as far as
// `domain` has them. Nothing has no neighbours: an empty part stays empty.
constexpr range widened(range part, std::size_t low, std::size_t high, range domain) noexcept
{
    if (part.empty())
        return part;
    return {part.begin - std::min(low, part.begin - domain.begin), part.end + std::min(high, domain.end - part.end)};
}

// An array cut into contiguous parts, one for each thread or rank. Parts cover
// the array and never overlap. They have the same number of granules, the first
// ones one more where it does not come out even; with a granule of one element
// that is what schedule(static) without a chunk does in GCC's and LLVM's
// runtimes, so loops of both kinds agree. Parts at the end are empty if there
// are more parts than granules.
class partition {
public:
    // `parts` parts of the elements 0 ... elements - 1, cut only at multiples of
    // `granule` elements: a cache line, a page, a block of the algorithm.
    // Throws std::invalid_argument for 0 parts or a granule of 0.
    partition(std::size_t elements, std::size_t parts, std::size_t granule = 1)
        : partition(range{0, elements}, parts, granule)
    {
    }

    // The same for a part of an array; what another partition gave to one
    // rank, say. The first cut may lie `lead` elements after its begin, the
    // others `granule` apart from there. lead must be less than granule.
    partition(range whole, std::size_t parts, std::size_t granule = 1, std::size_t lead = 0)
        : whole_(whole), parts_(parts), granule_(granule), lead_(lead)
    {
        if (parts == 0 || granule == 0 || lead >= granule)
            throw std::invalid_argument("nearfar::partition: parts and granule must be above 0 and lead below granule");
        const std::size_t rest = whole_.size() - std::min(lead_, whole_.size());
        const std::size_t granules = rest / granule_ + (rest % granule_ != 0) + (lead_ != 0 && !whole_.empty());
        each_ = granules / parts_;
        larger_ = granules % parts_;
    }

    // Cut at page boundaries, for an array of T whose element 0 is at the start
    // of a page, as the memory of nearfar/first_touch.hpp is. With the size of
    // huge pages for `page_bytes` no huge page has two owners; parts then
    // differ by up to one huge page.
    //
    // Where T does not divide a page, an element straddles most page boundaries
    // and cuts lie several pages apart: 3 pages for 24 bytes.
    template <class T>
    static partition page_aligned(std::size_t elements, std::size_t parts, std::size_t page_bytes)
    {
        return partition(elements, parts, page_bytes / std::gcd(page_bytes, sizeof(T)));
    }

    // The same for an array that begins anywhere: the first part also has the
    // elements before the first boundary. Throws std::invalid_argument if no
    // element begins on a page boundary. Takes up to page_bytes steps.
    template <class T>
    static partition page_aligned(const T *base, std::size_t elements, std::size_t parts, std::size_t page_bytes)
    {
        const std::size_t granule = page_bytes / std::gcd(page_bytes, sizeof(T));
        const std::size_t offset = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(base) % page_bytes);
        for (std::size_t lead = 0; lead < granule; ++lead)
            if ((offset + lead * sizeof(T)) % page_bytes == 0)
                return partition(range{0, elements}, parts, granule, lead);
        throw std::invalid_argument("nearfar::partition: no element of this array begins on a page boundary");
    }

    std::size_t elements() const noexcept { return whole_.size(); }
    std::size_t parts() const noexcept { return parts_; }
    std::size_t granule() const noexcept { return granule_; }
    std::size_t lead() const noexcept { return lead_; }
    range whole() const noexcept { return whole_; }

    // The elements of a part. Throws std::out_of_range.
    range of(std::size_t part) const
    {
        if (part >= parts_)
            throw std::out_of_range("nearfar::partition: no part " + std::to_string(part) + " of " +
                                    std::to_string(parts_));
        const std::size_t first = part * each_ + std::min(part, larger_);
        return {cut(first), cut(first + each_ + (part < larger_))};
    }

    // The same and its neighbours' elements next to it, which it reads but does
    // not own. Neighbours may be several parts. Clipped where the array ends.
    range with_halo(std::size_t part, std::size_t halo) const { return with_halo(part, halo, halo); }
    range with_halo(std::size_t part, std::size_t low, std::size_t high) const
    {
        return widened(of(part), low, high, whole_);
    }

    // The part that has this element. Throws std::out_of_range.
    std::size_t owner(std::size_t index) const
    {
        if (!whole_.contains(index))
            throw std::out_of_range("nearfar::partition: no element " + std::to_string(index));
        const std::size_t at = index - whole_.begin;
        const std::size_t g = at < lead_ ? 0 : (at - lead_) / granule_ + (lead_ != 0);
        const std::size_t in_larger = larger_ * (each_ + 1);
        return g < in_larger ? g / (each_ + 1) : larger_ + (g - in_larger) / each_;
    }

private:
    // Where granule g begins; the end of the array for all behind the last.
    std::size_t cut(std::size_t g) const noexcept
    {
        if (lead_ != 0 && g > 0)
            return offset(lead_, g - 1);
        return offset(0, g);
    }
    std::size_t offset(std::size_t start, std::size_t g) const noexcept
    {
        // Without multiplying first: near the end of size_t that would wrap.
        if (start >= whole_.size() || g > (whole_.size() - start) / granule_)
            return whole_.end;
        return whole_.begin + start + g * granule_;
    }

    range whole_;
    std::size_t parts_, granule_, lead_;
    std::size_t each_ = 0;   // granules of a part
    std::size_t larger_ = 0; // parts that have one more
};

// The parts of a partition in an array that has more than they: a rank's part
// and its halo, say. Element 0 is the first of `stored`, and parts at the ends
// have what lies outside of them, so that one of them touches it first.
class stored_partition {
public:
    // `stored` must contain split.whole().
    stored_partition(const partition &split, range stored) : split_(split), stored_(stored) {}

    std::size_t elements() const noexcept { return stored_.size(); }
    std::size_t parts() const noexcept { return split_.parts(); }
    range whole() const noexcept { return {0, stored_.size()}; }
    range of(std::size_t part) const
    {
        return outer(split_.of(part), split_.whole(), stored_).relative_to(stored_.begin);
    }

    // `part` of `whole`, and what `stored` has beside it if it is at an end.
    static constexpr range outer(range part, range whole, range stored) noexcept
    {
        if (part.empty()) // begins at an end, where relative_to cannot wrap
            return part;
        return {part.begin == whole.begin ? stored.begin : part.begin, part.end == whole.end ? stored.end : part.end};
    }

private:
    partition split_;
    range stored_;
};

} // namespace nearfar

#endif
