// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the tests of the building blocks say: EXPECT goes on after a failure and
// prints both sides; the exit code of report() is 1 then.
#pragma once

#include <atomic>
#include <cstdio>
#include <sstream>
#include <string>

namespace expectations {

// Teams count, too.
inline std::atomic<int> failed{0}, checked{0};

template <class A, class B>
void equal(const A &a, const B &b, const char *what, const char *file, int line)
{
    ++checked;
    if (a == b)
        return;
    std::ostringstream text;
    text << file << ':' << line << ": " << what << ": " << a << " instead of " << b << '\n';
    std::fputs(text.str().c_str(), stderr);
    ++failed;
}

inline void holds(bool ok, const char *what, const char *file, int line)
{
    ++checked;
    if (ok)
        return;
    std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    ++failed;
}

inline int report(const char *name)
{
    std::printf("%s: %d of %d expectations failed: %s\n", name, failed.load(), checked.load(), failed ? "WRONG" : "ok");
    return failed ? 1 : 0;
}

} // namespace expectations

#define EXPECT(...) expectations::holds((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define EXPECT_EQUAL(found, wanted) expectations::equal((found), (wanted), #found, __FILE__, __LINE__)
#define EXPECT_THROWS(exception, ...)                                                                                  \
    do {                                                                                                               \
        bool thrown = false;                                                                                           \
        try {                                                                                                          \
            static_cast<void>(__VA_ARGS__);                                                                            \
        } catch (const exception &) {                                                                                  \
            thrown = true;                                                                                             \
        }                                                                                                              \
        expectations::holds(thrown, #__VA_ARGS__ " throws " #exception, __FILE__, __LINE__);                           \
    } while (false)
