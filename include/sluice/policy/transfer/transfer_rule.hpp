// SPDX-License-Identifier: Apache-2.0
// TransferRule: a transfer rule and a buffer count as a table, for code that is compiled once for all rules.
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/policy/transfer/transfer_scheduler.hpp"

#include <algorithm>
#include <concepts>
#include <span>
#include <string_view>
#include <utility>

namespace sluice::detail {

// Scratch: working memory of a type that its owner does not know.

/// How to create and destroy an object that a Scratch holds.
struct ScratchType {
  void* (*make)();
  void (*end)(void*);
};
template <class T>
inline constexpr ScratchType scratch_of{[]() -> void* { return new T{}; },
                                        [](void* object) { delete static_cast<T*>(object); }};

/// Its content does not outlast a call. A copy therefore starts with a new object, and assignment leaves both as they
/// are: copying a planner from step to step copies and allocates nothing.
///
/// (A std::unique_ptr would do, but <memory> takes as long to compile as all other headers of a transfer rule
/// together.)
class Scratch {
 public:
  explicit Scratch(const ScratchType& type) : type_(&type), object_(type.make()) {}
  Scratch(const Scratch& other) : Scratch(*other.type_) {}
  Scratch& operator=(const Scratch& other) {
    if (type_ != other.type_) {
      Scratch fresh{other};
      std::swap(type_, fresh.type_);
      std::swap(object_, fresh.object_);
    }
    return *this;
  }
  ~Scratch() { type_->end(object_); }

  [[nodiscard]] void* get() { return object_; }

 private:
  const ScratchType* type_;
  void* object_;
};

} // namespace sluice::detail

// BufferCount: how many blocks in flight a planner sets aside on top of the resident ones.
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

/// The functions of a rule that planners and evaluators call. Evaluating an iteration takes microseconds, a call
/// through a pointer nanoseconds; as templates, planners were compiled once per rule and count, and were no faster.
struct TransferRule {
  std::string_view name;
  bool needs_room; ///< as TransferScheduler says

  const detail::ScratchType* state; ///< the rule's `State`, which the functions below take
  void (*clear)(void* state);
  StepCost (*evaluate)(const Pipeline& pipeline, void* state);
  /// Blocks in flight on top of the resident ones, by the buffer count.
  double (*blocks)(std::span<const double> loads, std::span<const LayerStream> streams);
};

/// The table of any transfer rule type, published or a user's own.
template <TransferScheduler Rule, BufferCount<Rule> Count = HeldBuffer>
inline constexpr TransferRule transfer_rule_of{
    Rule::name,
    Rule::needs_room,
    &detail::scratch_of<typename Rule::State>,
    [](void* state) { static_cast<typename Rule::State*>(state)->clear(); },
    [](const Pipeline& pipeline, void* state) -> StepCost {
      return Rule::evaluate(pipeline, *static_cast<typename Rule::State*>(state));
    },
    [](std::span<const double> loads, std::span<const LayerStream> streams) -> double {
      return Count::template blocks<Rule>(loads, streams);
    },
};

} // namespace sluice
