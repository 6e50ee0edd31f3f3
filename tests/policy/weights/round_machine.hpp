// SPDX-License-Identifier: Apache-2.0
// A machine with round numbers, and a task for policies that stream weights.
#pragma once

#include "sluice/policy/weights/weights.hpp"

#include <limits>
#include <vector>

namespace sluice::testing {

/// A machine with round numbers: a layer computes for `compute_s` with any work, and the link moves one layer's weights
/// in `transfer_s`.
struct RoundCost {
  using role = roles::Cost;
  struct State {};
  double compute_s = 1;
  double transfer_s = 1;
  [[nodiscard]] StepTime step(const Work&) const { return {Seconds{0}, Seconds{compute_s}, Seconds{0}}; }
  [[nodiscard]] LinkCost link() const {
    LinkCost link;
    link.rate = BytesPerSecond{1e6 / transfer_s};
    return link;
  }
  [[nodiscard]] const RoundCost& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};
inline constexpr Bytes layer_weights{1'000'000};

struct Machine {
  RoundCost cost;
  View view;
  int lent = 0;  ///< layers whose memory other engines use
  int taken = 0; ///< layers whose memory KV uses by the current plan
  std::vector<RequestRow> rows = std::vector<RequestRow>(1);
  std::vector<Claim> claims{Claim{Slot{0}, Tokens{1}, Tokens{0}, true}};

  Machine(int layers, double compute_s, double transfer_s, double slo_s = std::numeric_limits<double>::infinity())
      : cost{compute_s, transfer_s} {
    view.geometry = {layers, Bytes{1000}, layer_weights};
    rows[0].spec.slo.tbt = Seconds{slo_s};
  }
  [[nodiscard]] WeightsTask<RoundCost> task(LayerBlocks demand, LayerBlocks own) {
    view.rows = rows;
    Work steady;
    steady.decodes = steady.samples = 1;
    return {view, cost, claims, demand, own, steady, lent, taken};
  }
};

} // namespace sluice::testing
