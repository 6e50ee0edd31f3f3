// SPDX-License-Identifier: Apache-2.0
// Emulated: the launcher for kernels/lookup.hpp that runs a kernel on the emulator.
#pragma once

#include "emulate/launch.hpp"
#include "kernels/lookup.hpp"

#include <cstdint>

namespace kernel_tests {

struct Emulated {
  template <class Params>
  struct Calls {
    sluice::emulate::Report (*launch)(const Params& params, std::uint64_t seed);
  };

  template <sluice::kernels::Kernel K>
  static sluice::emulate::Report launch(const typename K::Params& params, std::uint64_t seed) {
    return sluice::emulate::launch<K>(K::grid(params), params, seed);
  }

  template <sluice::kernels::Kernel K>
  static constexpr Calls<typename K::Params> calls() {
    return {&launch<K>};
  }
};

} // namespace kernel_tests
