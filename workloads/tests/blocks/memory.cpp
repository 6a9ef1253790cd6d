// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Memory of the building blocks: is it where they say, as the kernel says. On
// one node most pages can only be on that node; then the kernel's policy for
// them is what is looked at, which it knows on any machine.
#include <nearfar.hpp>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <numeric>
#include <string>

#include "expectations.hpp"

using nearfar::partition;
using nearfar::range;

// More than there is, which compilers shall not see: they refuse to compile it.
static volatile std::size_t too_much = SIZE_MAX;

// The policy of a page, or -1 if the kernel does not say.
static int policy_of(const void *address)
{
    int mode = -1;
    unsigned long nodes[16] = {};
    return syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, address, nearfar::detail::mpol_f_addr) == 0 ? mode : -1;
}

// Whether this kernel lets us place memory: containers often forbid mbind.
static bool may_place()
{
    nearfar::page_block block(1);
    return block.prefer(nearfar::allowed_nodes().first()) == 0;
}

// The line of /proc/self/smaps with this key, of the mapping of this address.
static std::string smaps(const void *address, const char *key)
{
    std::FILE *const file = std::fopen("/proc/self/smaps", "re");
    char line[512];
    bool here = false;
    std::string found;
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
        unsigned long low = 0, high = 0;
        if (std::sscanf(line, "%lx-%lx ", &low, &high) == 2)
            here = low <= reinterpret_cast<std::uintptr_t>(address) && reinterpret_cast<std::uintptr_t>(address) < high;
        else if (here && std::strncmp(line, key, std::strlen(key)) == 0)
            found = line;
    }
    if (file != nullptr)
        std::fclose(file);
    return found;
}

static std::size_t offset(const void *address, std::size_t unit)
{
    return reinterpret_cast<std::uintptr_t>(address) % unit;
}

static void page_blocks()
{
    using nearfar::page_block;
    using nearfar::pages;
    EXPECT(nearfar::page_size() >= 4096 && nearfar::huge_page_size() % nearfar::page_size() == 0);
    EXPECT(page_block(0).data() == nullptr);
    EXPECT_THROWS(std::bad_alloc, page_block(too_much));
    EXPECT_THROWS(std::bad_alloc, page_block(too_much / 2, pages::huge));
    for (const pages kind : {pages::system, pages::small, pages::huge})
        for (const std::size_t bytes : {std::size_t(1), std::size_t(5000), std::size_t(3) << 20}) {
            page_block block(bytes, kind, "block");
            const std::size_t unit = kind == pages::huge ? nearfar::huge_page_size() : nearfar::page_size();
            EXPECT_EQUAL(offset(block.data(), unit), 0u);
            EXPECT(block.bytes() >= bytes && block.bytes() % unit == 0);
            std::memset(block.data(), 1, block.bytes());
            page_block moved(std::move(block));
            EXPECT(block.data() == nullptr && block.bytes() == 0); // NOLINT: a moved-from block has nothing
            block = std::move(moved);
            EXPECT_EQUAL(static_cast<char *>(block.data())[bytes - 1], 1);
        }
    // Untouched memory has no node of the page; touched memory has one that is allowed.
    page_block block(3 * nearfar::page_size(), pages::small);
    char *const bytes = static_cast<char *>(block.data());
    bytes[nearfar::page_size()] = 1;
    const int page_node = nearfar::page_node(bytes + nearfar::page_size() + 17);
    if (page_node < 0 && page_node != -ENOENT)
        std::printf("skipped: the kernel does not say where pages are: %s\n", std::strerror(-page_node));
    else {
        EXPECT(page_node >= 0 && nearfar::allowed_nodes().has(static_cast<std::size_t>(page_node)));
        EXPECT(nearfar::page_node(bytes) < 0);
    }
}

