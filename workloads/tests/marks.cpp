// SPDX-License-Identifier: MIT OR Apache-2.0
// The header must mean the same in C++.
#include "marks.c"
