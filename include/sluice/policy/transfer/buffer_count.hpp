// SPDX-License-Identifier: Apache-2.0
// BufferCount: how many blocks in flight a planner sets aside on top of the resident ones.
#pragma once

#include "sluice/policy/transfer/transfer_scheduler.hpp"

#include <algorithm>
#include <concepts>
#include <span>
#include <string_view>

namespace sluice {

/// `B` counts the blocks that must be free on top of the resident ones under a transfer rule. `loads`: blocks to move,
/// one entry per layer; `streams`: the requests that they belong to.
template <class B, class Rule>
concept BufferCount = TransferScheduler<Rule> &&
    requires(std::span<const double> loads, std::span<const LayerStream> streams) {
  { B::template blocks<Rule>(loads, streams) } -> std::same_as<double>;
  { B::name } -> std::convertible_to<std::string_view>;
};

/// The blocks that the rule really holds, the default: no plan may use memory that does not exist.
struct HeldBuffer {
  static constexpr std::string_view name = "held";

  template <class Rule>
  static double blocks(std::span<const double> loads, std::span<const LayerStream> streams) {
    return Rule::held_blocks(loads, streams);
  }
};

/// OrbitFlow's eq. 1: the worst single layer, for any rule. Reproduces its Fig. 3, in which the plan called best holds
/// 74 of 70 blocks.
struct PaperBuffer {
  static constexpr std::string_view name = "paper";

  template <class Rule>
  static double blocks(std::span<const double> loads, std::span<const LayerStream> /*streams*/) {
    return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  }
};

} // namespace sluice
