// SPDX-License-Identifier: Apache-2.0
// ResidentWeights: the weights stay on the device (the default).
#pragma once

#include "sluice/policy/weights/weights.hpp"

#include <vector>

namespace sluice {

struct ResidentWeights {
  using role = roles::Weights;
  static constexpr bool promises = false;
  static constexpr bool lends = false;
  struct State {};

  template <class Task>
  void offer(const Task& /*task*/, State& /*state*/, std::vector<WeightsLevel>& /*levels*/) const {}
  [[nodiscard]] LayerBlocks most_freed(const Geometry& /*geometry*/) const { return LayerBlocks{0}; }
};

static_assert(Weights<ResidentWeights>);

template <>
struct Default<roles::Weights> {
  using type = ResidentWeights;
};

} // namespace sluice
