// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What every workload needs: arguments with clear errors, a clock, the split
// of an array among threads. Anything that has to do with where memory lives
// stays in the workload itself, because that is what a reader looks for there.
#pragma once

#include <omp.h>
#include <time.h>

#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

namespace workload {

// Exit codes, the same for all workloads.
constexpr int RESULT_WRONG = 1;
constexpr int USAGE = 2;
constexpr int NO_MEMORY = 3;

// Arrays start on a page boundary. glibc puts its header in the bytes before
// the block it returns; on a page boundary those bytes are on another page, so
// the allocator's own write does not decide where the first page of data lives.
constexpr std::size_t PAGE = 4096;

// aligned_alloc wants a size that is a multiple of the alignment.
inline std::size_t whole_pages(std::size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

inline void need_memory(const void *block, std::size_t bytes)
{
    if (block == nullptr) {
        std::fprintf(stderr, "cannot allocate %zu bytes: choose a smaller size\n", bytes);
        std::exit(NO_MEMORY);
    }
}

// Reads `--flag value`, `--flag=value`, switches and positional arguments.
// Each accessor consumes what it understands; `finish` refuses the rest, so a
// mistyped flag never runs a different experiment than the one asked for.
class Arguments {
public:
    Arguments(int argc, char **argv, const char *name, const char *usage)
        : name_(name), words_(argv + 1, argv + argc)
    {
        for (const std::string &word : words_)
            if (word == "--help" || word == "-h") {
                std::printf("usage: %s %s\n", name, usage);
                std::exit(0);
            }
    }

    [[noreturn]] void fail(const std::string &what) const
    {
        std::fprintf(stderr, "%s: %s\n%s: try `%s --help`\n", name_, what.c_str(), name_, name_);
        std::exit(USAGE);
    }

    bool given(const std::string &flag)
    {
        bool found = false;
        for (std::size_t i = 0; i < words_.size();) {
            if (words_[i] == flag) {
                words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
                found = true;
            } else {
                ++i;
            }
        }
        return found;
    }

    std::size_t count(const std::string &flag, std::size_t otherwise, std::size_t least = 1)
    {
        std::string text;
        return take(flag, text) ? number(flag, text, least) : otherwise;
    }

    double real(const std::string &flag, double otherwise)
    {
        std::string text;
        if (!take(flag, text))
            return otherwise;
        char *end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !std::isfinite(value) || value <= 0)
            fail(flag + " wants a number above 0, not '" + text + "'");
        return value;
    }

    std::string text(const std::string &flag, const std::string &otherwise)
    {
        std::string value;
        return take(flag, value) ? value : otherwise;
    }

    std::string choice(const std::string &flag, std::initializer_list<const char *> choices)
    {
        std::string value;
        if (!take(flag, value))
            return *choices.begin();
        std::string list;
        for (const char *one : choices) {
            if (value == one)
                return value;
            list += (list.empty() ? "" : ", ") + std::string(one);
        }
        fail(flag + " wants one of " + list + ", not '" + value + "'");
    }

    // The team that all parallel regions of the program will have.
    int threads()
    {
        const std::size_t wanted = count("--threads", static_cast<std::size_t>(omp_get_max_threads()));
        if (wanted > 65536)
            fail("--threads " + std::to_string(wanted) + " is more than any machine has");
        omp_set_dynamic(0);
        omp_set_num_threads(static_cast<int>(wanted));
        int got = 0;
#pragma omp parallel
#pragma omp single
        got = omp_get_num_threads();
        // A smaller team would silently change who touches what.
        if (got != static_cast<int>(wanted))
            fail("asked OpenMP for " + std::to_string(wanted) + " threads, got " + std::to_string(got) +
                 "; is OMP_THREAD_LIMIT set?");
        return got;
    }

    std::size_t positional(const std::string &what, std::size_t least = 1)
    {
        if (words_.empty() || words_.front().rfind("--", 0) == 0)
            fail("missing argument: " + what);
        const std::string text = words_.front();
        words_.erase(words_.begin());
        return number(what, text, least);
    }

    void finish() const
    {
        if (!words_.empty())
            fail((words_.front().rfind("-", 0) == 0 ? "unknown flag '" : "unexpected argument '") + words_.front() +
                 "'");
    }

private:
    bool take(const std::string &flag, std::string &value)
    {
        bool found = false;
        for (std::size_t i = 0; i < words_.size();) {
            const auto at = words_.begin() + static_cast<std::ptrdiff_t>(i);
            if (words_[i] == flag) {
                if (i + 1 == words_.size())
                    fail(flag + " wants a value");
                value = words_[i + 1];
                words_.erase(at, at + 2);
                found = true;
            } else if (words_[i].rfind(flag + "=", 0) == 0) {
                value = words_[i].substr(flag.size() + 1);
                words_.erase(at);
                found = true;
            } else {
                ++i;
            }
        }
        return found;
    }

    std::size_t number(const std::string &what, const std::string &text, std::size_t least) const
    {
        errno = 0;
        char *end = nullptr;
        const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
        const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || *end != '\0' || errno == ERANGE)
            fail(what + " wants a whole number, not '" + text + "'");
        if (value < least)
            fail(what + " must be at least " + std::to_string(least) + ", not " + text);
        return static_cast<std::size_t>(value);
    }

