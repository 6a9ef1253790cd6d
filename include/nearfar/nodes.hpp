// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/nodes.hpp - NUMA nodes as the kernel numbers them, and where pages are.
//
// Asks the kernel by system calls and /sys; no libnuma. What it cannot learn
// (a kernel without NUMA, a container that forbids the calls) looks like a
// machine with node 0 only, which is always a right program, if perhaps a far one.
#ifndef NEARFAR_NODES_HPP
#define NEARFAR_NODES_HPP

#ifndef __linux__
#error "nearfar places memory by Linux's system calls; only partition.hpp, ranked.hpp, grid.hpp, parallel.hpp work here"
#endif

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace nearfar {

// Nodes 0 ... 1023, all that Linux can be built for (NODES_SHIFT in its Kconfig is at most 10).
class node_set {
public:
    static constexpr std::size_t capacity = 1024;

    bool has(std::size_t node) const noexcept
    {
        return node < capacity && (words_[node / word_bits] >> (node % word_bits) & 1u) != 0;
    }
    void add(std::size_t node) noexcept
    {
        if (node < capacity)
            words_[node / word_bits] |= 1ul << (node % word_bits);
    }
    bool empty() const noexcept { return first() == capacity; }
    std::size_t count() const noexcept
    {
        std::size_t n = 0;
        for (std::size_t node = 0; node < capacity; ++node)
            n += has(node);
        return n;
    }
    // The first node that is at least `from`; `capacity` if there is none.
    std::size_t first(std::size_t from = 0) const noexcept
    {
        while (from < capacity && !has(from))
            ++from;
        return from;
    }

    // As the kernel reads and writes node masks.
    unsigned long *words() noexcept { return words_; }
    const unsigned long *words() const noexcept { return words_; }

    friend node_set intersection(const node_set &a, const node_set &b) noexcept
    {
        node_set both;
        for (std::size_t w = 0; w < capacity / word_bits; ++w)
            both.words_[w] = a.words_[w] & b.words_[w];
        return both;
    }

private:
    static constexpr std::size_t word_bits = 8 * sizeof(unsigned long);
    unsigned long words_[capacity / word_bits] = {};
};

namespace detail {

// From the kernel's include/uapi/linux/mempolicy.h, stated here because not
// every system has its headers; numbers of the kernel's interface never change.
constexpr int mpol_default = 0;
constexpr int mpol_preferred = 1;
constexpr int mpol_bind = 2;
constexpr int mpol_interleave = 3;
constexpr unsigned long mpol_f_addr = 1ul << 1;
constexpr unsigned long mpol_f_mems_allowed = 1ul << 2;

// Reads lists as the kernel writes them, "0-3,8\n", and calls add(number).
// False, with what was read before, if the file cannot be opened.
template <class F>
bool read_list(const std::string &path, F add)
{
    std::FILE *const file = std::fopen(path.c_str(), "re");
    if (file == nullptr)
        return false;
    for (unsigned long low = 0, high = 0; std::fscanf(file, "%lu", &low) == 1;) {
        high = low;
        int next = std::fgetc(file);
        if (next == '-' && std::fscanf(file, "%lu", &high) == 1)
            next = std::fgetc(file);
        for (unsigned long n = low; n <= high; ++n)
            add(static_cast<std::size_t>(n));
        if (next != ',')
            break;
    }
    std::fclose(file);
    return true;
}

// Sets the policy of untouched pages: 0, or the errno of the refusal. The
// kernel reads one bit less than it is given.
inline int set_policy(void *start, std::size_t bytes, int mode, const node_set &nodes) noexcept
{
    if (bytes == 0)
        return 0;
#ifdef SYS_mbind
    return syscall(SYS_mbind, start, bytes, mode, nodes.words(), node_set::capacity + 1, 0) == 0 ? 0 : errno;
#else
    static_cast<void>(start), static_cast<void>(mode), static_cast<void>(nodes);
    return ENOSYS;
#endif
}

// Calls f() on a cpu of the node, if this thread may run there, and returns
// whether it did; then goes back to where it may run now. Pages that f touches
// first come to that node without any policy.
template <class F>
bool on_node(std::size_t node, F &&f)
{
    cpu_set_t before, there;
    CPU_ZERO(&there);
    bool any = false;
    read_list("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist", [&](std::size_t cpu) {
        if (cpu < CPU_SETSIZE) {
            CPU_SET(cpu, &there);
            any = true;
        }
    });
    const bool moved = any && sched_getaffinity(0, sizeof before, &before) == 0 &&
                       sched_setaffinity(0, sizeof there, &there) == 0;
    struct back {
        const cpu_set_t *mask;
        ~back()
        {
            if (mask != nullptr)
                sched_setaffinity(0, sizeof *mask, mask);
        }
    } const restore{moved ? &before : nullptr};
    std::forward<F>(f)();
    return moved;
}

} // namespace detail

// Nodes of which this process may have memory. Node 0 if the kernel does not say.
inline node_set allowed_nodes()
{
    node_set nodes;
#ifdef SYS_get_mempolicy
    if (syscall(SYS_get_mempolicy, nullptr, nodes.words(), node_set::capacity, nullptr,
                detail::mpol_f_mems_allowed) != 0)
        nodes = node_set();
#endif
    if (nodes.empty())
        nodes.add(0);
    return nodes;
}

// Nodes that have cpus, whether this process may use them or not: nodes that
// are memory only (CXL, HBM, a GPU's) are left out. Node 0 if the kernel does not say.
inline node_set nodes_with_cpus()
{
    node_set nodes;
    detail::read_list("/sys/devices/system/node/has_cpu", [&](std::size_t node) { nodes.add(node); });
    if (nodes.empty())
        nodes.add(0);
    return nodes;
}

// The node of the cpu that the calling thread is on, now. A thread that is not
// pinned may be elsewhere before this returns. 0 if the kernel does not say.
// Some 20 ns where the C library asks the vDSO; else a system call.
inline std::size_t current_node() noexcept
{
    unsigned cpu = 0, node = 0;
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 29)
#define NEARFAR_HAS_GETCPU
#endif
#endif
#ifdef NEARFAR_HAS_GETCPU
#undef NEARFAR_HAS_GETCPU
    return getcpu(&cpu, &node) == 0 ? node : 0;
#else
    return syscall(SYS_getcpu, &cpu, &node, nullptr) == 0 ? node : 0;
#endif
}

// The node that has the page at this address, as the kernel says; -ENOENT if
// it has not been touched yet, another negative errno if the kernel refuses.
// Touches nothing. For tests and assertions: it is a system call.
inline int page_node(const void *address) noexcept
{
#ifdef SYS_move_pages
    const std::uintptr_t page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const void *start = reinterpret_cast<const void *>(reinterpret_cast<std::uintptr_t>(address) / page * page);
    int node = -1;
    return syscall(SYS_move_pages, 0, 1ul, &start, nullptr, &node, 0) == 0 ? node : -errno;
#else
    static_cast<void>(address);
    return -ENOSYS;
#endif
}

} // namespace nearfar

#endif
