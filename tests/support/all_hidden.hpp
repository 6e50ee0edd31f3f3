// SPDX-License-Identifier: Apache-2.0
// AllHidden: HCache with free projections.
#pragma once

#include "sluice/policy/retention/retention.hpp"

namespace sluice::testing {

/// Saves hidden states of every layer but the first, and keeps them instead of K and V.
struct AllHidden {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = true;
  static constexpr bool copies_ahead = false;
  [[nodiscard]] Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::hidden; }
  [[nodiscard]] Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }
  template <class Cost>
  [[nodiscard]] LayerSet hidden_layers(const View& view, const RequestRow& /*row*/, const Cost& /*cost*/) const {
    return LayerSet::all(view.geometry.layers).erase(0);
  }
};

} // namespace sluice::testing
