// SPDX-License-Identifier: Apache-2.0
// PlainEstimate: an Estimate made by hand, a millisecond an iteration and one for each token and each decode.
// Rebuilding takes no time by default.
#pragma once

#include "sluice/policy/transfer/estimate.hpp"

namespace sluice::testing {

struct PlainEstimate {
  double fixed_s = 1e-3, token_s = 1e-3, rebuilt_s = 0;
  Geometry geometry{1, Bytes{4096}, Bytes{1 << 20}};

  [[nodiscard]] Estimate estimate() const { return {table(), this, geometry}; }

 private:
  static const EstimateTable& table() {
    static const EstimateTable made{
        [](const void* self, const Work& work) {
          const auto& plain = *static_cast<const PlainEstimate*>(self);
          const auto rebuilt = static_cast<double>(work.rebuilt.projected.count());
          return StepTime{{},
                          Seconds{plain.fixed_s + plain.token_s * static_cast<double>(work.tokens().count()) +
                                  plain.rebuilt_s * rebuilt},
                          {}};
        },
        [](const void*) { return LinkCost{BytesPerSecond{1e9}}; }, nullptr};
    return made;
  }
};

} // namespace sluice::testing
