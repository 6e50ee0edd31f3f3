// SPDX-License-Identifier: Apache-2.0
// Backend: the role that runs an iteration and keeps the clock.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/interrupt.hpp"
#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/state/memory/shared_blocks.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace sluice {

class Doorbell; // world/real/async_thread.hpp

/// What other engines take from an iteration's machine while it runs; nothing by default.
struct Surroundings {
  std::span<const LinkSpell> bus{}; ///< when the lane to the device has how much of a bus that other engines share
  double slowdown = 1;              ///< of the computation, caused by other engines on the same device
};

/// One iteration, as the engine hands it to its backend: which requests compute what, and which blocks must be where
/// before which layer.
struct Iteration {
  const View& view;
  const Work& work;
  std::span<const Claim> batch;
  std::span<const LayerStream>
      streams;              ///< KV on the host that the batch needs, per request; returning weights are the last stream
  WeightStream weights;     ///< streamed; none by default
  double room_blocks = 0;   ///< device room for blocks in flight
  double urgent_blocks = 0; ///< to the device before any prefetch
  double first_blocks = 0;  ///< the part of them that must arrive before the first layer starts (a whole swap-in)
  double urgent_out_blocks = 0; ///< to the host before any prefetch, to make room
  double background_blocks = 0; ///< to the host in the background (evictions)
  double written_blocks = 0;    ///< KV of offloaded layers that prompts write out while they compute it
  double returned_blocks = 0;   ///< part of `streams`: weights that return to the device for good
  Surroundings around{};
  SharedBlocks shared{}; ///< for a backend that carries out the engine's prefix cache

  /// The same iteration with another description of its work, which must outlive it.
  [[nodiscard]] Iteration with(const Work& other) const {
    return {view,           other,           batch,        streams,           weights,
            room_blocks,    urgent_blocks,   first_blocks, urgent_out_blocks, background_blocks,
            written_blocks, returned_blocks, around,       shared};
  }

  /// The fraction of the blocks on the link that is not weights.
  [[nodiscard]] double kv_share() const {
    if (weights.empty() && returned_blocks <= 0) return 1;
    const double streamed = weights.blocks * weights.layers.count() + returned_blocks;
    double kv = urgent_blocks + urgent_out_blocks + background_blocks + written_blocks - returned_blocks;
    kv += detail::written_back_blocks(streams);
    for (const LayerStream& stream : streams) kv += stream.blocks * stream.layers.count();
    return kv + streamed > 0 ? kv / (kv + streamed) : 1;
  }
  /// Nothing crosses the link, and the host computes nothing.
  [[nodiscard]] bool computes_only() const {
    return streams.empty() && weights.empty() && work.hosted.nothing() && urgent_blocks <= 0 &&
           urgent_out_blocks <= 0 && background_blocks <= 0 && written_blocks <= 0;
  }
};

/// How long an iteration took.
struct IterationCost {
  Seconds duration{0};
  Seconds stall{0}; ///< part of `duration` in which the compute stream waited for a transfer or the host's attention
  Seconds link{0};  ///< part of `duration` in which anything crossed the link; 0: nothing did, or it was not measured,
                    ///< as on real machines
};

/// Translates an iteration into the evaluator's terms. Planners, the simulated backend and calibrating cost models all
/// use this one translation.
///
/// `compute` is scratch memory that must outlive the pipeline.
template <class Cost>
[[nodiscard]] Pipeline pipeline_of(const Iteration& iteration, const Cost& cost, LayerArray& compute) {
  const int layers = iteration.view.geometry.layers;
  StepTime time = layer_times(cost, iteration.work, {compute.data(), static_cast<std::size_t>(layers)});
  if (iteration.around.slowdown != 1) {
    for (int l = 0; l < layers; ++l) compute[static_cast<std::size_t>(l)] *= iteration.around.slowdown;
    time.before = time.before * iteration.around.slowdown;
    time.after = time.after * iteration.around.slowdown;
  }
  if (time.waits > Seconds{0})
    for (int l = 0; l < layers; ++l) compute[static_cast<std::size_t>(l)] += time.waits.count();
  Pipeline pipeline;
  pipeline.compute_s = {compute.data(), static_cast<std::size_t>(layers)};
  pipeline.before_s = time.before.count();
  pipeline.after_s = time.after.count();
  pipeline.on_link = time.on_link;
  pipeline.host_wait_s = time.waits.count();
  pipeline.link = block_link(cost.link(), iteration.view.geometry, iteration.kv_share());
  pipeline.streams = iteration.streams;
  pipeline.weights = iteration.weights;
  pipeline.room_blocks = iteration.room_blocks;
  pipeline.urgent_blocks = iteration.urgent_blocks;
  pipeline.first_blocks = iteration.first_blocks;
  pipeline.urgent_out_blocks = iteration.urgent_out_blocks;
  pipeline.background_blocks = iteration.background_blocks;
  pipeline.written_blocks = iteration.written_blocks;
  pipeline.clock.spells = iteration.around.bus;
  return pipeline;
}