    const char *name_;
    std::vector<std::string> words_;
};

// The product of sizes, or a usage error: a wrapped size would allocate little
// and write far.
inline std::size_t product(const Arguments &arguments, std::initializer_list<std::size_t> factors)
{
    std::size_t value = 1;
    for (std::size_t factor : factors)
        if (__builtin_mul_overflow(value, factor, &value) || value > (std::size_t(1) << 46))
            arguments.fail("the sizes ask for more than 64 TiB");
    return value;
}

inline double clock_seconds(clockid_t which)
{
    timespec now;
    clock_gettime(which, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
inline double wall_seconds() { return clock_seconds(CLOCK_MONOTONIC); }

// The elements of one thread: contiguous, as OpenMP's schedule(static) would
// split them, but cut only at multiples of `granule` elements (a cache line or
// a page), so that no two threads share one.
struct Range {
    std::size_t begin, end;
};
inline Range share_of(std::size_t elements, int thread, int threads, std::size_t granule)
{
    const std::size_t granules = (elements + granule - 1) / granule;
    const std::size_t t = static_cast<std::size_t>(thread), team = static_cast<std::size_t>(threads);
    const std::size_t each = granules / team, rest = granules % team;
    const std::size_t first = t * each + (t < rest ? t : rest);
    const std::size_t last = first + each + (t < rest ? 1 : 0);
    const auto clip = [&](std::size_t g) { return g * granule < elements ? g * granule : elements; };
    return {clip(first), clip(last)};
}

// Between two passes over the same memory: the compiler must assume that
// the caller looks, so it neither merges nor interchanges the passes.
inline void memory_is_observed() { asm volatile("" ::: "memory"); }

// The last line of a program, and its exit code.
inline int verdict(std::size_t wrong, std::size_t of, const char *what)
{
    std::printf("verify: %zu of %zu %s wrong: %s\n", wrong, of, what, wrong ? "WRONG" : "ok");
    return wrong ? RESULT_WRONG : 0;
}

// A cheap number of good quality from a counter (the splitmix64 finaliser).
inline std::uint64_t scramble(std::uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// One cache line that points to the next one to visit.
struct alignas(64) Link {
    Link *next;
};

// Sattolo's algorithm: a random permutation that is one single cycle, so that
// a chase visits every line before it meets the first again. Always the same
// one for the same size.
inline void make_cycle(Link *links, std::size_t count)
{
    for (std::size_t i = 0; i < count; ++i)
        links[i].next = &links[i];
    for (std::size_t i = count; i-- > 1;) {
        // The high half of a 64x64 product: 0 ... i-1 without a division.
        const std::size_t j = static_cast<std::size_t>((static_cast<unsigned __int128>(scramble(i)) * i) >> 64);
        Link *const other = links[j].next;
        links[j].next = links[i].next;
        links[i].next = other;
    }
}

// True if the links form one cycle over all of them and `steps` steps from
// the first lead to `reached`.
inline bool cycle_leads_to(const Link *links, std::size_t count, std::uint64_t steps, const Link *reached)
{
    const std::size_t wanted = static_cast<std::size_t>(steps % count);
    const Link *at = links, *expected = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0 && at == links)
            return false;
        if (i == wanted)
            expected = at;
        at = at->next;
    }
    return at == links && expected == reached;
}

} // namespace workload
