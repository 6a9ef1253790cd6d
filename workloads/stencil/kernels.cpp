// SPDX-License-Identifier: MIT OR Apache-2.0

#include "kernels.hpp"

namespace stencil {

int all_kernels(Kernel *kernels)
{
    int count = 0;
#if defined(__x86_64__)
    // These also ask the operating system whether it saves the wide registers.
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f");
    kernels[count++] = {"avx512", "AVX-512, 16 lanes", block_avx512, avx512, true};
    kernels[count++] = {"avx2", "AVX2 and FMA, 8 lanes", block_avx2, avx2, true};
    // The source of the AVX-512 kernel in AVX2 instructions, two registers for
    // one of 16 lanes: its arithmetic can be tested where AVX-512 is missing.
    kernels[count++] = {"avx512-in-avx2", "16 lanes in AVX2 instructions, for tests", block_avx512_in_avx2, avx2, false};
#endif
    kernels[count++] = {"portable", "4 lanes", block_portable, true, true};
    return count;
}

} // namespace stencil
