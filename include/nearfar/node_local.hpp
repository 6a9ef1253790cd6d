// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/node_local.hpp - arenas: memory of one node for many small objects.
//
// malloc gives a thread what another one freed, or the other half of a page
// that another one touched. An arena gives memory of one node, however small
// the objects. Needs <memory_resource> (libstdc++ 9, libc++ 16).
#ifndef NEARFAR_NODE_LOCAL_HPP
#define NEARFAR_NODE_LOCAL_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "pages.hpp"

namespace nearfar {

// Memory of one node for std::pmr containers:
//
//   nearfar::node_local_arena arena(nearfar::current_node());
//   std::pmr::vector<int> list(&arena);
//
// Allocates by counting up in chunks of pages, and gives memory back only when
// it ends or by release(): for what lives and ends together. Any number of
// threads may allocate; a mutex makes them take turns, so containers that grow
// in inner loops want an arena per thread. Neighbouring objects of different
// threads can share a cache line: ask for an alignment of 64 or more where both
// write.
class node_local_arena : public std::pmr::memory_resource {
public:
    // Chunks have at least `chunk_bytes`, rounded up to pages. `name` is what
    // nearfar's reports call them; it must live as long as the arena.
    explicit node_local_arena(std::size_t node, std::size_t chunk_bytes = std::size_t(1) << 20,
                              const char *name = nullptr)
        : node_(node), chunk_bytes_(chunk_bytes), name_(name)
    {
    }
    node_local_arena(const node_local_arena &) = delete;
    node_local_arena &operator=(const node_local_arena &) = delete;

    std::size_t node() const noexcept { return node_; }

    // Bytes taken from the kernel so far; they get pages as they are touched.
    std::size_t reserved() const
    {
        const std::lock_guard<std::mutex> turn(lock_);
        return reserved_;
    }

    // Whether all memory so far has the policy "of this node". If the kernel
    // refused it, pages are where they are touched first: near as well, if only
    // threads of this node use the arena.
    bool placed() const
    {
        const std::lock_guard<std::mutex> turn(lock_);
        return refusal_ == 0;
    }
    int refusal() const
    {
        const std::lock_guard<std::mutex> turn(lock_);
        return refusal_;
    }

    // Gives all memory back. What was allocated must not be used any more.
    void release()
    {
        const std::lock_guard<std::mutex> turn(lock_);
        chunks_.clear();
        next_ = left_ = reserved_ = 0;
    }

private:
    // Throws std::bad_alloc.
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        const std::lock_guard<std::mutex> turn(lock_);
        if (void *const found = take(bytes, alignment))
            return found;
        if (bytes > SIZE_MAX / 2 || alignment > SIZE_MAX / 2 || bytes + alignment < bytes)
            throw std::bad_alloc();
        // A page is aligned for all but the strangest wishes.
        const std::size_t wanted = bytes + (alignment > page_size() ? alignment : 0);
        chunks_.reserve(chunks_.size() + 1);
        page_block chunk(wanted > chunk_bytes_ ? wanted : chunk_bytes_, pages::system, name_);
        if (const int refused = chunk.prefer(node_))
            refusal_ = refused;
        next_ = reinterpret_cast<std::uintptr_t>(chunk.data());
        left_ = chunk.bytes();
        reserved_ += chunk.bytes();
        chunks_.push_back(std::move(chunk));
        return take(bytes, alignment);
    }
    void do_deallocate(void *, std::size_t, std::size_t) override {}
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

    // From the current chunk, or null.
    void *take(std::size_t bytes, std::size_t alignment) noexcept
    {
        const std::size_t skip = (alignment - next_ % alignment) % alignment;
        if (next_ == 0 || skip > left_ || bytes > left_ - skip)
            return nullptr;
        void *const found = reinterpret_cast<void *>(next_ + skip);
        next_ += skip + bytes;
        left_ -= skip + bytes;
        return found;
    }

    const std::size_t node_, chunk_bytes_;
    const char *const name_;
    mutable std::mutex lock_;
    std::vector<page_block> chunks_;
    std::uintptr_t next_ = 0; // first free byte of the last chunk
    std::size_t left_ = 0, reserved_ = 0;
    int refusal_ = 0;
};

// An arena for each node with cpus.
class node_local_arenas {
public:
    explicit node_local_arenas(std::size_t chunk_bytes = std::size_t(1) << 20, const char *name = nullptr)
    {
        const node_set nodes = nodes_with_cpus();
        for (std::size_t node = nodes.first(); node < node_set::capacity; node = nodes.first(node + 1)) {
            arenas_.resize(node + 1);
            arenas_[node] = std::make_unique<node_local_arena>(node, chunk_bytes, name);
        }
    }

    // The arena of the node that the calling thread is on now. Keep the
    // reference while the thread stays there.
    node_local_arena &local() noexcept { return on(current_node()); }

    // The arena of a node; of a node without cpus, the first one.
    node_local_arena &on(std::size_t node) noexcept
    {
        if (node < arenas_.size() && arenas_[node] != nullptr)
            return *arenas_[node];
        std::size_t first = 0;
        while (arenas_[first] == nullptr)
            ++first;
        return *arenas_[first];
    }

private:
    std::vector<std::unique_ptr<node_local_arena>> arenas_; // by node; null where no cpus exist
};

} // namespace nearfar

#endif