static void node_sets()
{
    nearfar::node_set nodes;
    EXPECT(nodes.empty() && nodes.first() == nearfar::node_set::capacity);
    for (const std::size_t node : {0ul, 63ul, 64ul, 1023ul})
        nodes.add(node);
    nodes.add(1024); // no such node
    EXPECT_EQUAL(nodes.count(), 4u);
    EXPECT_EQUAL(nodes.first(1), 63u);
    EXPECT_EQUAL(nodes.first(65), 1023u);
    EXPECT(!nodes.has(1024) && !nodes.has(1));
    nearfar::node_set other;
    other.add(64);
    other.add(65);
    EXPECT(intersection(nodes, other).count() == 1 && intersection(nodes, other).has(64));
    EXPECT(nearfar::nodes_with_cpus().has(nearfar::current_node()));
    EXPECT(!nearfar::allowed_nodes().empty());

    const auto list = [](const char *text) {
        char name[] = "/tmp/nearfar-list-XXXXXX";
        const int file = mkstemp(name);
        EXPECT(file >= 0 && write(file, text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text)));
        close(file);
        std::string read;
        nearfar::detail::read_list(name, [&](std::size_t n) { read += std::to_string(n) + " "; });
        unlink(name);
        return read;
    };
    EXPECT_EQUAL(list("0-2,8,10-11\n"), "0 1 2 8 10 11 ");
    EXPECT_EQUAL(list("7\n"), "7 ");
    EXPECT_EQUAL(list("\n"), "");
    EXPECT(!nearfar::detail::read_list("/no/such/file", [](std::size_t) {}));

    // A visit to a node comes back to the same cpus.
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    std::size_t there = nearfar::node_set::capacity;
    const std::size_t node = nearfar::nodes_with_cpus().first();
    if (nearfar::detail::on_node(node, [&] { there = nearfar::current_node(); }))
        EXPECT_EQUAL(there, node);
    sched_getaffinity(0, sizeof after, &after);
    EXPECT(CPU_EQUAL(&before, &after));
    bool called = false;
    EXPECT(!nearfar::detail::on_node(1023, [&] { called = true; }));
    EXPECT(called);
}

static void first_touch()
{
    for (const std::size_t parts : {1ul, 2ul, 3ul}) {
        const partition split(100003, parts);
        nearfar::first_touch_vector<double> a(split, 2.5, "a");
        EXPECT(a.size() == 100003 && a[0] == 2.5 && a[100002] == 2.5);
        EXPECT_EQUAL(std::accumulate(a.begin(), a.end(), 0.0), 2.5 * 100003);
        auto b = nearfar::first_touch_vector<int>::generate(split, [](std::size_t i) { return i; }, "b");
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < b.size(); ++i)
            wrong += b[i] != static_cast<int>(i);
        EXPECT_EQUAL(wrong, 0u);
        const int *const data = b.data();
        nearfar::first_touch_vector<int> moved(std::move(b));
        EXPECT(moved.data() == data && b.empty() && b.begin() == b.end()); // NOLINT: as above
        b = std::move(moved);
        EXPECT(b.data() == data && b.size() == 100003);
        // Borders anywhere: no huge pages.
        if (const std::string flags = smaps(a.data(), "VmFlags"); !flags.empty())
            EXPECT(flags.find(" nh") != std::string::npos);
    }
    EXPECT(nearfar::first_touch_vector<char>(partition(0, 3)).empty());
    EXPECT_THROWS(std::invalid_argument, nearfar::first_touch_vector<char>(partition({1, 3}, 1)));
    EXPECT_THROWS(std::bad_alloc, nearfar::first_touch_vector<double>(partition(SIZE_MAX / 4, 1)));

    // A grid, and a rank's array with its halo.
    const nearfar::grid_partition<3> grid({30, 20, 10}, {1, 2, 2});
    const nearfar::first_touch_vector<int> cells(grid, 1);
    EXPECT_EQUAL(std::accumulate(cells.begin(), cells.end(), 0), 6000);
    const nearfar::ranked_partition ranks(1000, 2, 2, 10);
    const nearfar::first_touch_vector<int> array(ranks.array_of(1), 1);
    EXPECT_EQUAL(std::accumulate(array.begin(), array.end(), 0), 510);

    // std::vector does not write, and parallel_fill does.
    std::vector<double, nearfar::first_touch_allocator<double>> v(100000);
    EXPECT_EQUAL(offset(v.data(), nearfar::page_size()), 0u);
    if (nearfar::page_node(&v[50000]) != -EPERM)
        EXPECT(nearfar::page_node(&v[50000]) < 0);
    nearfar::parallel_fill(v.data(), partition(v.size(), 2), 1.0);
    EXPECT_EQUAL(std::accumulate(v.begin(), v.end(), 0.0), 100000.0);
    v.push_back(v[0]);
    auto other = v;
    other.resize(10);
    other.shrink_to_fit();
    std::vector<double, nearfar::first_touch_allocator<double>> huge{
        nearfar::first_touch_allocator<double>(nearfar::pages::huge)};
    huge.assign(10, 1.0);
    EXPECT_EQUAL(offset(huge.data(), nearfar::huge_page_size()), 0u);
    huge = other; // keeps its own pages: allocators of different pages are not equal
    huge.swap(huge);
    other = std::move(huge);
    EXPECT_EQUAL(other.size(), 10u);
    std::map<int, int, std::less<int>, nearfar::first_touch_allocator<std::pair<const int, int>>> map;
    map[3] = 4;
    EXPECT_EQUAL(map.at(3), 4);
    // `value` may be in what is filled.
    nearfar::parallel_fill(v.data(), partition(v.size(), 3), v[v.size() - 1]);
    EXPECT_EQUAL(v[0], 1.0);
}

