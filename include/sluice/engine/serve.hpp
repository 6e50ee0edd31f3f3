// SPDX-License-Identifier: Apache-2.0
// serve: from an engine type, a machine and a workload to the metrics, in one call.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/simulate.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/observer/measure.hpp"
#include "sluice/observer/summary.hpp"

#include <concepts>

namespace sluice {

/// What every system of a comparison gets alike: a model on a device, how much of it is for KV, and what bounds a
/// batch.
struct Server {
  ModelShape model;
  Device device;
  TokenBlocks kv_blocks{0};
  Limits limits{};
};

/// The configuration of `E` on that machine: planner and world each get a cost model of their own made of model and
/// device, and the host's memory is all for KV. Everything else is default; change what the result shows.
template <class E>
  requires std::constructible_from<typename E::cost_type, const ModelShape&, const Device&> &&
      std::constructible_from<typename E::backend_type, typename E::cost_type>
[[nodiscard]] typename E::Config configure(const Server& server) {
  const ModelShape& model = server.model;
  const Bytes block = model.layer_block_bytes(server.limits.block_tokens);
  const typename E::cost_type cost(model, server.device);
  return {.limits = server.limits,
          .geometry = {model.layers, block, model.layer_weight_bytes(),
                       model.layer_hidden_bytes(server.limits.block_tokens)},
          .device_blocks = across_layers(server.kv_blocks, model.layers),
          .host_blocks = LayerBlocks{server.device.host_memory / block},
          .cost = cost,
          .backend = typename E::backend_type(cost)};
}

/// Serves all of `requests` with an engine of type `E` and measures how its users fared (docs/metrics.md). For more
/// than metrics (a timeline, one's own observers), make the engine and call `simulate`: this is those lines, and no
/// more.
template <class E, TraceReader Reader>
[[nodiscard]] Expected<Metrics> serve(const Server& server, Reader requests) {
  using Observed = With<E, Summary>;
  Expected<Observed> engine = Observed::make(configure<Observed>(server));
  if (!engine) return engine.error();
  if (Status status = simulate(*engine, requests); !status) return status.error();
  return measure(engine->template observed<Summary>(), engine->now());
}

} // namespace sluice
