// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/interleaved.hpp - memory dealt page by page to all nodes.
//
// For what all threads use all over and some of them write, such as a hash
// table: (N-1)/N of the accesses are remote on N nodes whatever one does, but
// all memory controllers share the work. Wrong for arrays whose parts have one
// user each: first touch makes those local.
#ifndef NEARFAR_INTERLEAVED_HPP
#define NEARFAR_INTERLEAVED_HPP

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "first_touch.hpp"
#include "pages.hpp"

namespace nearfar {

// An allocator for large containers: each allocation is whole pages, small ones,
// with the policy "interleave over the nodes I may use", and costs the kernel a
// mapping of its own (sysctl vm.max_map_count, 65530 unless raised). Not for the
// nodes of a std::map.
//
// Where the kernel refuses the policy the memory is plain memory, and placed()
// reports it.
template <class T>
class interleaved_allocator {
public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type; // what it knows goes with the memory
    using propagate_on_container_swap = std::true_type;

    interleaved_allocator() : refusal_(std::make_shared<std::atomic<int>>(0)) {}
    template <class U>
    interleaved_allocator(const interleaved_allocator<U> &other) noexcept : refusal_(other.refusal_)
    {
    }

    // Throws std::bad_alloc.
    T *allocate(std::size_t n)
    {
        page_block block(bytes(n), pages::small);
        if (const int refused = block.interleave(allowed_nodes()))
            refusal_->store(refused, std::memory_order_relaxed);
        return static_cast<T *>(block.release());
    }
    void deallocate(T *p, std::size_t n) noexcept
    {
        munmap(p, (n * sizeof(T) + (n == 0) + page_size() - 1) / page_size() * page_size());
    }

    // Whether all memory of this allocator and its copies is interleaved, and
    // if not, the errno of the last refusal: EPERM, a container forbids mbind;
    // ENOSYS, a kernel without NUMA.
    bool placed() const noexcept { return refusal() == 0; }
    int refusal() const noexcept { return refusal_->load(std::memory_order_relaxed); }

    friend bool operator==(const interleaved_allocator &, const interleaved_allocator &) noexcept { return true; }
    friend bool operator!=(const interleaved_allocator &, const interleaved_allocator &) noexcept { return false; }

private:
    template <class>
    friend class interleaved_allocator;
    static std::size_t bytes(std::size_t n) { return detail::bytes_of<T>(n) + (n == 0); }
    std::shared_ptr<std::atomic<int>> refusal_;
};

} // namespace nearfar

#endif
