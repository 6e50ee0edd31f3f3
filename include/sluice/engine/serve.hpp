// SPDX-License-Identifier: Apache-2.0
// serve: computes metrics from an engine type, a machine and a workload in one call; simulate runs the workload.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/numbers.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/progress_watch.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/session_queue.hpp"
#include "sluice/world/simulated.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

// ClosedLoop: a workload's requests at their arrivals, of which some depend on the engine's answers.

/// Reads a workload on demand, one request ahead (and the requests that follow it), and says which request arrives
/// next.
template <TraceReader Reader>
class ClosedLoop {
 public:
  /// `block_tokens`: the engine's, for the keys of the requests' blocks.
  ClosedLoop(Reader& reader, Tokens block_tokens)
      : reader_(reader), block_tokens_(block_tokens), in_steps_(arrivals_in_steps(reader)) {}

  /// Reads the first request; call it once, before all others.
  Status start() { return read(); }
  /// Whether a request has arrived at `now`, after `steps` iterations.
  [[nodiscard]] bool due(Seconds now, std::int64_t steps) const {
    const std::optional<Seconds> arrival = next();
    return arrival && *arrival <= (in_steps_ ? Seconds{static_cast<double>(steps + skipped_)} : now);
  }
  /// Until when an engine without work idles: the next arrival, or `never_due`. Iterations that nothing needs take no
  /// time: if arrivals count them, they are skipped, and the next request arrives now.
  [[nodiscard]] Seconds idle(Seconds now, std::int64_t steps) {
    const std::optional<Seconds> arrival = next();
    if (!arrival || !in_steps_) return arrival.value_or(never_due);
    skipped_ = std::max(skipped_, static_cast<std::int64_t>(std::ceil(arrival->count())) - steps);
    return now;
  }
  /// The next arrival that is known, in the reader's unit; nothing if no request is left, or all wait for answers.
  [[nodiscard]] std::optional<Seconds> next() const {
    const std::optional<Seconds> held = sessions_.next();
    if (!next_) return held;
    return held ? std::min(*held, next_->spec.arrival) : next_->spec.arrival;
  }
  /// Takes the request that arrives next. A request of the source goes before one of equal arrival that was held. If
  /// arrivals count iterations, it arrives `now`.
  Expected<KeyedRequest> take(Seconds now) {
    const std::optional<Seconds> held = sessions_.next();
    if (!next_ || (held && *held < next_->spec.arrival)) return sessions_.take();
    KeyedRequest request = std::move(*next_);
    if (in_steps_) request.spec.arrival = now;
    sessions_.started(request.spec);
    if (Status status = read(); !status) return status.error();
    return request;
  }
  void answered(const Answered& answer) { sessions_.answered(answer); }

 private:
  /// Reads up to the next request that follows none.
  Status read() {
    for (;;) {
      const Expected<std::optional<RequestSpec>> spec = reader_.next();
      if (!spec) return spec.error();
      if (!*spec) {
        next_.reset();
        sessions_.read_all();
        return {};
      }
      KeyedRequest request{**spec, {}};
      block_keys(content_of(reader_), block_tokens_, request.keys);
      if (!request.spec.follows) {
        next_ = std::move(request);
        return {};
      }
      if (in_steps_)
        return Error{ErrorCode::bad_input, "arrivals", "they count engine steps, and a request follows another",
                     "a workload without sessions"};
      sessions_.hold(std::move(request));
    }
  }

  Reader& reader_;
  Tokens block_tokens_;
  bool in_steps_;
  std::int64_t skipped_ = 0; ///< iterations, if arrivals count them
  SessionQueue sessions_;
  std::optional<KeyedRequest> next_;
};

// simulate: runs a workload through an engine, from the first arrival to the last token.

/// What `simulate` reports while it runs.
struct SimulationProgress {
  std::int64_t submitted = 0;
  std::int64_t alive = 0; ///< submitted, and neither ended nor refused
  std::int64_t steps = 0;
  Seconds now{0};
};

/// Runs the requests of `reader` through `engine`. Each is submitted when the engine's clock (or, by
/// `arrivals_in_steps`, its number of iterations) has reached its arrival; the engine idles while no request can run.
/// The trace is read on demand, one request ahead. In a session, a request arrives when the one before it has been
/// answered and its delay is over.
///
/// A refused request is no error; observers see it. Errors: an unreadable trace, a policy's impossible answer
/// (`BasicEngine::status`), and an engine without progress (`ErrorCode::livelocked`); observers keep what was served
/// until then. `tell` is called every `tell_every` iterations and at the end with a SimulationProgress; it returns
/// false to stop.
template <class E, TraceReader Reader, class Tell>
Status simulate(E& engine, Reader& reader, Tell&& tell, std::int64_t tell_every = 4096) {
  std::int64_t submitted = 0;
  const auto progress = [&] { return SimulationProgress{submitted, engine.alive(), engine.steps(), engine.now()}; };
  ProgressWatch watch;
  ClosedLoop<Reader> loop(reader, engine.view().limits.block_tokens);
  if (Status status = loop.start(); !status) return status;
  std::vector<Answered> answers;
  engine.take_answers(answers); // from now on the engine keeps them
  for (;;) {
    while (loop.due(engine.now(), engine.steps())) {
      const Expected<KeyedRequest> request = loop.take(engine.now());
      if (!request) return request.error();
      if (!engine.submit(request->spec, request->keys)) loop.answered({request->spec.session, engine.now()});
      ++submitted;
    }
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) return engine.status();
    if (Status status = watch.check(engine); !status) return status;
    engine.take_answers(answers);
    for (const Answered& answer : answers) loop.answered(answer);
    if (stepped == Stepped::idle && answers.empty()) {
      const Seconds until = std::min(loop.idle(engine.now(), engine.steps()), engine.next_load());
      if (until == never_due) break;
      engine.idle_until(until);
    }
    if (engine.steps() % tell_every == 0 && !tell(progress())) return {};
  }
  tell(progress());
  return {};
}

