// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What several threads may use at once, used by std::thread, whose
// synchronisation the thread sanitizer sees. (GCC's OpenMP runtime is not built
// for it: barriers of a team look like races.)
#include <nearfar.hpp>

#include <cstring>
#include <thread>
#include <vector>

#include "expectations.hpp"

template <class F>
static void with_threads(std::size_t count, F f)
{
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < count; ++t)
        all.emplace_back([&f, t] { f(t); });
    for (std::thread &thread : all)
        thread.join();
}

int main()
{
    constexpr std::size_t TEAM = 4, OBJECTS = 2000;
    // One arena: objects do not overlap.
    nearfar::node_local_arenas arenas(20000, "race");
    std::vector<std::vector<unsigned char *>> mine(TEAM);
    with_threads(TEAM, [&](std::size_t t) {
        for (std::size_t i = 0; i < OBJECTS; ++i) {
            nearfar::node_local_arena &arena = arenas.local();
            mine[t].push_back(static_cast<unsigned char *>(arena.allocate(1 + i % 97, 1)));
            std::memset(mine[t].back(), static_cast<int>(t), 1 + i % 97);
            EXPECT(arena.reserved() > 0);
        }
    });
    std::size_t wrong = 0;
    for (std::size_t t = 0; t < TEAM; ++t)
        for (std::size_t i = 0; i < OBJECTS; ++i)
            for (std::size_t b = 0; b < 1 + i % 97; ++b)
                wrong += mine[t][i][b] != t;
    EXPECT_EQUAL(wrong, 0u);

    // Copies are read by all; allocators' state is shared.
    const std::vector<int> table(5000, 3);
    const nearfar::replicated_array<int> copies(table.data(), table.size());
    const nearfar::interleaved_allocator<int> allocator;
    with_threads(TEAM, [&](std::size_t) {
        const int *const local = copies.local();
        int sum = 0;
        for (std::size_t i = 0; i < copies.size(); ++i)
            sum += local[i];
        EXPECT_EQUAL(sum, 15000);
        const std::vector<int, nearfar::interleaved_allocator<int>> v(5000, 1, allocator);
        static_cast<void>(v.get_allocator().placed());
        EXPECT(nearfar::huge_page_size() >= nearfar::page_size());
    });

    // Parts are written by their threads, one each.
    const nearfar::partition split(100003, TEAM);
    std::vector<int> array(split.elements());
    with_threads(TEAM, [&](std::size_t t) {
        for (std::size_t i = split.of(t).begin; i < split.of(t).end; ++i)
            array[i] = static_cast<int>(t);
    });
    EXPECT(array.front() == 0 && array.back() == TEAM - 1);
    return expectations::report("races");
}
