// SPDX-License-Identifier: MIT OR Apache-2.0
//
// building-blocks: what nearfar.hpp is for, one case each (flag --case).
//
// Nothing is wrong here; `openmp`, `table` and `arenas` show what goes wrong
// without. Remote share of the traffic on N nodes, threads pinned compactly:
//  halo         Each thread works on its part of an array and reads `halo`
//               elements of its neighbours: example 4 of `openmp` put right.
//               Three lines for 8 elements (b read, a read and written), so
//               2 (N-1) halo / (3 elements).
//  grid         The same in three dimensions. The program prints how many
//               elements of other threads' parts it reads; a third of their
//               share, where each thread is a node of its own, else less.
//  replicated   Random look-ups in a table of which each node has a copy: 0.
//               The main thread writes all copies; their place is a policy.
//  interleaved  Random additions to one table: (N-1)/N, by all controllers.
//  arenas       Small objects that the main thread makes for all threads, each
//               in its user's arena: 0, though one thread touches all first.

#include "../include/nearfar.hpp"

#include <algorithm>
#include <atomic>
#include <memory_resource>

#include "common.hpp"

using nearfar::range;

static double start_value(std::size_t i) { return static_cast<double>(i % 1021); }

template <class Split, class Work>
static void timed(std::size_t iterations, const Split &split, Work work)
{
    const double start = workload::wall_seconds();
    nearfar_begin();
    for (std::size_t k = 0; k < iterations; ++k)
        nearfar::for_each_part(split, [&](std::size_t part, const auto &own) { work(k, part, own); });
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);
}

[[gnu::noinline]] static void add_neighbours(double *__restrict a, const double *__restrict b, range own,
                                              std::size_t halo, double step)
{
    for (std::size_t i = own.begin; i < own.end; ++i)
        a[i] = b[i - halo] + b[i] + b[i + halo] + step;
}

static int with_halo(workload::Arguments &arguments)
{
    const std::size_t n = arguments.count("--elements", std::size_t(1) << 20);
    const std::size_t halo = arguments.count("--halo", 1000, 0);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const std::size_t threads = static_cast<std::size_t>(arguments.threads());
    arguments.finish();
    if (halo >= (n + 1) / 2)
        arguments.fail("--halo leaves nothing of " + std::to_string(n) + " elements");
    workload::product(arguments, {sizeof(double), n});

    const auto split = nearfar::partition::page_aligned<double>(n, threads, nearfar::page_size());
    nearfar::first_touch_vector<double> a(split, -1.0, "a");
    const auto b = nearfar::first_touch_vector<double>::generate(split, start_value, "b");
    std::printf("case=halo elements=%zu halo=%zu iterations=%zu threads=%zu\n", n, halo, iterations, threads);
    timed(iterations, split, [&](std::size_t k, std::size_t, range own) {
        add_neighbours(a.data(), b.data(), intersection(own, {halo, n - halo}), halo, static_cast<double>(k));
    });

    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const bool inside = i >= halo && i < n - halo;
        wrong += a[i] != (inside ? start_value(i - halo) + start_value(i) + start_value(i + halo) +
                                       static_cast<double>(iterations - 1)
                                 : -1.0);
    }
    return workload::verdict(wrong, n, "elements");
}

// A star of arms of one length; only the ends of its arms, which need as much halo as all of it.
struct Star {
    std::size_t n[3], arm;
    std::size_t at(std::size_t x, std::size_t y, std::size_t z) const { return x + n[0] * (y + n[1] * z); }
    range inner(std::size_t d) const { return {arm, n[d] - arm}; }
    double sum(const double *b, std::size_t c) const
    {
        const std::size_t dx = arm, dy = arm * n[0], dz = arm * n[0] * n[1];
        return b[c] + b[c - dx] + b[c + dx] + b[c - dy] + b[c + dy] + b[c - dz] + b[c + dz];
    }
};

[[gnu::noinline]] static void apply_star(double *__restrict a, const double *__restrict b, const Star &star,
                                          const nearfar::box<3> &own, double step)
{
    const range xs = intersection(own.x(), star.inner(0)), ys = intersection(own.y(), star.inner(1)),
                zs = intersection(own.z(), star.inner(2));
    for (std::size_t z = zs.begin; z < zs.end; ++z)
        for (std::size_t y = ys.begin; y < ys.end; ++y)
            for (std::size_t x = xs.begin; x < xs.end; ++x)
                a[star.at(x, y, z)] = star.sum(b, star.at(x, y, z)) + step;
}

