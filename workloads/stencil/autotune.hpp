// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "sweep.hpp"

namespace stencil {

// Tries blocks and tunings on the run's own memory, prints a table, and leaves
// the fastest in `run`. Ends with the memory given back, so that the
// initialisation that follows touches it first, by the blocks chosen here.
void autotune(const Memory &memory, Run &run, const std::string &init, Index steps, int threads);

} // namespace stencil
