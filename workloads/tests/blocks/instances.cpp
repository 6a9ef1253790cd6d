// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Every template of nearfar.hpp with some type, for the compilers: they check
// only what is used. It is never run.
#include <nearfar.hpp>

struct words {
    double x, y, z;
};

template class nearfar::grid_partition<2>;
template class nearfar::grid_partition<3>;
template class nearfar::stored_grid<2>;
template class nearfar::stored_grid<3>;
template class nearfar::first_touch_vector<double>;
template class nearfar::first_touch_vector<words>;
template class nearfar::first_touch_allocator<char>;
template class nearfar::interleaved_allocator<words>;
template class nearfar::replicated_array<words>;
template class nearfar::replicated<words>;

template <class Split>
double all_of(const Split &split)
{
    nearfar::first_touch_vector<double> a(split, 1.0, "a");
    auto b = nearfar::first_touch_vector<float>::generate(split, [](std::size_t i) { return static_cast<float>(i); });
    nearfar::parallel_fill(a.data(), split, 2.0);
    nearfar::parallel_generate(b.data(), split, [&](std::size_t i) { return static_cast<float>(a[i]); });
    static_cast<void>(nearfar::mine(split));
    return a[0] + static_cast<double>(b[0]);
}

int main()
{
    const nearfar::partition line(100, 2, 4), pages = nearfar::partition::page_aligned<words>(100, 2, 4096);
    const nearfar::grid_partition<3> grid = nearfar::grid_partition<3>::evenly({8, 8, 8}, 4);
    const nearfar::ranked_partition ranks(100, 2, 2, 4, 8);
    const words one[1] = {{1, 2, 3}};
    static_cast<void>(nearfar::partition::page_aligned(one, 1, 1, nearfar::page_size()));
    static_cast<void>(grid.exchanges(1, {1, 1, 1}, nearfar::stencil::full));
    double sum = all_of(line) + all_of(pages) + all_of(grid) + all_of(ranks.array_of(1)) +
                 all_of(nearfar::stored_grid<3>(nearfar::grid_partition<3>::inside(grid.of(1), {1, 1, 2}),
                                                grid.with_halo(1, {1, 1, 1})));

    std::vector<double, nearfar::first_touch_allocator<double>> v(100);
    std::vector<double, nearfar::interleaved_allocator<double>> w(100, 1.0);
    v.insert(v.end(), w.begin(), w.end());
    nearfar::replicated<words> copy(one[0], "words");
    copy.update([](words &c) { c.x = 2; });
    nearfar::replicated_array<words> copies(one, 1);
    copies.update([](words *c, std::size_t n) { c[n - 1].y = 3; });
#if __has_include(<memory_resource>)
    nearfar::node_local_arenas arenas;
    const std::pmr::vector<int> list(10, 1, &arenas.local());
    sum += list[0];
#endif
    return sum + copy.local().x + copies.local()->y + nearfar::page_node(&v) > 0 ? 0 : 1;
}
