// SPDX-License-Identifier: Apache-2.0
// TransferScheduler: when a transfer may start, and which transfer gets the link.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <concepts>
#include <span>
#include <string_view>

namespace sluice {

/// `T` names the state that one iteration leaves to the next, and can clear it.
template <class T>
concept HasTransferState = requires(typename T::State state) {
  requires std::default_initializable<typename T::State>;
  state.clear();
};

/// `T` carries the unfinished blocks of a plan change from one iteration to the next.
template <class T>
concept KeepsBackground = requires(typename T::State state) {
  { state.background_blocks } -> std::same_as<double&>;
};

/// `T` evaluates one iteration.
template <class T>
concept EvaluatesPipeline = requires(const Pipeline& pipeline, typename T::State& state, NoTimeline& sink) {
  { T::evaluate(pipeline, state) } -> std::same_as<StepCost>;
  { T::evaluate(pipeline, state, sink) } -> std::same_as<StepCost>;
};

/// `T` says how many blocks can be in flight at once.
template <class T>
concept CountsBuffer = requires(std::span<const double> loads, std::span<const LayerStream> streams) {
  { T::held_blocks(loads, streams) } -> std::same_as<double>;
};

/// A transfer rule: the one place where transfers become time. Planners call it as the objective, the simulated backend
/// as execution, observers as explanation.
///
///  1. `using role = roles::Transfer;` and the static constants `std::string_view name` and `bool needs_room`:
///     whether `evaluate` reads `room_blocks`, which must then hold the worst layer.
///  2. `State`: what the last iteration left (link, rooms, what has arrived for the next token). `clear()` forgets it:
///     a caller that changes the plan or the batch calls it, because the prefetched blocks would otherwise count for
///     other requests. (The caller puts back `background_blocks`, which no change of plan undoes.) A rule that needs
///     scratch memory keeps it here too, so that a steady state allocates nothing.
///  3. `evaluate(pipeline, state, sink)`: the cost of one iteration that starts at the state; the state becomes the
///     one that the iteration leaves. Without a sink, or with `NoTimeline`, nothing is recorded.
///  4. `held_blocks(loads, streams)`: the most blocks in flight at once that the rule needs, without resident ones.
///
/// Requirements that are not checked: `evaluate` is a pure function of its arguments; work moved is conserved; more
/// compute time never ends an iteration earlier; an iteration without transfers takes the sum of the compute times;
/// compute time is added through `pipeline.clock`, which knows when the other lane slows this one (LinkClock).
template <class T>
concept TransferScheduler = PlaysRole<T, roles::Transfer> && HasTransferState<T> && KeepsBackground<T> &&
    EvaluatesPipeline<T> && CountsBuffer<T> && requires {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::needs_room } -> std::convertible_to<bool>;
};

template <>
struct Contract<roles::Transfer> {
  template <class P>
  static constexpr bool met = TransferScheduler<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasTransferState<P>, "sluice: this Transfer policy needs a nested `State` with `void clear()`: what "
                                       "one iteration leaves to the next");
    if constexpr (HasTransferState<P>) {
      static_assert(EvaluatesPipeline<P>,
                    "sluice: this Transfer policy needs `template <class Sink = NoTimeline> static StepCost "
                    "evaluate(const Pipeline&, State&, Sink&& = Sink{})`");
      static_assert(KeepsBackground<P>,
                    "sluice: this Transfer policy's `State` needs `double background_blocks`: what is left "
                    "of a plan's delta");
    }
    static_assert(CountsBuffer<P>, "sluice: this Transfer policy needs `static double held_blocks(std::span<const "
                                   "double> loads, std::span<const LayerStream>)`");
    static_assert(
        requires { P::name; }, "sluice: this Transfer policy needs `static constexpr std::string_view name`");
    static_assert(
        requires { P::needs_room; },
        "sluice: this Transfer policy needs `static constexpr bool needs_room = true;` (false if `evaluate` does not "
        "read `room_blocks`)");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Transfer rules in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice
