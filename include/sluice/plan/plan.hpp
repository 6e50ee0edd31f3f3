// SPDX-License-Identifier: Apache-2.0
// Plan: for every running request, where each layer's KV lives; and what the planner knew when it made the plan.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/memory/holding.hpp"

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace sluice {

/// What stood in the way of a better plan, or of any.
enum class Binding : std::uint8_t {
  none,          ///< nothing: every layer of every request is resident
  device_memory, ///< the device's KV budget
  host_memory,   ///< the host's
  link,          ///< the transfers: the optimum stalls
  slo,           ///< the SLO and alpha
  search,        ///< the deadline: the plan is the best found, not proven best
  layout,        ///< the layout or the rule allows no other
};

[[nodiscard]] constexpr std::string_view name_of(Binding binding) {
  switch (binding) {
  case Binding::none:
    return "none";
  case Binding::device_memory:
    return "device memory";
  case Binding::host_memory:
    return "host memory";
  case Binding::link:
    return "link";
  case Binding::slo:
    return "SLO";
  case Binding::search:
    return "search";
  case Binding::layout:
    return "layout";
  }
  return "unknown";
}

/// A plan's holding for one request.
struct RequestPlan {
  Slot slot{};     ///< which request
  Holding holding; ///< where its KV should be

  friend constexpr bool operator==(const RequestPlan&, const RequestPlan&) = default;
};

/// A plan's part about the weights (IntervalOffload, ParameterRemap): empty for `ResidentWeights`.
struct WeightsPlan {
  LayerSet streamed;    ///< layers whose weights pass through the slots in each iteration
  double share = 1;     ///< of each of these layers' weights; the rest stays (FlexGen streams a part of every layer)
  int slots = 0;        ///< device slots, each for `share` of one layer's weights
  int level = 0;        ///< layers' memory given up, which a coordinator caps
  LayerBlocks freed{0}; ///< that memory as KV blocks

  friend constexpr bool operator==(const WeightsPlan&, const WeightsPlan&) = default;
};

/// The decision of the placement role. Plain and printable: observers copy it, tests build it by hand.
struct Plan {
  std::vector<RequestPlan> requests; ///< one per request considered and accepted, in the order of the claims
  /// The rule for requests that the plan has not seen. Where `covers_unseen` is false they need a new plan.
  Holding unseen;
  bool covers_unseen = false; ///< whether `unseen` is for whoever joins later
  WeightsPlan weights;        ///< which weights stream; the engine fills it in

  LayerBlocks in_flight{0};       ///< device blocks that the transfer rule needs on top of the resident ones
  std::uint64_t candidates = 0;   ///< key of the requests *considered*, the rejected ones too
  std::int64_t made_at_step = -1; ///< by the engine
  std::int64_t expires_at_step = std::numeric_limits<std::int64_t>::max(); ///< until when it holds, for DecodeWindow

  // What the planner predicted.
  Seconds predicted_step{0};       ///< how long a decode of these requests takes
  Seconds lower_bound{0};          ///< no plan of the policy's space is shorter
  bool proven_optimal = true;      ///< nor shorter than this one
  Binding binding = Binding::none; ///< what stood in the way of a better plan
  std::int64_t effort = 0;         ///< search nodes: what the plan cost, in a unit that does not depend on the machine
};

} // namespace sluice
