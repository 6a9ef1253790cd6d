// SPDX-License-Identifier: MIT OR Apache-2.0

#include "values.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stencil {

// 2 (-1)^(k+1) (M!)^2 / (k^2 (M-k)! (M+k)!), M = HALO
static std::vector<double> weights()
{
    std::vector<double> weight(HALO + 1);
    for (int k = 1; k <= HALO; ++k) {
        double ratio = 1;
        for (int j = 1; j <= k; ++j)
            ratio *= static_cast<double>(HALO - k + j) / static_cast<double>(HALO + j);
        weight[static_cast<std::size_t>(k)] = (k % 2 ? 2.0 : -2.0) * ratio / (k * k);
        weight[0] -= 2 * weight[static_cast<std::size_t>(k)];
    }
    return weight;
}

Comparison compare_with_reference(const float *prev, const float *next, const Grid &g, Index iterations)
{
    const std::vector<double> weight = weights();
    const Index row = g.n1, plane = g.n1 * g.n2;
    std::vector<double> now(static_cast<std::size_t>(g.points())), old(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
        now[i] = start_value(static_cast<std::uint32_t>(i));
        old[i] = 0.96875f * start_value(static_cast<std::uint32_t>(i));
    }
    for (Index iteration = 0; iteration < iterations; ++iteration) {
        for (Index z = HALO; z < g.n3 - HALO; ++z)
            for (Index y = HALO; y < g.n2 - HALO; ++y)
                for (Index x = HALO; x < g.n1 - HALO; ++x) {
                    const Index i = z * plane + y * row + x;
                    const double *const p = now.data() + i;
                    double sum = 3 * weight[0] * p[0];
                    for (Index k = 1; k <= HALO; ++k)
                        for (const Index stride : {Index(1), row, plane})
                            sum += weight[static_cast<std::size_t>(k)] * (p[k * stride] + p[-k * stride]);
                    double &target = old[static_cast<std::size_t>(i)];
                    target = 2 * p[0] - target + velocity_value(static_cast<std::uint32_t>(i)) * sum;
                }
        std::swap(now, old);
    }
    Comparison found{0, 0, 1};
    for (Index z = 0; z < g.n3; ++z)
        for (Index y = 0; y < g.n2; ++y)
            for (Index x = 0; x < g.n1; ++x) {
                const std::size_t i = static_cast<std::size_t>(z * plane + y * row + x);
                const Index at = g.at(x, y, z);
                const double off = std::max(std::fabs(prev[at] - now[i]), std::fabs(next[at] - old[i]));
                if (!(off <= found.error)) // also true for NaN, which max() would drop
                    found.error = off;
                found.largest = std::max({found.largest, std::fabs(now[i]), std::fabs(old[i])});
            }
    // One rounding costs up to 6e-8 of the value. Each iteration adds a few, and
    // as the scheme carries on differences of levels, n of them grow as n^1.5.
    found.allowed = 1e-6 * found.largest * std::max(1.0, std::pow(static_cast<double>(iterations) / 4, 1.5));
    return found;
}

Summary summarize(const float *prev, const Grid &g)
{
    double sum = 0, squares = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum, squares)
    for (Index z = 0; z < g.n3; ++z)
        for (Index y = 0; y < g.n2; ++y)
            for (Index x = 0; x < g.n1; ++x) {
                const double value = prev[g.at(x, y, z)];
                sum += value;
                squares += value * value;
            }
    const double rms = std::sqrt(squares / static_cast<double>(g.points()));
    return {sum, rms, std::isfinite(sum) && rms > 1e-3 && rms < 1e3};
}

} // namespace stencil