template <class E, TraceReader Reader>
Status simulate(E& engine, Reader& reader) {
  return simulate(engine, reader, [](const SimulationProgress&) { return true; });
}

/// The common setup of a comparison's systems: a model on a device, the share of its memory for KV, and the limits of a
/// batch.
struct Server {
  ModelShape model;
  Device device;
  TokenBlocks kv_blocks{0};
  Limits limits{};
};

/// Token blocks of KV that fit the device next to the weights: `share` of its memory is for both, the other memory for
/// activations (0.9: vLLM's gpu_memory_utilization). Below 1: the weights alone do not fit.
[[nodiscard]] inline TokenBlocks kv_blocks_beside_weights(const ModelShape& model, const Device& device,
                                                          Tokens block_tokens, double share = 0.9) {
  const auto usable = static_cast<std::int64_t>(share * static_cast<double>(device.memory.count()));
  return TokenBlocks{(usable - model.weight_bytes().count()) / model.token_block_bytes(block_tokens).count()};
}

/// The configuration of `E` on that machine, with `cost` as the planner's model and a copy of it as the world's; all
/// host memory is for KV: of live requests, or if Caching caches, of the tier. SuperInfer's rotation budget is that of
/// the machine (`rotation_within`). Everything else is default; change fields of the result as needed.
template <class E>
[[nodiscard]] typename E::Config configure(const Server& server, const typename E::cost_type& cost) {
  static_assert(std::constructible_from<typename E::backend_type, typename E::cost_type>,
                "sluice: planner and world have different cost models: write `With<E, Cost, BasicSimulated<Cost>>`, or "
                "fill in `E::Config` yourself");
  const ModelShape& model = server.model;
  const Bytes block = model.layer_block_bytes(server.limits.block_tokens);
  typename E::Config config{
      .limits = server.limits,
      .geometry = {model.layers, block, model.layer_weight_bytes(),
                   model.layer_hidden_bytes(server.limits.block_tokens)},
      .device_blocks = across_layers(server.kv_blocks, model.layers),
      .host_blocks = Caches<typename E::caching_type> ? LayerBlocks{0} : LayerBlocks{server.device.host_memory / block},
      .tier = reached_by<typename E::caching_type>(
          {.capacity = TokenBlocks{server.device.host_memory / block / model.layers}}),
      .cost = cost,
      .backend = typename E::backend_type(cost)};
  if constexpr (numbers_name<typename E::admission_type>() == "LargestVirtualLagFirst")
    config.admission.rotation =
        config.admission.rotation_within(config.admission.next_token, cost.link().rate,
                                         model.token_block_bytes(server.limits.block_tokens), server.kv_blocks);
  return config;
}

/// The same with a cost model that is made from model and device, such as `Roofline`.
template <class E>
[[nodiscard]] typename E::Config configure(const Server& server) {
  static_assert(
      std::constructible_from<typename E::cost_type, const ModelShape&, const Device&>,
      "sluice: this cost model is not made from a model and a device: pass it, `serve<E>(server, requests, cost)`");
  return configure<E>(server, typename E::cost_type(server.model, server.device));
}

namespace detail {

template <class E, class Reader>
[[nodiscard]] Expected<Metrics> serve_configured(typename E::Config config, Reader& requests) {
  Expected<E> engine = E::make(std::move(config));
  if (!engine) return engine.error();
  if (Status status = simulate(*engine, requests); !status) return status.error();
  return measure(engine->template observed<Summary>(), engine->now());
}

template <class E>
consteval bool watches_nothing() {
  static_assert(std::is_same_v<typename E::observer_types, typename Engine<>::observer_types>,
                "sluice: `serve` uses `Summary` as its only observer: make an engine with other observers with "
                "`E::make`, and run it with `simulate`");
  return true;
}

} // namespace detail

/// Serves all of `requests` with an engine of type `E` and measures the service (docs/metrics.md). `requests`: a
/// reader, which is read to its end. For more than metrics (a timeline, your own observers), make the engine and call
/// `simulate`: this function does just that.
template <class E, class Reader>
  requires TraceReader<std::remove_cvref_t<Reader>>
[[nodiscard]] Expected<Metrics> serve(const Server& server, Reader&& requests) {
  static_assert(detail::watches_nothing<E>());
  using Observed = With<E, Summary>;
  return detail::serve_configured<Observed>(configure<Observed>(server), requests);
}

/// The same with times from `cost`, for the planner and the world: from a measured profile, for example.
template <class E, class Reader, CostModel Cost>
  requires TraceReader<std::remove_cvref_t<Reader>>
[[nodiscard]] Expected<Metrics> serve(const Server& server, Reader&& requests, const Cost& cost) {
  static_assert(detail::watches_nothing<E>());
  using Observed = With<E, Cost, BasicSimulated<Cost>, Summary>;
  return detail::serve_configured<Observed>(configure<Observed>(server, cost), requests);
}

} // namespace sluice