/// Use instead of a cost model: every iteration takes the same time, whatever it computes and moves. It has no
/// timeline.
struct FixedDuration {
  Seconds duration{1e-3};
};

/// How long an iteration takes under a transfer rule and a cost model.
template <class Transfer, class Cost>
[[nodiscard]] IterationCost evaluate(const Iteration& iteration, const Cost& cost, LayerArray& compute,
                                     typename Transfer::State& state) {
  if constexpr (std::same_as<Cost, FixedDuration>) {
    state.clear();
    return {cost.duration, Seconds{0}};
  } else {
    drop_if_interrupted();
    if (iteration.computes_only() && state.background_blocks <= 0)
      return {compute_time(cost, iteration.work, iteration.view.geometry.layers) * iteration.around.slowdown,
              Seconds{0}};
    const Pipeline pipeline = pipeline_of(iteration, cost, compute);
    const StepCost step = evaluate_link<Transfer>(pipeline, state);
    return {Seconds{step.step_s}, Seconds{step.stall_s}, Seconds{step.link_s}};
  }
}

/// `P` keeps a clock.
template <class P>
concept KeepsClock = requires(P& backend, const P& watched, Seconds when) {
  { watched.now() } -> std::same_as<Seconds>;
  { backend.idle_until(when) } -> std::same_as<void>;
};

/// `P` states whether its clock is real: iterations and decisions then take real time.
template <class P>
concept StatesRealTime = requires {
  typename std::bool_constant<P::real_time>;
};
template <class P>
inline constexpr bool is_real_time = P::real_time;

/// A server can use `P`: in real time, `P` can be woken while it idles, and can do in advance what its first iteration
/// would wait for.
template <class P>
concept HasLiveHooks = requires(P& backend, Seconds when, Doorbell& bell) {
  requires std::same_as<decltype(backend.idle_until(when, bell)), void>;
  requires std::same_as<decltype(backend.load()), Status>;
};
template <class P>
concept CanServe = StatesRealTime<P> &&(!bool(P::real_time) || HasLiveHooks<P>);

/// `P` measures the seconds of each layer; none where it could not measure them, or where a replay could not repeat
/// them.
template <class P>
concept MeasuresLayers = requires(const P& backend) {
  { backend.computed_layers() } -> std::same_as<std::span<const double>>;
};

/// `P` says whether its host can attend decodes. A backend that does not say so attends them if its time is virtual: a
/// simulation computes nothing.
template <class P>
concept SaysIfHostAttends = requires(const P& backend) {
  { backend.attends_on_host() } -> std::same_as<bool>;
};
template <class P>
[[nodiscard]] bool host_attends(const P& backend) {
  if constexpr (SaysIfHostAttends<P>)
    return backend.attends_on_host();
  else
    return !P::real_time;
}

/// `P` runs on a machine that measures when its layers were computed and its transfers ran.
template <class P>
concept MeasuresTimes = requires(const P& backend) {
  backend.layer_times();
  backend.link_times();
};

/// `P` runs an iteration under a transfer rule, in two calls, so that the engine can work while the device runs.
template <class P>
concept RunsIteration = requires(P& backend, const Iteration& iteration, DeadlinePool::State& state, NoTimeline& sink) {
  { backend.template launch<DeadlinePool>(iteration) } -> std::same_as<void>;
  { backend.template wait<DeadlinePool>(iteration, state) } -> std::same_as<IterationCost>;
  { backend.template replay<DeadlinePool>(iteration, state, sink) } -> std::same_as<void>;
};

namespace detail {
/// Whether all KV of a running request that loads before it computes is on the device. A backend that does not say so
/// has it at once.
template <class P>
[[nodiscard]] bool has_loaded(const P& backend, Slot slot) {
  if constexpr (requires { { backend.has_loaded(slot) } -> std::same_as<bool>; })
    return backend.has_loaded(slot);
  else
    return true;
}
} // namespace detail

/// An outcome of an iteration that the batch does not show: the request generated its last token before its length ran
/// out, or it failed.
struct RequestOutcome {
  Slot slot{};
  bool failed = false;
  std::string_view reason{}; ///< why it failed; valid until the next iteration
  /// Failed because there is no room: its KV is gone, its tokens are not. The engine preempts it and computes its KV
  /// again, unless that has happened too often while it ran alone.
  bool recompute = false;
};

/// `P` states whether requests can end early or fail.
template <class P>
concept StatesOutcomes = requires {
  typename std::bool_constant<P::ends_requests>;
};
template <class P>
concept EndsRequests = StatesOutcomes<P> && bool(P::ends_requests);

