// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/first_touch.hpp - arrays whose pages lie with the threads that own them.
#ifndef NEARFAR_FIRST_TOUCH_HPP
#define NEARFAR_FIRST_TOUCH_HPP

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "pages.hpp"
#include "parallel.hpp"

namespace nearfar {

namespace detail {

template <class T>
std::size_t bytes_of(std::size_t elements)
{
    if (elements > std::numeric_limits<std::size_t>::max() / sizeof(T))
        throw std::bad_alloc();
    return elements * sizeof(T);
}

// Whether every border between parts is a border between huge pages, in an
// array that begins with one.
template <class T>
bool cut_at_huge_pages(const partition &split)
{
    return split.lead() == 0 && split.granule() % (huge_page_size() / std::gcd(huge_page_size(), sizeof(T))) == 0;
}
template <class T, class Split>
bool cut_at_huge_pages(const Split &)
{
    return false;
}

// A split whose first element is element 0 of its array.
inline const partition &from_zero(const partition &split)
{
    if (split.whole().begin != 0)
        throw std::invalid_argument("nearfar::first_touch_vector: the split begins at element " +
                                    std::to_string(split.whole().begin) +
                                    "; a stored_partition counts from its array's start");
    return split;
}
template <class Split>
const Split &from_zero(const Split &split)
{
    return split;
}

} // namespace detail

// An array of fixed length, written for the first time by the owners of its
// parts, in parallel, in its constructor. Movable, not copyable, and it does
// not grow: std::vector does both by writing new memory from one thread, which
// puts all of it on that thread's node.
//
// Element 0 is at the start of a page. No huge page has two owners: the memory
// has huge pages where the split's granule is a multiple of them
// (partition::page_aligned with huge_page_size()), else small ones. Small ones
// cost TLB misses in large arrays, so split large arrays by huge pages.
//
// T must be trivially copyable: nothing runs when the array ends.
template <class T>
class first_touch_vector {
    static_assert(std::is_trivially_copyable<T>::value, "first_touch_vector is for trivially copyable types");

public:
    using value_type = T;

    first_touch_vector() noexcept = default;

    // split.elements() elements, all equal to `value`. `name` is what nearfar's
    // reports call it; it is copied. Throws std::bad_alloc, and
    // std::invalid_argument for a partition that does not begin at element 0.
    template <class Split>
    explicit first_touch_vector(const Split &split, const T &value = T(), const char *name = nullptr)
        : first_touch_vector(untouched(), detail::from_zero(split), name)
    {
        parallel_fill(data(), split, value);
    }

    // The same with element(i) for element i; element must not throw.
    template <class Split, class Element>
    static first_touch_vector generate(const Split &split, Element &&element, const char *name = nullptr)
    {
        first_touch_vector made(untouched(), detail::from_zero(split), name);
        parallel_generate(made.data(), split, std::forward<Element>(element));
        return made;
    }

    first_touch_vector(first_touch_vector &&other) noexcept
        : block_(std::move(other.block_)), size_(std::exchange(other.size_, 0))
    {
    }
    first_touch_vector &operator=(first_touch_vector &&other) noexcept
    {
        block_ = std::move(other.block_);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }

    T *data() noexcept { return static_cast<T *>(block_.data()); }
    const T *data() const noexcept { return static_cast<const T *>(block_.data()); }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    T *begin() noexcept { return data(); }
    T *end() noexcept { return data() + size_; }
    const T *begin() const noexcept { return data(); }
    const T *end() const noexcept { return data() + size_; }
    T &operator[](std::size_t i) noexcept { return data()[i]; }
    const T &operator[](std::size_t i) const noexcept { return data()[i]; }

private:
    struct untouched {};
    template <class Split>
    first_touch_vector(untouched, const Split &split, const char *name)
        : block_(detail::bytes_of<T>(split.elements()),
                 detail::cut_at_huge_pages<T>(split) ? pages::huge : pages::small, name),
          size_(split.elements())
    {
        static_assert(alignof(T) <= 4096, "no page is aligned to that");
    }

    page_block block_;
    std::size_t size_ = 0;
};

// For std::vector and other containers of trivial types that shall not touch
// their memory when they are made: elements without a value stay unwritten
// until parallel_fill writes them.
//
//   std::vector<double, nearfar::first_touch_allocator<double>> v(n);
//   nearfar::parallel_fill(v.data(), split, 0.0);
//
// Beware of what std::vector still does with one thread: v(n, 0.0), copies,
// push_back and resize beyond the capacity.
template <class T>
class first_touch_allocator {
public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    // Which pages to take: small ones unless the split is by huge pages.
    explicit first_touch_allocator(pages kind = pages::small) noexcept : kind_(kind) {}
    template <class U>
    first_touch_allocator(const first_touch_allocator<U> &other) noexcept : kind_(other.kind())
    {
    }

    // Whole pages from the kernel. Throws std::bad_alloc.
    T *allocate(std::size_t n)
    {
        return static_cast<T *>(page_block(detail::bytes_of<T>(n == 0 ? 1 : n), kind_).release());
    }
    void deallocate(T *p, std::size_t n) noexcept
    {
        const std::size_t unit = kind_ == pages::huge ? huge_page_size() : page_size();
        munmap(p, ((n == 0 ? 1 : n) * sizeof(T) + unit - 1) / unit * unit);
    }

    // No value: no write, for types that allow it.
    template <class U>
    void construct(U *p) noexcept(std::is_nothrow_default_constructible<U>::value)
    {
        ::new (static_cast<void *>(p)) U;
    }
    template <class U, class... Values>
    void construct(U *p, Values &&...values)
    {
        ::new (static_cast<void *>(p)) U(std::forward<Values>(values)...);
    }

    pages kind() const noexcept { return kind_; }

    // Memory is given back in the pages in which it was taken.
    friend bool operator==(const first_touch_allocator &a, const first_touch_allocator &b) noexcept
    {
        return a.kind_ == b.kind_;
    }
    friend bool operator!=(const first_touch_allocator &a, const first_touch_allocator &b) noexcept
    {
        return !(a == b);
    }

private:
    pages kind_;
};

} // namespace nearfar

#endif