// Borders between parts are borders between huge pages, and the memory asks for them.
static void huge_pages()
{
    const std::size_t huge = nearfar::huge_page_size();
    const partition split = partition::page_aligned<float>(5 * huge / 2 / sizeof(float) + 3, 2, huge);
    const nearfar::first_touch_vector<float> a(split, 1.0f, "huge");
    EXPECT_EQUAL(offset(a.data(), huge), 0u);
    for (std::size_t p = 0; p < split.parts(); ++p)
        EXPECT_EQUAL(offset(a.data() + split.of(p).begin, huge), 0u);
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) == 0)
        EXPECT(smaps(a.data(), "VmFlags").find(" hg") != std::string::npos);
    struct odd {
        char bytes[24];
    };
    const partition three = partition::page_aligned<odd>(3 * huge / sizeof(odd) * 3, 2, huge);
    const nearfar::first_touch_vector<odd> b(three);
    EXPECT_EQUAL(offset(b.data() + three.of(1).begin, huge), 0u);
    EXPECT_EQUAL(offset(b.data(), huge), 0u);
}

static void replicas()
{
    std::vector<int> table(10007);
    std::iota(table.begin(), table.end(), 0);
    nearfar::replicated_array<int> copies(table.data(), table.size(), "table");
    const nearfar::node_set nodes = intersection(nearfar::nodes_with_cpus(), nearfar::allowed_nodes());
    EXPECT_EQUAL(copies.copies(), nodes.empty() ? 1 : nodes.count());
    EXPECT(copies.size() == table.size() && std::memcmp(copies.local(), table.data(), 10007 * sizeof(int)) == 0);
    copies.update([](int *copy, std::size_t n) { copy[n - 1] = -1; });
    for (std::size_t node = nodes.first(); node < nearfar::node_set::capacity; node = nodes.first(node + 1)) {
        EXPECT(copies.on(node)[10006] == -1 && copies.on(node)[10005] == 10005);
        const int page_node = nearfar::page_node(copies.on(node));
        if (copies.placed() && page_node >= 0)
            EXPECT_EQUAL(static_cast<std::size_t>(page_node), node);
    }
    // By policy, else by visits; and if neither is allowed it reports it.
    bool visits = true;
    for (std::size_t node = nodes.first(); node < nearfar::node_set::capacity; node = nodes.first(node + 1))
        visits &= nearfar::detail::on_node(node, [] {});
    EXPECT_EQUAL(copies.placed(), may_place() || visits);
    EXPECT(copies.on(1023) == copies.on(nodes.empty() ? 0 : nodes.first()));
    if (may_place())
        EXPECT_EQUAL(policy_of(copies.local()), nearfar::detail::mpol_preferred);
    EXPECT_EQUAL(nearfar::replicated_array<int>(nullptr, 0).size(), 0u);

    struct coefficients {
        double c[9];
    };
    nearfar::replicated<coefficients> one({{1, 2, 3, 4, 5, 6, 7, 8, 9}}, "coefficients");
    one.update([](coefficients &copy) { copy.c[0] = 10; });
    EXPECT(one.local().c[0] == 10 && one.local().c[8] == 9 && one.copies() == copies.copies());
    EXPECT(one.placed() == copies.placed());
}

