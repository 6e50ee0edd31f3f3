// SPDX-License-Identifier: Apache-2.0
// Observer: the concept of the role that is told what happens.
#pragma once

#include "sluice/core/contract.hpp"
#include "sluice/plan/plan.hpp"
#include "sluice/retention/retention.hpp"
#include "sluice/transfer/pipeline.hpp"
#include "sluice/view/proposal.hpp"
#include "sluice/view/view.hpp"

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

/// One iteration, after it has run. References are valid during the call only.
struct IterationRecord {
  std::int64_t step = 0;
  Seconds start{0};
  Seconds duration{0};              ///< start to end, planning that the iteration waited for included
  Seconds stall{0};                 ///< of it, time the compute stream waited for a transfer
  Seconds planning{0};              ///< of it, time it waited for the planner
  std::span<const Claim> batch;     ///< the requests that ran, with how many tokens
  std::span<const RequestRow> rows; ///< by slot, during the iteration; only those of the batch mean anything
  /// Of each stream that a timeline names, the request; streams beyond the list are weights. In real time a stream is
  /// a slot.
  std::span<const Slot> stream_slots;
  std::int64_t decodes = 0;
  Tokens tokens{0};         ///< computed, all claims together
  std::int64_t running = 0; ///< requests that hold device memory as part of the batch
  std::int64_t waiting = 0;
  std::int64_t preempted = 0;
  LayerBlocks device_used{0}; ///< resident, without the blocks in flight
  LayerBlocks device_capacity{0};
  LayerBlocks in_flight{0}; ///< device room that transfers could use
  LayerBlocks host_used{0};
  LayerBlocks to_device{0};   ///< fetched just in time, and by the plan's delta
  LayerBlocks to_host{0};     ///< evicted, and written out by prefills
  Bytes weights{0};           ///< streamed to the device
  bool repeated = false;      ///< no decision was ready: the last one ran again (OneStepAhead)
  const Plan* plan = nullptr; ///< the plan in force
};

/// Stands for "the iteration, once more, into a timeline": what `iterated` gets as its last argument.
struct ReplayArchetype {
  template <class Sink>
  void operator()(Sink&& sink) const;
};

/// `P` says whether it wants to replay iterations: the engine then keeps what the last iteration left.
template <class P>
concept StatesReplay = requires {
  { P::wants_timeline } -> std::convertible_to<bool>;
};

/// `P` hears of requests: that a request comes, is refused, is preempted, is resumed, ends, is cancelled.
template <class P>
concept ObservesRequests = requires(const P& policy, typename P::State& state, const RequestRow& row, Seconds now,
                                    const RequestSpec& spec, RequestId id, std::string_view reason, Kept kept) {
  { policy.submitted(state, row) } -> std::same_as<void>;
  { policy.refused(state, id, spec, now, reason) } -> std::same_as<void>;
  { policy.preempted(state, row, kept, now) } -> std::same_as<void>;
  { policy.resumed(state, row, now) } -> std::same_as<void>;
  { policy.ended(state, row, now) } -> std::same_as<void>;
  { policy.cancelled(state, row, now) } -> std::same_as<void>;
};

/// `P` hears of tokens reaching their user.
template <class P>
concept ObservesDeliveries = requires(const P& policy, typename P::State& state, const RequestRow& row, Tokens count,
                                      Seconds when) {
  { policy.delivered(state, row, count, when) } -> std::same_as<void>;
};

/// `P` hears of plans and iterations.
template <class P>
concept ObservesSteps = requires(const P& policy, typename P::State& state, const Plan& plan, const View& view,
                                 Seconds planning, const IterationRecord& record, const ReplayArchetype& replay) {
  { policy.planned(state, view, plan, planning, planning) } -> std::same_as<void>;
  { policy.iterated(state, record, replay) } -> std::same_as<void>;
};

/// The role that is told what happens. An engine has any number of observers; what an observer collects is its `State`.
///
///  1. `P::role` is `roles::Observer`; `P::State` is default-constructible.
///  2. `submitted`, `refused`, `preempted`, `resumed`, `ended`, `cancelled`: the life of a request. A request that its
///     user gives up is `cancelled`, with the row as it was until then; tokens that it had not been handed never come.
///  3. `delivered(state, row, count, when)`: `count` tokens reached the user at `when`; `row.delivered` counts them
///     already. Deliveries of one request come in order of time; those of different requests may not.
///  4. `planned(state, view, plan, virtual_time, wall_time)`: a new plan, and what it cost on the engine's clock and on
///     the wall's.
///  5. `iterated(state, record, replay)`: an iteration ended. `replay(sink)` calls the evaluator once more with a
///     timeline sink (transfer/pipeline.hpp); an observer may call `replay` if `P::wants_timeline` is true.
template <class P>
concept Observer = PlaysRole<P, roles::Observer> && HasState<P> && StatesReplay<P> && ObservesRequests<P> &&
    ObservesDeliveries<P> && ObservesSteps<P>;

template <>
struct Contract<roles::Observer> {
  template <class P>
  static constexpr bool met = Observer<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Observer needs a nested `State` that holds what it collects");
    static_assert(StatesReplay<P>,
                  "sluice: this Observer needs `static constexpr bool wants_timeline = false;` (or true)");
    if constexpr (HasState<P>) {
      static_assert(ObservesRequests<P>,
                    "sluice: this Observer needs `submitted`, `refused`, `preempted`, `resumed`, `ended` and "
                    "`cancelled` as observer/observer.hpp declares them (empty bodies are fine)");
      static_assert(ObservesDeliveries<P>, "sluice: this Observer needs `void delivered(State&, const RequestRow&, "
                                           "Tokens count, Seconds when) const`");
      static_assert(ObservesSteps<P>, "sluice: this Observer needs `planned` and `iterated` as observer/observer.hpp "
                                      "declares them (empty bodies are fine)");
    }
    return true;
  }
};

} // namespace sluice
