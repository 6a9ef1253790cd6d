// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/parallel.hpp - part p for thread p, with OpenMP or without.
//
// A split is anything with parts() and of(part): partition, grid_partition,
// stored_partition, stored_grid. Compiled without OpenMP there is one thread,
// and the results are the same.
#ifndef NEARFAR_PARALLEL_HPP
#define NEARFAR_PARALLEL_HPP

#ifdef _OPENMP
#include <omp.h>
#endif

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "grid.hpp"
#include "partition.hpp"

namespace nearfar {

// How many threads the next parallel region has, as far as one can know: the
// number of parts to ask a partition for.
inline std::size_t threads() noexcept
{
#ifdef _OPENMP
    return static_cast<std::size_t>(omp_get_max_threads());
#else
    return 1;
#endif
}

// The calling thread's part, inside a parallel region of one's own:
//
//   #pragma omp parallel
//   {
//       const nearfar::range own = nearfar::mine(split);
//       for (std::size_t i = own.begin; i < own.end; ++i) ...
//   }
//
// The team must have as many threads as the split has parts, or some parts
// would have no thread: throws std::logic_error otherwise, which inside a region
// ends the program.
template <class Split>
auto mine(const Split &split)
{
#ifdef _OPENMP
    const std::size_t thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t team = static_cast<std::size_t>(omp_get_num_threads());
#else
    const std::size_t thread = 0, team = 1;
#endif
    if (team != split.parts())
        throw std::logic_error("nearfar::mine: " + std::to_string(split.parts()) + " parts, but the team has " +
                               std::to_string(team) + " thread(s); nearfar::for_each_part takes any team");
    return split.of(thread);
}

// Calls work(p, split.of(p)) once for every part p, part p by thread p of a new
// team of as many threads. If OpenMP gives fewer, each takes several parts: the
// result is right, but parts may be far from their threads. Returns when all is
// done. `work` must not throw. Call it outside parallel regions; inside of one
// it is one thread's work, unless nested parallelism is on.
//
// Threads keep their numbers from region to region, and their places if they
// are pinned (OMP_PROC_BIND=close, OMP_PLACES=cores): all of first touch rests
// on that.
template <class Split, class Work>
void for_each_part(const Split &split, Work &&work)
{
    const std::size_t parts = split.parts();
#ifdef _OPENMP
#pragma omp parallel num_threads(static_cast<int>(parts))
    {
        const std::size_t team = static_cast<std::size_t>(omp_get_num_threads());
        for (std::size_t part = static_cast<std::size_t>(omp_get_thread_num()); part < parts; part += team)
            work(part, split.of(part));
    }
#else
    for (std::size_t part = 0; part < parts; ++part)
        work(part, split.of(part));
#endif
}

// Calls row(begin, end) for each run of consecutive elements that a part has
// in its array: one for a range, one per row in x for a box.
template <class Split, class Row>
void for_each_row(const Split &, range own, Row &&row)
{
    if (!own.empty())
        row(own.begin, own.end);
}
template <class Split, std::size_t D, class Row>
void for_each_row(const Split &split, const box<D> &own, Row &&row)
{
    if (own.empty())
        return;
    const box<D> all = split.whole();
    std::array<std::size_t, D> at{};
    for (std::size_t d = 0; d < D; ++d)
        at[d] = own.along[d].begin;
    for (;;) {
        std::size_t first = 0;
        for (std::size_t d = D; d-- > 0;)
            first = first * all.along[d].size() + (at[d] - all.along[d].begin);
        row(first, first + own.along[0].size());
        std::size_t d = 1;
        while (d < D && ++at[d] == own.along[d].end) {
            at[d] = own.along[d].begin;
            ++d;
        }
        if (d >= D)
            return;
    }
}

// Writes array[i] = value for all elements, each by its owner: if the memory is
// fresh from the kernel, its pages then are on their owners' nodes. A page with
// two owners goes to the one who comes first. For memory of malloc, new or
// std::vector it is too late: that may have been touched before.
//
// `array` is element 0: of the whole array for a partition of a part of it,
// of an array in the grid's own shape for a grid_partition of a box.
template <class T, class Split>
void parallel_fill(T *array, const Split &split, const T &value)
{
    const T copy = value; // `value` may be an element of the array
    for_each_part(split, [&](std::size_t, const auto &own) {
        for_each_row(split, own,
                     [&](std::size_t begin, std::size_t end) { std::fill(array + begin, array + end, copy); });
    });
}

// The same with array[i] = element(i), which must not throw. `i` counts from
// the array's first element.
template <class T, class Split, class Element>
void parallel_generate(T *array, const Split &split, Element &&element)
{
    for_each_part(split, [&](std::size_t, const auto &own) {
        for_each_row(split, own, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i)
                array[i] = static_cast<T>(element(i));
        });
    });
}

} // namespace nearfar

#endif
