// SPDX-License-Identifier: Apache-2.0
// configure_local: the configuration of an engine that runs for real on this machine's processor.
#pragma once

#include "sluice/model/decoder/weights.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/local/memory.hpp"

#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

/// The sizes of a model whose KV and hidden states are f32, as the CPU computes them.
[[nodiscard]] inline Geometry local_geometry(const ModelWeights& weights, Tokens block_tokens) {
  const ModelShape& shape = weights.config.shape;
  return {shape.layers, Bytes{kv_block_floats(shape, block_tokens) * 4}, weights.layout.bytes,
          Bytes{std::int64_t{shape.hidden} * 4 * block_tokens.count()}};
}

/// The configuration of `E`, whose backend is `Cpu`, on `world`, with `cost` as the planner's model. All else is
/// default; change the returned configuration.
template <class E>
[[nodiscard]] typename E::Config configure_local(const ModelWeights& weights, const Limits& limits,
                                                 const LocalMemory& memory, typename E::cost_type cost,
                                                 std::shared_ptr<BackendWorld> world) {
  static_assert(std::is_same_v<typename E::backend_type, Cpu>,
                "sluice: this engine does not run on the CPU: write `With<E, Cpu>`");
  return {.limits = limits,
          .geometry = local_geometry(weights, limits.block_tokens),
          .device_blocks = memory.kv,
          .host_blocks = memory.host,
          .cost = std::move(cost),
          .backend = Cpu{std::move(world)}};
}

} // namespace sluice
