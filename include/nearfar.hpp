// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar.hpp - building blocks for OpenMP programs on NUMA machines.
//
// Headers only, no library to link but OpenMP, and that is optional: without it
// there is one thread. C++17, Linux on x86-64 and aarch64, GCC 9 or clang 14
// and later. Each header can be included alone.
//
//   partition.hpp    who works on which elements, with halo; cut at pages
//   grid.hpp         the same in two and three dimensions
//   ranked.hpp       an index for MPI over an index for OpenMP
//   parallel.hpp     part p for thread p; parallel_fill
//   first_touch.hpp  arrays whose pages lie with the owners of their parts
//   replicated.hpp   read-only tables: a copy on each node
//   interleaved.hpp  written tables: pages dealt to all nodes
//   node_local.hpp   arenas: memory of one node for many small objects
//   phase.hpp        a named part of the work, from here to the end of the scope
//   nodes.hpp        nodes, and where a page is
//   pages.hpp        memory fresh from the kernel
//
// First touch needs threads that stay: OMP_PROC_BIND=close OMP_PLACES=cores.
//
// An array of 1,000,000 elements for four threads, each of which reads a halo
// of 1,000 elements of its neighbours (the tests run what is fenced here):
//
// ```cpp
// const nearfar::partition split(1000000, 4);
// const std::size_t halo = 1000;
//
// //  thread                                       0       1       2       3
// const std::size_t initial_index[4]      = {      0, 250000, 500000, 750000};
// const std::size_t final_index[4]        = { 249999, 499999, 749999, 999999};
// const std::size_t initial_index_halo[4] = {      0, 249000, 499000, 749000};
// const std::size_t final_index_halo[4]   = { 250999, 500999, 750999, 999999};
//
// for (std::size_t t = 0; t < 4; ++t) {
//     assert(split.of(t).initial_index() == initial_index[t]);
//     assert(split.of(t).final_index() == final_index[t]);
//     assert(split.with_halo(t, halo).initial_index() == initial_index_halo[t]);
//     assert(split.with_halo(t, halo).final_index() == final_index_halo[t]);
// }
// ```
//
// The same split places the memory and divides the work:
//
// ```cpp
// const std::size_t n = 1000000, halo = 1000;
// const nearfar::partition split(n, nearfar::threads());
// nearfar::first_touch_vector<double> a(split, 0.0, "a"), b(split, 1.0, "b");
//
// nearfar::for_each_part(split, [&](std::size_t, nearfar::range own) {
//     const nearfar::range inner = intersection(own, {halo, n - halo});
//     for (std::size_t i = inner.begin; i < inner.end; ++i)
//         a[i] = b[i - halo] + b[i] + b[i + halo];
// });
// assert(a[halo] == 3.0 && a[halo - 1] == 0.0);
// ```
#ifndef NEARFAR_HPP
#define NEARFAR_HPP

#include "nearfar.h"
#include "nearfar/first_touch.hpp"
#include "nearfar/grid.hpp"
#include "nearfar/interleaved.hpp"
#include "nearfar/nodes.hpp"
#include "nearfar/pages.hpp"
#include "nearfar/parallel.hpp"
#include "nearfar/partition.hpp"
#include "nearfar/phase.hpp"
#include "nearfar/ranked.hpp"
#include "nearfar/replicated.hpp"
#if __has_include(<memory_resource>)
#include "nearfar/node_local.hpp"
#endif

#endif
