// SPDX-License-Identifier: Apache-2.0
// Plan: where each layer's KV of every running request lives, and what the planner knew when it made the plan.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/holding.hpp"

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace sluice {

// Effort: what a plan cost to find, in search nodes, if the policy says it.

/// A count of search nodes, and whether the policy said it: any assignment or addition says it, 0 included. A policy
/// that says nothing is charged what judging its plans takes (core/stopwatch.hpp).
///
/// Rejected: an optional, because `++plan.effort` is what a search writes.
class Effort {
 public:
  constexpr Effort() = default;
  constexpr Effort(std::int64_t nodes) : nodes_(nodes), said_(true) {} // NOLINT: a count is an effort that was said

  /// What the engine counted for a policy that says nothing.
  [[nodiscard]] static constexpr Effort counted(std::int64_t nodes) {
    Effort effort{nodes};
    effort.said_ = false;
    return effort;
  }

  constexpr Effort& operator+=(std::int64_t nodes) { return *this = Effort{nodes_ + nodes}; }
  constexpr Effort& operator++() { return *this += 1; }

  [[nodiscard]] constexpr bool said() const { return said_; }
  constexpr operator std::int64_t() const { return nodes_; } // NOLINT: it is read as a count

 private:
  std::int64_t nodes_ = 0;
  bool said_ = false;
};

/// What prevented a better plan, or any plan.
enum class Binding : std::uint8_t {
  none,          ///< nothing: every layer of every request is resident
  device_memory, ///< the device's KV memory
  host_memory,   ///< the host's KV memory
  link,          ///< the transfers: even the best plan stalls
  slo,           ///< the SLO and alpha
  search,        ///< the search limit: the best plan found is not proven to be the best
  layout,        ///< the layout or the rule allows no other plan
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

/// A plan's residency for one request.
struct RequestPlan {
  Slot slot{};     ///< which request
  Holding holding; ///< where its KV should be

  friend constexpr bool operator==(const RequestPlan&, const RequestPlan&) = default;
};

/// A plan's decision about the weights (IntervalOffload, ParameterRemap): empty for `ResidentWeights`.
struct WeightsPlan {
  LayerSet streamed;    ///< layers whose weights pass through the slots in each iteration
  double share = 1;     ///< the share of each of these layers' weights that streams; the others stay resident (FlexGen)
  int slots = 0;        ///< device slots, each for `share` of one layer's weights
  int level = 0;        ///< how many layers' memory is given up; a coordinator limits it
  LayerBlocks freed{0}; ///< that memory as KV blocks

  friend constexpr bool operator==(const WeightsPlan&, const WeightsPlan&) = default;
};

/// The decision of the placement role. Plain and printable: observers copy it, tests build it by hand.
struct Plan {
  std::vector<RequestPlan> requests; ///< one per accepted request, in the order of the claims
  /// The rule for requests that the plan has not seen. If `covers_unseen` is false, they need a new plan.
  Holding unseen;
  bool covers_unseen = false; ///< whether `unseen` applies to requests that join later
  WeightsPlan weights;        ///< which weights stream; the engine fills it in

  LayerBlocks in_flight{0};       ///< device blocks that the transfer rule needs on top of the resident ones
  std::uint64_t candidates = 0;   ///< key of the requests *considered*, the rejected ones too
  std::int64_t made_at_step = -1; ///< set by the engine
  std::int64_t expires_at_step =
      std::numeric_limits<std::int64_t>::max(); ///< the step at which it expires, for DecodeWindow

  // What the planner predicted.
  Seconds predicted_step{0};       ///< how long a decode of these requests takes
  Seconds lower_bound{0};          ///< no plan in the policy's space is shorter
  bool proven_optimal = true;      ///< no plan in the policy's space is shorter than this one
  Binding binding = Binding::none; ///< what prevented a better plan
  /// Search nodes: the planning cost, in a unit that does not depend on the machine. If a policy never sets it, the
  /// engine charges what the policy's judgements of plans take.
  Effort effort;
};

// Window: for how many iterations a plan must hold.

/// For how many iterations a plan must hold at least, and need hold at most.
struct Window {
  int min = 1; ///< the plan must fit for this many iterations, with every request one token longer in each
  int max = 1; ///< no plan needs to hold for longer

  /// Of all windows. A planner looks at each step of a window.
  static constexpr int longest = 100'000;
};

// WeightStream: weights that pass through device slots in every iteration.

/// Weights that pass through device slots in every iteration (Select-N, MIRAGE): the same number of blocks of each of
/// these layers, one layer per slot, in layer order and round again with the next token. A layer's transfer may start
/// when the layer that had its slot, `slots` streamed layers before it, has been computed. This covers Select-N's
/// interval (one slot) and MIRAGE's alpha + 1 layers in one slot or alpha + 2 in two. The slots lie outside the KV
/// budget.
struct WeightStream {
  LayerSet layers;   ///< the layers whose weights stream
  double blocks = 0; ///< layer blocks (of KV) of each layer, > 0 if there are layers
  int slots = 1;     ///< each for one layer's blocks; 1 to the number of layers

  /// Whether nothing streams.
  [[nodiscard]] bool empty() const { return layers.empty(); }

  friend bool operator==(const WeightStream&, const WeightStream&) = default;
};

} // namespace sluice
