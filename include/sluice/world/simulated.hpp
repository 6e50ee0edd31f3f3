// SPDX-License-Identifier: Apache-2.0
// Simulated: a virtual clock driven by a cost model (the default backend).
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/backend.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

// InputBatch: the order of the requests in a server's input tensors.

/// The rows of a persistent batch (vllm/v1/worker/gpu_input_batch.py, `add_request` and `condense`). A request keeps
/// its row from one iteration to the next. A request that is not scheduled loses its row, newcomers take the free rows
/// from the first on, and then the last rows move into the rows that are still free.
///
/// The order matters where a kernel deals out the sequences in the order of their rows (`DecodeTail`).
class InputBatch {
 public:
  /// Takes over the requests of an iteration. O(batch).
  void update(const View& view, std::span<const Claim> batch);

  /// The contexts of the decodes among the rows, each with the fresh token.
  void contexts(const View& view, std::span<const Claim> batch, std::vector<Tokens>& into) const;

  /// The slots of the rows, in order.
  [[nodiscard]] std::vector<Slot> slots() const;

 private:
  struct Row {
    Slot slot{};
    RequestId id{};
    bool used = false;
  };
  struct Seen {
    std::int64_t step = 0; ///< the last iteration that scheduled it
    RequestId id{};
    bool has_row = false;
  };
  Seen& seen_at(Slot slot);

  std::vector<Row> rows_;
  std::vector<Seen> seen_; ///< by slot
  std::vector<std::size_t> free_;
  mutable std::vector<bool> decodes_;
  std::int64_t step_ = 0;
};

namespace detail {

/// The batch in the order of a server's rows, and the contexts of its decodes.
struct OrderedBatch {
  InputBatch rows;
  std::vector<Tokens> contexts;

  /// `work` with the contexts of its decodes.
  Work with_contexts(const Iteration& iteration);
};
struct NoOrder {};

} // namespace detail

/// Runs an iteration with the evaluator and the *world's* cost model. That is another object than the planner's cost
/// model, so the two can differ, and a planner that calibrates learns from the world and not from itself.
template <class World>
class BasicSimulated {
 public:
  using role = roles::Backend;
  static constexpr bool keeps_requests = false;
  static constexpr bool real_time = false;
  static constexpr bool ends_requests = false;
  static constexpr bool plans_async = false;
  static constexpr bool predicts = true;
  using world_type = World;

  BasicSimulated() requires std::default_initializable<World>
  = default;
  explicit BasicSimulated(World world, Seconds start = Seconds{0}) : world_(std::move(world)), now_(start) {}

  [[nodiscard]] Seconds now() const { return now_; }
  void idle_until(Seconds when) {
    if (when > now_) now_ = when;
  }

  /// A simulated iteration takes no time until `wait` is called.
  template <class Transfer>
  void launch(const Iteration& /*iteration*/) {}
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = in_order(
        iteration, [&](const Iteration& ordered) { return evaluate<Transfer>(ordered, world_, compute_, state); });
    now_ += cost.duration;
    return cost;
  }

  /// For a node whose engines share a bus.
  template <class Transfer, class Sink>
  IterationCost predict(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    return in_order(iteration, [&](const Iteration& ordered) -> IterationCost {
      if (ordered.computes_only() && state.background_blocks <= 0)
        return evaluate<Transfer>(ordered, world_, compute_, state);
      const StepCost cost = evaluate_link<Transfer>(pipeline_of(ordered, world_, compute_), state, sink);
      return {Seconds{cost.step_s}, Seconds{cost.stall_s}};
    });
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    in_order(iteration, [&](const Iteration& ordered) {
      evaluate_link<Transfer>(pipeline_of(ordered, world_, compute_), state, sink);
    });
  }

  [[nodiscard]] const World& world() const { return world_; }

 private:
  /// Calls `run` with the iteration, and with the contexts of its decodes if the world reads them.
  template <class Run>
  auto in_order(const Iteration& iteration, Run&& run) {
    if constexpr (ReadsContexts<World>) {
      const Work work = order_.with_contexts(iteration);
      return run(iteration.with(work));
    } else {
      return run(iteration);
    }
  }

  World world_;
  Seconds now_{0};
  LayerArray compute_{};
  [[no_unique_address]] std::conditional_t<ReadsContexts<World>, detail::OrderedBatch, detail::NoOrder> order_;
};

using Simulated = BasicSimulated<Roofline>;

template <>
struct Default<roles::Backend> {
  using type = Simulated;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/world/simulated.inl.hpp" // IWYU pragma: keep
#endif
