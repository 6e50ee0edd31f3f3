// SPDX-License-Identifier: Apache-2.0
// Window: for how many iterations a plan must hold.
#pragma once

namespace sluice {

/// For how many iterations a plan must hold at least, and need hold at most.
struct Window {
  int min = 1; ///< the plan must fit for this many iterations, with every request one token longer in each
  int max = 1; ///< no plan needs to hold for longer

  /// Of all windows. A planner looks at each step of a window.
  static constexpr int longest = 100'000;
};

} // namespace sluice