static void interleaving()
{
    nearfar::interleaved_allocator<long> allocator;
    std::vector<long, nearfar::interleaved_allocator<long>> v(100000, 7, allocator);
    EXPECT_EQUAL(std::accumulate(v.begin(), v.end(), 0l), 700000);
    EXPECT_EQUAL(offset(v.data(), nearfar::page_size()), 0u);
    EXPECT_EQUAL(v.get_allocator().placed(), may_place());
    EXPECT_EQUAL(allocator.placed(), may_place()); // copies know the same
    if (may_place()) {
        EXPECT_EQUAL(policy_of(v.data()), nearfar::detail::mpol_interleave);
        EXPECT_EQUAL(policy_of(&v[99999]), nearfar::detail::mpol_interleave);
    } else {
        EXPECT(allocator.refusal() > 0);
    }
    auto copy = v;
    v.clear();
    v.shrink_to_fit();
    v = std::move(copy);
    EXPECT_EQUAL(v.size(), 100000u);
    EXPECT_THROWS(std::bad_alloc, allocator.allocate(too_much / 8));
    allocator.deallocate(allocator.allocate(0), 0);
    std::map<int, int, std::less<int>, nearfar::interleaved_allocator<std::pair<const int, int>>> map;
    map[1] = 2;
    EXPECT(map.get_allocator().placed() == may_place());
}

static void arenas()
{
    const std::size_t node = nearfar::current_node();
    nearfar::node_local_arena arena(node, 10000, "arena");
    EXPECT(arena.node() == node && arena.reserved() == 0 && arena.placed());
    {
        std::pmr::vector<std::pmr::string> words(&arena);
        for (int i = 0; i < 1000; ++i)
            words.emplace_back(100, static_cast<char>('a' + i % 26));
        EXPECT(std::string(words[999]) == std::string(100, 'l'));
        EXPECT_EQUAL(arena.placed(), may_place());
        if (may_place())
            EXPECT_EQUAL(policy_of(words[500].data()), nearfar::detail::mpol_preferred);
    }
    EXPECT(arena.reserved() >= 100000 && arena.reserved() < 400000);
    std::vector<std::pair<unsigned char *, std::size_t>> given;
    for (const std::size_t alignment : {8ul, 1ul, 64ul, 1ul, 8ul, 64ul, 4096ul, 65536ul})
        for (const std::size_t bytes : {0ul, 1ul, 100ul, 9999ul, 10001ul, 100000ul}) {
            void *const got = arena.allocate(bytes, alignment);
            EXPECT_EQUAL(offset(got, alignment), 0u);
            given.push_back({static_cast<unsigned char *>(got), bytes});
            std::memset(got, static_cast<int>(given.size()), bytes);
        }
    std::size_t overlapped = 0;
    for (std::size_t i = 0; i < given.size(); ++i)
        for (std::size_t b = 0; b < given[i].second; ++b)
            overlapped += given[i].first[b] != i + 1;
    EXPECT_EQUAL(overlapped, 0u);
    EXPECT_THROWS(std::bad_alloc, arena.allocate(too_much - 5, 8));
    EXPECT_THROWS(std::bad_alloc, arena.allocate(too_much / 4, 8));
    std::memset(arena.allocate(64, 64), 1, 64); // goes on after a failure
    arena.release();
    EXPECT_EQUAL(arena.reserved(), 0u);
    std::memset(arena.allocate(64, 64), 1, 64);
    EXPECT(arena.is_equal(arena) && !arena.is_equal(*std::pmr::new_delete_resource()));

    nearfar::node_local_arenas all;
    EXPECT_EQUAL(all.local().node(), nearfar::current_node());
    EXPECT_EQUAL(all.on(1023).node(), nearfar::nodes_with_cpus().first());
    // A node that is not there: memory all the same, and it is said.
    nearfar::node_local_arena nowhere(1001);
    std::memset(nowhere.allocate(100), 1, 100);
    EXPECT(!nowhere.placed() && nowhere.refusal() > 0);
}

// From now on the kernel refuses these calls, as containers' seccomp filters do.
static bool refuse(std::initializer_list<long> calls)
{
    std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const long call : calls) {
        filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 1));
        filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    }
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// `memory`: as this system is. `memory refused`: mbind is forbidden. `memory
// blind`: so is all that tells of nodes. Results must be right in each case.
int main(int argc, char **argv)
{
    const std::string how = argc > 1 ? argv[1] : "";
    const bool filtered = how == "refused" ? refuse({SYS_mbind})
                          : how == "blind"
                              ? refuse({SYS_mbind, SYS_get_mempolicy, SYS_move_pages, SYS_sched_setaffinity})
                              : true;
    if (!filtered) {
        std::printf("skipped: no seccomp filter here\n");
        return 0;
    }
    if (!how.empty()) {
        EXPECT(!may_place());
    } else if (!may_place()) {
        std::printf("mbind is refused here: placement by policy is not tested\n");
    }
    page_blocks();
    node_sets();
    first_touch();
    huge_pages();
    replicas();
    interleaving();
    arenas();
    return expectations::report("memory");
}
