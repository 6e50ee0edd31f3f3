// SPDX-License-Identifier: Apache-2.0
// ResidentWeights: the weights stay on the device (the default).
#pragma once

#include "sluice/weights/weights.hpp"

namespace sluice {

struct ResidentWeights {
  using role = roles::Weights;
  struct State {};

  void offer(const View& /*view*/, State& /*state*/, LayerBlocks /*demand*/,
             std::vector<WeightsLevel>& /*levels*/) const {}
};

static_assert(Weights<ResidentWeights>);

} // namespace sluice
