// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Partitions of one dimension, for threads and for ranks: what is promised of
// them, for every small case and some large ones.
#include <nearfar/parallel.hpp>
#include <nearfar/ranked.hpp>

#include <cstdint>
#include <vector>

#include "expectations.hpp"

using nearfar::partition;
using nearfar::range;

// Parts follow each other without gap or overlap, differ by a granule at most,
// are cut where they may be, and owner() is the inverse of of().
static void covers(const partition &split)
{
    const range whole = split.whole();
    std::size_t at = whole.begin;
    for (std::size_t p = 0; p < split.parts(); ++p) {
        const range own = split.of(p);
        EXPECT_EQUAL(own.begin, at);
        EXPECT(own.end >= own.begin);
        at = own.end;
        const bool allowed =
            at == whole.end || (at - whole.begin) % split.granule() == split.lead() % split.granule();
        EXPECT(allowed);
        if (p > 0) // by whole granules: those at both ends may be shorter
            EXPECT(own.size() <= split.of(0).size() + split.granule());
        for (std::size_t i = own.begin; i < own.end; ++i)
            EXPECT_EQUAL(split.owner(i), p);
    }
    EXPECT_EQUAL(at, whole.end);
}

static void every_small_partition()
{
    for (std::size_t elements = 0; elements <= 40; ++elements)
        for (std::size_t parts = 1; parts <= 9; ++parts)
            for (std::size_t granule = 1; granule <= 7; ++granule)
                for (std::size_t lead = 0; lead < granule; ++lead)
                    for (const std::size_t begin : {std::size_t(0), std::size_t(13)})
                        covers(partition({begin, begin + elements}, parts, granule, lead));
}

// What the compiler's runtime does with schedule(static), asked of itself.
static void as_schedule_static()
{
#ifdef _OPENMP
    for (const std::size_t elements : {0ul, 1ul, 2ul, 7ul, 8ul, 9ul, 100ul, 1001ul, 4096ul, 100003ul})
        for (int team = 1; team <= 9; ++team) {
            std::vector<std::size_t> thread(elements, SIZE_MAX);
            int got = 0;
#pragma omp parallel num_threads(team)
            {
#pragma omp single
                got = omp_get_num_threads();
#pragma omp for schedule(static)
                for (std::size_t i = 0; i < elements; ++i)
                    thread[i] = static_cast<std::size_t>(omp_get_thread_num());
            }
            const partition split(elements, static_cast<std::size_t>(got));
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < elements; ++i)
                wrong += split.owner(i) != thread[i];
            EXPECT_EQUAL(wrong, 0u);
        }
#endif
}

static void limits()
{
    EXPECT_THROWS(std::invalid_argument, partition(10, 0));
    EXPECT_THROWS(std::invalid_argument, partition(10, 1, 0));
    EXPECT_THROWS(std::invalid_argument, partition({0, 10}, 1, 4, 4));
    const partition four(10, 4);
    EXPECT_THROWS(std::out_of_range, four.of(4));
    EXPECT_THROWS(std::out_of_range, four.owner(10));
    // Nothing wraps at the end of size_t.
    for (const std::size_t granule : {std::size_t(1), std::size_t(4096), SIZE_MAX / 2, SIZE_MAX}) {
        const partition all(SIZE_MAX, 3, granule);
        EXPECT_EQUAL(all.of(0).begin, 0u);
        EXPECT_EQUAL(all.of(0).end, all.of(1).begin);
        EXPECT_EQUAL(all.of(1).end, all.of(2).begin);
        EXPECT_EQUAL(all.of(2).end, SIZE_MAX);
        EXPECT_EQUAL(all.owner(SIZE_MAX - 1), granule == SIZE_MAX ? 0u : 2u);
    }
}

static void halos()
{
    const partition split(100, 4);
    EXPECT(split.with_halo(0, 10) == range{0, 35});
    EXPECT(split.with_halo(1, 10) == range{15, 60});
    EXPECT(split.with_halo(3, 10) == range{65, 100});
    EXPECT(split.with_halo(1, 3, 0) == range{22, 50});
    EXPECT(split.with_halo(2, SIZE_MAX) == range{0, 100});
    // Nothing has no neighbours.
    EXPECT(partition(2, 4).with_halo(3, 1).empty());
    EXPECT((intersection(range{0, 5}, range{7, 9}).empty()));
    EXPECT((intersection(range{7, 9}, range{0, 5}).empty()));
    EXPECT((range{7, 9}.relative_to(7) == range{0, 2}));
}

// Each page has one owner, wherever the array begins.
struct three_words {
    double x, y, z;
};
template <class T>
static void one_owner_per_page(std::size_t elements, std::size_t parts, std::size_t page, std::size_t base)
{
    const T *const array = reinterpret_cast<const T *>(base);
    const partition split = base % page == 0 ? partition::page_aligned<T>(elements, parts, page)
                                             : partition::page_aligned<T>(array, elements, parts, page);
    covers(split);
    for (std::size_t p = 0; p + 1 < parts; ++p) {
        const std::size_t border = split.of(p).end;
        if (border > 0 && border < elements)
            EXPECT_EQUAL((base + border * sizeof(T)) % page, 0u);
    }
}
static void pages()
{
    for (const std::size_t page : {4096ul, 65536ul})
        for (const std::size_t parts : {1ul, 3ul, 4ul, 8ul})
            for (const std::size_t offset : {0ul, 16ul, 48ul, 4080ul}) {
                one_owner_per_page<double>(100003, parts, page, (1ul << 30) + offset);
                one_owner_per_page<char>(300003, parts, page, (1ul << 30) + offset);
                one_owner_per_page<three_words>(50001, parts, page, (1ul << 30) + offset);
            }
    EXPECT_EQUAL(partition::page_aligned<three_words>(1000, 2, 4096).granule(), 512u);
    const double *const odd = reinterpret_cast<const double *>(std::uintptr_t(4100)); // never on a boundary
    EXPECT_THROWS(std::invalid_argument, partition::page_aligned<double>(odd, 1000, 2, 4096));
}

