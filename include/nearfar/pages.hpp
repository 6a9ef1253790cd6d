// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/pages.hpp - memory fresh from the kernel, in whole pages.
//
// The other headers take their memory from here and not from malloc: malloc
// may give memory that was used before, whose pages are where their last user
// put them, and its own headers touch pages before their owner does. The price
// is a system call and at least one page for each allocation.
#ifndef NEARFAR_PAGES_HPP
#define NEARFAR_PAGES_HPP

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "../nearfar.h"
#include "nodes.hpp"

namespace nearfar {

// Bytes of a small page: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64.
inline std::size_t page_size() noexcept
{
    static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

// Bytes of a transparent huge page, from
// /sys/kernel/mm/transparent_hugepage/hpage_pmd_size. Where the kernel has
// none, 2 MiB, those of x86-64: a harmless alignment then.
inline std::size_t huge_page_size() noexcept
{
    static const std::size_t bytes = [] {
        unsigned long read = 0;
        if (std::FILE *const file = std::fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "re")) {
            if (std::fscanf(file, "%lu", &read) != 1)
                read = 0;
            std::fclose(file);
        }
        const bool power_of_two = read != 0 && (read & (read - 1)) == 0;
        return power_of_two ? static_cast<std::size_t>(read) : std::size_t(2) << 20;
    }();
    return bytes;
}

// Which pages the kernel should use.
//
// system  as the machine is set up; huge pages may have several owners then
// small   no huge pages
// huge    huge pages, if the kernel has one free at the first touch; the memory
//         begins on a huge page
enum class pages { system, small, huge };

// Untouched memory of one's own, given back at the end. It reads as zero, but
// reading does not place a page where it is needed: write first.
class page_block {
public:
    page_block() noexcept = default;

    // At least `bytes`, rounded up to whole pages; 0 bytes take no memory.
    // Throws std::bad_alloc if the kernel has no memory or, with many blocks, no
    // mapping left (sysctl vm.max_map_count, 65530 unless raised).
    explicit page_block(std::size_t bytes, pages kind = pages::system, const char *name = nullptr)
    {
        if (bytes == 0)
            return;
        const std::size_t unit = kind == pages::huge ? huge_page_size() : page_size();
        // The kernel aligns to small pages: one huge page more, and cut off what is too much.
        const std::size_t slack = unit - page_size();
        if (bytes > std::numeric_limits<std::size_t>::max() - unit - slack)
            throw std::bad_alloc();
        bytes_ = (bytes + unit - 1) / unit * unit;
        void *const got = mmap(nullptr, bytes_ + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (got == MAP_FAILED) {
            bytes_ = 0;
            throw std::bad_alloc();
        }
        char *const start = static_cast<char *>(got);
        const std::size_t before = (unit - reinterpret_cast<std::uintptr_t>(start) % unit) % unit;
        data_ = start + before;
        if (before > 0)
            munmap(start, before);
        if (slack > before)
            munmap(start + before + bytes_, slack - before);
        // Refused where the kernel has no huge pages, and then there is nothing to do.
        if (kind == pages::huge)
            madvise(data_, bytes_, MADV_HUGEPAGE);
        else if (kind == pages::small)
            madvise(data_, bytes_, MADV_NOHUGEPAGE);
        if (name != nullptr)
            nearfar_name(data_, bytes_, name);
    }

    page_block(page_block &&other) noexcept { swap(other); }
    page_block &operator=(page_block &&other) noexcept
    {
        page_block taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~page_block()
    {
        if (data_ != nullptr)
            munmap(data_, bytes_);
    }

    void *data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }

    // Asks for pages of these nodes, in turns (interleave) or, from one node,
    // preferably: a full node is answered by the next one, not by killing the
    // process. For memory not touched yet. 0, or the errno of the refusal.
    int interleave(const node_set &nodes) noexcept
    {
        return detail::set_policy(data_, bytes_, detail::mpol_interleave, nodes);
    }
    int prefer(std::size_t node) noexcept
    {
        node_set only;
        only.add(node);
        return detail::set_policy(data_, bytes_, detail::mpol_preferred, only);
    }

    // Gives the memory away: munmap(data, bytes) is the caller's then.
    void *release() noexcept
    {
        bytes_ = 0;
        return std::exchange(data_, nullptr);
    }

private:
    void swap(page_block &other) noexcept
    {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
    }
    void *data_ = nullptr;
    std::size_t bytes_ = 0;
};

} // namespace nearfar

#endif