static int on_grid(workload::Arguments &arguments)
{
    const Star star = {{arguments.count("--nx", 128), arguments.count("--ny", 64), arguments.count("--nz", 64)},
                       arguments.count("--halo", 1)};
    const std::size_t iterations = arguments.count("--iterations", 4);
    const std::size_t threads = static_cast<std::size_t>(arguments.threads());
    arguments.finish();
    if (2 * star.arm >= std::min({star.n[0], star.n[1], star.n[2]}))
        arguments.fail("--halo leaves nothing of the grid");
    workload::product(arguments, {sizeof(double), star.n[0], star.n[1], star.n[2]});

    const auto split = nearfar::grid_partition<3>::evenly({star.n[0], star.n[1], star.n[2]}, threads);
    nearfar::first_touch_vector<double> a(split, -1.0, "a");
    const auto b = nearfar::first_touch_vector<double>::generate(split, start_value, "b");
    const auto parts = split.parts_along();
    std::size_t read = 0;
    for (std::size_t part = 0; part < split.parts(); ++part)
        for (const auto &x : split.exchanges(part, split.filled(star.arm)))
            read += x.receive.size();
    std::printf("case=grid extents=%zux%zux%zu parts=%zux%zux%zu halo=%zu iterations=%zu threads=%zu\n", star.n[0],
                star.n[1], star.n[2], parts[0], parts[1], parts[2], star.arm, iterations, threads);
    std::printf("read of other parts: %zu of %zu elements\n", read, split.elements());
    timed(iterations, split, [&](std::size_t k, std::size_t, const nearfar::box<3> &own) {
        apply_star(a.data(), b.data(), star, own, static_cast<double>(k));
    });

    std::size_t wrong = 0;
    for (std::size_t z = 0; z < star.n[2]; ++z)
        for (std::size_t y = 0; y < star.n[1]; ++y)
            for (std::size_t x = 0; x < star.n[0]; ++x) {
                const bool inside =
                    star.inner(0).contains(x) && star.inner(1).contains(y) && star.inner(2).contains(z);
                const std::size_t c = star.at(x, y, z);
                wrong += a[c] != (inside ? star.sum(b.data(), c) + static_cast<double>(iterations - 1) : -1.0);
            }
    return workload::verdict(wrong, split.elements(), "elements");
}

// The k-th look-up of a thread.
static std::size_t place_of(std::size_t thread, std::size_t k, std::size_t entries)
{
    return static_cast<std::size_t>(workload::scramble((thread << 40) + k) % entries);
}

// One part each, of nothing: a team.
static nearfar::partition team_of(std::size_t threads) { return nearfar::partition(threads, threads); }

static int with_copies(workload::Arguments &arguments)
{
    const std::size_t entries = arguments.count("--entries", std::size_t(1) << 20);
    const std::size_t lookups = arguments.count("--lookups", 100000);
    const std::size_t threads = static_cast<std::size_t>(arguments.threads());
    arguments.finish();
    workload::product(arguments, {sizeof(std::uint64_t), entries});

    std::vector<std::uint64_t> table(entries);
    for (std::size_t i = 0; i < entries; ++i)
        table[i] = workload::scramble(i);
    const nearfar::replicated_array<std::uint64_t> copies(table.data(), entries, "table");
    std::printf("case=replicated entries=%zu lookups=%zu threads=%zu copies=%zu placed=%s\n", entries, lookups, threads,
                copies.copies(), copies.placed() ? "yes" : "no");
    std::vector<std::uint64_t> sums(threads);
    timed(1, team_of(threads), [&](std::size_t, std::size_t t, range) {
        const std::uint64_t *const local = copies.local();
        std::uint64_t sum = 0;
        for (std::size_t k = 0; k < lookups; ++k)
            sum += local[place_of(t, k, entries)];
        sums[t] = sum;
    });

    std::size_t wrong = 0;
    for (std::size_t t = 0; t < threads; ++t) {
        for (std::size_t k = 0; k < lookups; ++k)
            sums[t] -= table[place_of(t, k, entries)];
        wrong += sums[t] != 0;
    }
    return workload::verdict(wrong, threads, "sums");
}