// Every rank's part, its threads' parts and what is exchanged, against a plain
// simulation: each rank has an array, and after the exchange each element of
// its halo has the right value.
static void ranks(std::size_t elements, std::size_t ranks, std::size_t threads, std::size_t halo, std::size_t granule)
{
    const nearfar::ranked_partition split(elements, ranks, threads, halo, granule);
    const partition flat(elements, ranks);
    std::vector<std::vector<std::size_t>> arrays;
    for (std::size_t r = 0; r < ranks; ++r) {
        EXPECT(split.of(r) == flat.of(r));
        const auto array = split.array_of(r);
        arrays.emplace_back(array.elements(), SIZE_MAX);
        EXPECT_EQUAL(array.elements(), split.with_halo(r).size());
        std::size_t at = split.of(r).begin, stored = 0;
        for (std::size_t t = 0; t < threads; ++t) {
            const range own = split.of(r, t);
            if (own.empty())
                continue;
            EXPECT_EQUAL(own.begin, at);
            at = own.end;
            for (std::size_t i = own.begin; i < own.end; ++i)
                arrays[r][split.local(r, own).begin + i - own.begin] = i;
            EXPECT(split.with_halo(r, t) == widened(own, halo, halo, {0, elements}));
            // First touch covers the array, in the order of use.
            const range touched = array.of(t), local = split.local(r, own);
            EXPECT_EQUAL(touched.begin, stored);
            stored = touched.end;
            EXPECT(touched.begin <= local.begin && touched.end >= local.end);
            if (stored != array.elements())
                EXPECT_EQUAL(stored % granule, 0u);
        }
        EXPECT_EQUAL(at, split.of(r).end);
        EXPECT_EQUAL(stored, array.elements());
    }
    const auto before = arrays;
    for (std::size_t r = 0; r < ranks; ++r)
        for (const nearfar::exchange &x : split.exchanges(r)) {
            // What I receive from you is what you send to me.
            bool answered = false;
            for (const nearfar::exchange &y : split.exchanges(x.peer))
                answered |= y.peer == r && y.send == x.receive && y.receive == x.send;
            EXPECT(answered && !x.receive.empty());
            const range from = split.local(x.peer, x.receive), to = split.local(r, x.receive);
            for (std::size_t i = 0; i < from.size(); ++i)
                arrays[r][to.begin + i] = before[x.peer][from.begin + i];
        }
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < arrays[r].size(); ++i)
            wrong += arrays[r][i] != split.with_halo(r).begin + i;
    EXPECT_EQUAL(wrong, 0u);
}

// Part p is thread p's, each once, whatever team there is.
static void teams()
{
    for (const std::size_t parts : {1ul, 2ul, 3ul, 7ul}) {
        const partition split(1001, parts);
        std::vector<int> seen(1001, 0);
        std::vector<int> *const all = &seen;
        nearfar::for_each_part(split, [&](std::size_t part, range own) {
            EXPECT(own == split.of(part));
            for (std::size_t i = own.begin; i < own.end; ++i)
                ++(*all)[i];
        });
        for (const int n : seen)
            EXPECT_EQUAL(n, 1);
    }
    EXPECT(nearfar::threads() >= 1);
    const partition one(10, 1), two(10, 2);
    EXPECT((nearfar::mine(one) == range{0, 10}));
    EXPECT_THROWS(std::logic_error, nearfar::mine(two));
#ifdef _OPENMP
    std::size_t wrong = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    if (omp_get_num_threads() == 2)
        wrong += nearfar::mine(two) != two.of(static_cast<std::size_t>(omp_get_thread_num()));
    EXPECT_EQUAL(wrong, 0u);
#endif
}

int main()
{
    every_small_partition();
    as_schedule_static();
    limits();
    halos();
    pages();
    for (const std::size_t elements : {0ul, 1ul, 5ul, 64ul, 1000ul})
        for (const std::size_t r : {1ul, 2ul, 3ul, 8ul})
            for (const std::size_t threads : {1ul, 3ul, 4ul})
                for (const std::size_t halo : {0ul, 1ul, 7ul, 300ul})
                    for (const std::size_t granule : {1ul, 4ul, 16ul})
                        ranks(elements, r, threads, halo, granule);
    EXPECT_THROWS(std::invalid_argument, nearfar::ranked_partition(10, 0, 1));
    EXPECT_THROWS(std::invalid_argument, nearfar::ranked_partition(10, 1, 0));
    EXPECT_THROWS(std::invalid_argument, nearfar::ranked_partition(10, 1, 1, 0, 0));
    teams();
    return expectations::report("partitions");
}