/// After an iteration, `P` lists the requests that ended early or failed: at most one outcome each.
template <class P>
concept HasOutcomes = requires(const P& backend) {
  // Not `-> std::same_as`: g++ reports a mismatch there as a separate error, besides our sentence.
  requires std::same_as<decltype(backend.outcomes()), std::span<const RequestOutcome>>;
};
template <class P>
concept NamesOutcomes = requires(P& backend) {
  backend.outcomes();
};

/// `P` states whether it keeps anything about a request between iterations: bytes, or a record of the run.
template <class P>
concept StatesKeeping = requires {
  typename std::bool_constant<P::keeps_requests>;
};
template <class P>
concept KeepsRequests = StatesKeeping<P> && bool(P::keeps_requests);

/// The engine tells `P` about changes between iterations: a request is cancelled (its slot, and how many requests were
/// submitted by then), or a timer released tokens that were due.
template <class P>
concept HearsBetween = requires(P& backend, Slot slot, std::int64_t submitted, Seconds until) {
  requires std::same_as<decltype(backend.cancelled(slot, submitted)), void>;
  requires std::same_as<decltype(backend.released(until)), void>;
};
template <class P>
concept NamesCancelled = requires(P& backend, Slot slot, std::int64_t submitted) {
  backend.cancelled(slot, submitted);
};
template <class P>
concept KeepsAsSaid = StatesKeeping<P> && hook_as_said(KeepsRequests<P>, HearsBetween<P>, NamesCancelled<P>);

/// `P` states whether it has a second thread, besides the one that runs iterations.
template <class P>
concept StatesThread = requires {
  typename std::bool_constant<P::plans_async>;
};
template <class P>
concept PlansAsync = StatesThread<P> && bool(P::plans_async);

/// `P` has that thread, for one task at a time: `async(work, what)` starts `work(what)`, `async_done()` reports whether
/// the last task has ended, `join_async()` waits for it.
template <class P>
concept HasThread = requires(P& backend, void (*work)(void*), void* what) {
  requires std::same_as<decltype(backend.async(work, what)), void>;
  requires std::same_as<decltype(backend.async_done()), bool>;
  requires std::same_as<decltype(backend.join_async()), void>;
};
template <class P>
concept NamesThread = requires(P& backend, void (*work)(void*), void* what) {
  backend.async(work, what);
};

/// `P` states whether it can predict how long an iteration would take.
template <class P>
concept StatesPredicts = requires {
  typename std::bool_constant<P::predicts>;
};
template <class P>
concept Predicts = StatesPredicts<P> && bool(P::predicts);

/// `P` predicts it under a transfer rule, and changes only the state it is given.
template <class P>
concept HasPredict = requires(P& backend, const Iteration& iteration, DeadlinePool::State& state, NoTimeline& sink) {
  requires std::same_as<decltype(backend.template predict<DeadlinePool>(iteration, state, sink)), IterationCost>;
};
template <class P>
concept NamesPredict = requires(P& backend, const Iteration& iteration, DeadlinePool::State& state, NoTimeline& sink) {
  backend.template predict<DeadlinePool>(iteration, state, sink);
};

/// `P` has exactly the hooks that its constants announce.
template <class P>
concept BackendAsSaid = StatesRealTime<P> && StatesOutcomes<P> &&
    hook_as_said(EndsRequests<P>, HasOutcomes<P>, NamesOutcomes<P>) && StatesThread<P> &&
    hook_as_said(PlansAsync<P>, HasThread<P>, NamesThread<P>) && StatesPredicts<P> &&
    hook_as_said(Predicts<P>, HasPredict<P>, NamesPredict<P>);

/// What an iteration *does*, and what time it is. Unlike the other roles, a backend is an object with state of its own
/// (a clock, a device): the engine owns it and calls its non-const members.
///
/// 1. `P::role` is `roles::Backend`.
/// 2. `now()`; `idle_until(when)` lets time pass with nothing to run. In real time also `idle_until(when, bell)`, which
///    returns early when a Doorbell rings (`when` may be infinite), and `load()`, which does what the first iteration
///    would wait for (loading weights), before a server reports that it is ready.
/// 3. `launch<Transfer>(iteration)` begins an iteration and returns; it changes neither state nor clock.
///    `wait<Transfer>(iteration, state)` returns when that iteration has run, starting from the `state` that the
///    previous one left, and sets the clock to its end. The engine calls them alternately, and keeps the iteration
///    alive in between.
/// 4. `replay<Transfer>(iteration, state, sink)` explains the iteration that just ran, given the state before it.
/// 5. `P::real_time`: whether time passes by itself, so that the engine adds no modelled planning time.
/// 6. `P::ends_requests`: whether requests can end early or fail; `outcomes()` then lists them. `P::keeps_requests`:
///    whether it keeps anything about a request between iterations; the engine then calls `cancelled(slot, submitted)`
///    when a user gives up a request, and `released(until)` when a timer releases tokens, both between two iterations.
///    (Requests that end are reported by the next iteration.)
/// 7. `P::plans_async`: whether it has a thread for planning: `async(work, what)`, `async_done()`, `join_async()`.
///    `OneStepAhead` requires it from a backend in real time, which must also be copyable (a handle).
/// 8. `P::predicts`: whether `predict<Transfer>(iteration, state, sink)` returns what `wait` would take, and sends the
///    timeline to `sink`. It changes only `state`. A Node requires this from its engines' backends.
///
/// Not checked, but required: time never runs backwards; neither call allocates in the steady state.
template <class P>
concept Backend = PlaysRole<P, roles::Backend> && KeepsClock<P> && RunsIteration<P> && CanServe<P> && KeepsAsSaid<P> &&
    BackendAsSaid<P>;