static int interleaved(workload::Arguments &arguments)
{
    const std::size_t entries = arguments.count("--entries", std::size_t(1) << 20);
    const std::size_t lookups = arguments.count("--lookups", 100000);
    const std::size_t threads = static_cast<std::size_t>(arguments.threads());
    arguments.finish();
    workload::product(arguments, {sizeof(std::uint64_t), entries});

    using Count = std::atomic<std::uint64_t>;
    std::vector<Count, nearfar::interleaved_allocator<Count>> counts(entries);
    nearfar_name(counts.data(), entries * sizeof(Count), "counts");
    std::printf("case=interleaved entries=%zu lookups=%zu threads=%zu placed=%s\n", entries, lookups, threads,
                counts.get_allocator().placed() ? "yes" : "no");
    timed(1, team_of(threads), [&](std::size_t, std::size_t t, range) {
        for (std::size_t k = 0; k < lookups; ++k)
            counts[place_of(t, k, entries)].fetch_add(k, std::memory_order_relaxed);
    });

    for (std::size_t t = 0; t < threads; ++t)
        for (std::size_t k = 0; k < lookups; ++k)
            counts[place_of(t, k, entries)].fetch_sub(k, std::memory_order_relaxed);
    std::size_t wrong = 0;
    for (const Count &count : counts)
        wrong += count.load() != 0;
    return workload::verdict(wrong, entries, "counts");
}

static int in_arenas(workload::Arguments &arguments)
{
    constexpr std::size_t LENGTH = 57; // of an object: pages have whole ones and pieces
    const std::size_t objects = arguments.count("--objects", 4000);
    const std::size_t iterations = arguments.count("--iterations", 4);
    const std::size_t threads = static_cast<std::size_t>(arguments.threads());
    arguments.finish();
    workload::product(arguments, {sizeof(double), LENGTH, threads, objects});

    nearfar::node_local_arenas arenas(std::size_t(1) << 20, "arena");
    std::vector<nearfar::node_local_arena *> nearest(threads);
    nearfar::for_each_part(team_of(threads), [&](std::size_t t, range) { nearest[t] = &arenas.local(); });
    std::vector<std::pmr::vector<std::pmr::vector<double>>> lists;
    for (std::size_t t = 0; t < threads; ++t) {
        lists.emplace_back(nearest[t]); // hands its arena on to what it holds
        lists[t].reserve(objects);
        for (std::size_t i = 0; i < objects; ++i)
            lists[t].emplace_back(LENGTH, start_value(i));
    }
    bool placed = true;
    for (const nearfar::node_local_arena *arena : nearest)
        placed &= arena->placed();
    std::printf("case=arenas objects=%zu iterations=%zu threads=%zu placed=%s\n", objects, iterations, threads,
                placed ? "yes" : "no");
    timed(iterations, team_of(threads), [&](std::size_t, std::size_t t, range) {
        for (auto &list : lists[t])
            for (double &value : list)
                value += 1.0;
    });

    std::size_t wrong = 0;
    for (const auto &list : lists)
        for (std::size_t i = 0; i < objects; ++i)
            wrong += std::count(list[i].begin(), list[i].end(), start_value(i) + static_cast<double>(iterations)) !=
                     static_cast<std::ptrdiff_t>(LENGTH);
    return workload::verdict(wrong, threads * objects, "objects");
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "building-blocks",
                                  "[--threads T] --case CASE, one of\n"
                                  "  halo         [--elements N] [--halo H] [--iterations K]\n"
                                  "  grid         [--nx N] [--ny N] [--nz N] [--halo H] [--iterations K]\n"
                                  "  replicated   [--entries N] [--lookups K]\n"
                                  "  interleaved  [--entries N] [--lookups K]\n"
                                  "  arenas       [--objects N] [--iterations K]");
    const std::string which = arguments.choice("--case", {"halo", "grid", "replicated", "interleaved", "arenas"});
    return which == "halo"         ? with_halo(arguments)
           : which == "grid"       ? on_grid(arguments)
           : which == "replicated" ? with_copies(arguments)
           : which == "arenas"     ? in_arenas(arguments)
                                   : interleaved(arguments);
}
