// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/replicated.hpp - tables that all threads read: a copy on each node.
//
// For what all threads read all over and no thread writes while they do; no first
// touch can place such a table near all threads. Costs its size once per node.
#ifndef NEARFAR_REPLICATED_HPP
#define NEARFAR_REPLICATED_HPP

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "first_touch.hpp"
#include "pages.hpp"

namespace nearfar {

// Copies of an array, one for each node with cpus and memory that this process
// may use. Nodes without cpus get none: no thread would be near it.
//
// T must be trivially copyable, because only the elements' own bytes are
// copied: the memory that a std::string or a std::map owns would stay in one
// place. For those, build one container per node in node_local_arenas.
template <class T>
class replicated_array {
    static_assert(std::is_trivially_copyable<T>::value,
                  "replicated copies bytes; build containers that own memory in nearfar::node_local_arenas");

public:
    // Copies elements[0] ... elements[n - 1], node by node, from the calling
    // thread. `name` is what nearfar's reports call the copies, with the node's
    // number. Throws std::bad_alloc.
    //
    // Each copy is placed by the kernel's policy; where that is forbidden (in
    // containers, often) by first touch: the calling thread visits each node
    // and comes back to the cpus it may run on now.
    replicated_array(const T *elements, std::size_t n, const char *name = nullptr) : size_(n)
    {
        const node_set nodes = intersection(nodes_with_cpus(), allowed_nodes());
        // Cpus without memory, memory without cpus, apart: one copy, anywhere.
        const bool somewhere = nodes.empty();
        for (std::size_t node = somewhere ? 0 : nodes.first(); node < node_set::capacity;
             node = somewhere ? node_set::capacity : nodes.first(node + 1)) {
            std::string called;
            if (name != nullptr)
                called = std::string(name) + " (node " + std::to_string(node) + ")";
            copies_.push_back({node, page_block(detail::bytes_of<T>(n), pages::system,
                                                name == nullptr ? nullptr : called.c_str())});
            page_block &block = copies_.back().block;
            const auto copy = [&] {
                if (n > 0)
                    std::memcpy(block.data(), static_cast<const void *>(elements), n * sizeof(T));
            };
            if (block.prefer(node) == 0)
                copy();
            else if (!detail::on_node(node, copy))
                placed_ = false;
            of_node_.resize(node + 1, 0);
            of_node_[node] = copies_.size() - 1;
        }
    }

    // This node's copy; of a thread on a node without one, the first copy. Asks
    // for the thread's cpu (some 20 ns): keep the pointer while the thread
    // stays, outside of the inner loop.
    const T *local() const noexcept { return on(current_node()); }
    const T *on(std::size_t node) const noexcept
    {
        return static_cast<const T *>(copies_[node < of_node_.size() ? of_node_[node] : 0].block.data());
    }

    // Calls change(copy, size()) for each copy, from the calling thread. It must
    // do the same to each. No thread may read meanwhile: outside parallel regions,
    // or behind a barrier.
    template <class F>
    void update(F &&change)
    {
        for (const one &copy : copies_)
            change(static_cast<T *>(copy.block.data()), size_);
    }

    std::size_t size() const noexcept { return size_; }
    std::size_t copies() const noexcept { return copies_.size(); }

    // Whether each copy was put on its node, as far as the kernel said. If not
    // the results are right, and reads may be far.
    bool placed() const noexcept { return placed_; }

private:
    struct one {
        std::size_t node;
        page_block block;
    };
    std::size_t size_;
    std::vector<one> copies_;
    std::vector<std::size_t> of_node_; // number of the copy; the first where there is none
    bool placed_ = true;
};

// The same for a single value: a struct of coefficients, a fixed-size table.
template <class T>
class replicated {
public:
    explicit replicated(const T &value, const char *name = nullptr) : copies_(&value, 1, name) {}

    const T &local() const noexcept { return *copies_.local(); }
    const T &on(std::size_t node) const noexcept { return *copies_.on(node); }

    // Calls change(copy) for each copy; as replicated_array::update.
    template <class F>
    void update(F &&change)
    {
        copies_.update([&](T *copy, std::size_t) { change(*copy); });
    }

    std::size_t copies() const noexcept { return copies_.copies(); }
    bool placed() const noexcept { return copies_.placed(); }

private:
    replicated_array<T> copies_;
};

} // namespace nearfar

#endif
