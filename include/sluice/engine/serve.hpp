// SPDX-License-Identifier: Apache-2.0
// serve: computes metrics from an engine type, a machine and a workload in one call.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/simulate.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/world/simulated.hpp"

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace sluice {

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
/// host memory is for KV: of live requests, or if Caching caches, of the tier. Everything else is default; change
/// fields of the result as needed.
template <class E>
[[nodiscard]] typename E::Config configure(const Server& server, const typename E::cost_type& cost) {
  static_assert(std::constructible_from<typename E::backend_type, typename E::cost_type>,
                "sluice: planner and world have different cost models: write `With<E, Cost, BasicSimulated<Cost>>`, or "
                "fill in `E::Config` yourself");
  const ModelShape& model = server.model;
  const Bytes block = model.layer_block_bytes(server.limits.block_tokens);
  return {.limits = server.limits,
          .geometry = {model.layers, block, model.layer_weight_bytes(),
                       model.layer_hidden_bytes(server.limits.block_tokens)},
          .device_blocks = across_layers(server.kv_blocks, model.layers),
          .host_blocks =
              Caches<typename E::caching_type> ? LayerBlocks{0} : LayerBlocks{server.device.host_memory / block},
          .tier = reached_by<typename E::caching_type>(
              {.capacity = TokenBlocks{server.device.host_memory / block / model.layers}}),
          .cost = cost,
          .backend = typename E::backend_type(cost)};
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