template <>
struct Contract<roles::Backend> {
  template <class P>
  static constexpr bool met = Backend<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(KeepsClock<P>,
                  "sluice: this Backend needs `Seconds now() const` and `void idle_until(Seconds when)`");
    static_assert(RunsIteration<P>,
                  "sluice: this Backend needs `template <class Transfer> void launch(const Iteration&)`, "
                  "`template <class Transfer> IterationCost wait(const Iteration&, typename "
                  "Transfer::State&)` and `template <class Transfer, class Sink> void replay(const "
                  "Iteration&, typename Transfer::State&, Sink&&)`");
    static_assert(StatesKeeping<P>, "sluice: this Backend needs `static constexpr bool keeps_requests = false;` (true "
                                    "if it keeps anything of a request between iterations: `cancelled`)");
    if constexpr (StatesKeeping<P>) {
      static_assert(!KeepsRequests<P> || HearsBetween<P>,
                    "sluice: this Backend says keeps_requests = true and needs `void cancelled(Slot slot, std::int64_t "
                    "submitted)` and `void released(Seconds until)`");
      static_assert(
          KeepsRequests<P> || !NamesCancelled<P>,
          "sluice: this Backend has `cancelled`, but says keeps_requests = false: no engine would call it. Say "
          "true, or leave the hook out");
    }
    static_assert(StatesRealTime<P>, "sluice: this Backend needs `static constexpr bool real_time = false;` (true if "
                                     "time passes by itself)");
    if constexpr (StatesRealTime<P>)
      static_assert(CanServe<P>, "sluice: this Backend says real_time = true and needs `void idle_until(Seconds when, "
                                 "Doorbell& bell)`, which returns when the bell rings, and `Status load()`, which does "
                                 "what the first iteration would wait for");
    static_assert(StatesOutcomes<P>, "sluice: this Backend needs `static constexpr bool ends_requests = false;` (true "
                                     "if requests end early or fail on it: `outcomes`)");
    if constexpr (StatesOutcomes<P>) {
      static_assert(!EndsRequests<P> || HasOutcomes<P>, "sluice: this Backend says ends_requests = true and needs "
                                                        "`std::span<const RequestOutcome> outcomes() const`");
      static_assert(EndsRequests<P> || !NamesOutcomes<P>,
                    "sluice: this Backend has `outcomes`, but says ends_requests = false: no engine would call it. Say "
                    "true, or leave the hook out");
    }
    static_assert(StatesThread<P>, "sluice: this Backend needs `static constexpr bool plans_async = false;` (true if "
                                   "it has a thread on which to plan: `async`, `async_done` and `join_async`)");
    if constexpr (StatesThread<P>) {
      static_assert(!PlansAsync<P> || HasThread<P>,
                    "sluice: this Backend says plans_async = true and needs `void async(void (*work)(void*), void* "
                    "what)`, `bool async_done()` and `void join_async()`");
      static_assert(
          PlansAsync<P> || !NamesThread<P>,
          "sluice: this Backend has `async`, but says plans_async = false: no engine would plan on its thread. "
          "Say true, or leave the hook out");
    }
    static_assert(StatesPredicts<P>, "sluice: this Backend needs `static constexpr bool predicts = false;` (true if it "
                                     "can tell beforehand what an iteration takes, which a Node asks: `predict`)");
    if constexpr (StatesPredicts<P>) {
      static_assert(!Predicts<P> || HasPredict<P>,
                    "sluice: this Backend says predicts = true and needs `template <class Transfer, class Sink> "
                    "IterationCost predict(const Iteration&, typename Transfer::State&, Sink&&)`");
      static_assert(Predicts<P> || !NamesPredict<P>,
                    "sluice: this Backend has `predict`, but says predicts = false: no Node would take its engine. Say "
                    "true, or leave the hook out");
    }
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Backends in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice
