// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The parallel loops: which thread computes which block, and which touches it first.
#pragma once

#include "kernels.hpp"

#include <string>

namespace stencil {

// The three arrays. `next` and `prev` change places after each iteration.
struct Arrays {
    float *prev, *next, *vel;
};

// Fresh pages from the system, which lie nowhere until they are touched. The
// arrays begin in different cache sets.
struct Memory {
    explicit Memory(const Grid &grid, bool huge_pages);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    bool there() const { return block_ != nullptr; }
    Arrays arrays() const;
    // Gives the pages back; the next touch decides anew where they lie.
    void forget() const;
    std::size_t bytes() const { return bytes_; }

private:
    void *block_;
    std::size_t bytes_, each_;
};

struct Run {
    Grid grid;
    Kernel kernel;
    Tuning tuning;
    bool dynamic; // schedule(dynamic)
};

// `init` is serial, half-parallel or first-touch, as in iso3dfd.cpp.
void initialize(const Arrays &arrays, const Grid &grid, const std::string &init);

// One iteration; does not swap.
void iterate(const Arrays &arrays, const Run &run);

// `steps` iterations in one sweep of the grid, then swaps if they are odd.
void sweep(Arrays &arrays, const Run &run, Index steps);

// All iterations, in sweeps of `steps`; the last sweep may be shorter.
void iterate_all(Arrays &arrays, const Run &run, Index iterations, Index steps);

} // namespace stencil
