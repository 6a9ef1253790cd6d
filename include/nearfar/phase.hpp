// SPDX-License-Identifier: MIT OR Apache-2.0
//
// nearfar/phase.hpp - a phase that ends with its scope, also by an exception.
//
// ```cpp
// {
//     const nearfar::phase solve("solve");
//     nearfar::metric("unknowns", 1e6);
//     for (int step = 0; step < 3; ++step) {
//         const nearfar::phase inner("step " + std::to_string(step));
//     }
// }
// ```
#ifndef NEARFAR_PHASE_HPP
#define NEARFAR_PHASE_HPP

#include <cstring>
#include <string>

#include "../nearfar.h"

namespace nearfar {

class phase {
  public:
    // The name of a literal is kept as a pointer; the end needs it again.
    template <std::size_t N> [[gnu::always_inline]] explicit phase(const char (&name)[N]) noexcept : name_(name)
    {
        nearfar_phase_begin(name_);
    }
    // One that is made at run time is kept as far as the agent reads it, without allocating.
    [[gnu::always_inline]] explicit phase(const std::string &name) noexcept : name_(kept_)
    {
        const std::size_t bytes = name.copy(kept_, sizeof kept_ - 1);
        kept_[bytes] = '\0';
        nearfar_phase_begin(name_);
    }
    [[gnu::always_inline]] ~phase() { nearfar_phase_end(name_); }
    phase(const phase &) = delete;
    phase &operator=(const phase &) = delete;

  private:
    const char *name_;
    char kept_[256]; // names of up to 255 bytes are distinguished
};

inline void metric(const char *name, double value) noexcept { nearfar_metric(name, value); }

} // namespace nearfar

#endif
