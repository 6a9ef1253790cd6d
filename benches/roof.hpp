// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Kernels that do nothing but move memory, for the roof. Bytes are those that
// the memory moves: a store to a line that no cache holds reads it first
// (write-allocate), so STREAM's copy and scale move 12 bytes per float and its
// add and triad 16. The update reads what it writes: 16, the stencil's own three
// reads and one write.
#pragma once

#include <cstddef>

namespace roof {

struct Arrays {
    float *a, *b, *c;
    std::ptrdiff_t count;
};

void first_touch(const Arrays &x);
void update(const Arrays &x);            // b = 2 a - b + s c
void update_prefetched(const Arrays &x); // the same, with software prefetch
// STREAM (McCalpin, "Memory Bandwidth and Machine Balance", 1995), in floats.
void copy(const Arrays &x);  // c = a
void scale(const Arrays &x); // b = s c
void add(const Arrays &x);   // c = a + b
void triad(const Arrays &x); // a = b + s c

} // namespace roof
