// SPDX-License-Identifier: Apache-2.0
// The setup of an engine on this machine.
#include "run/engine_setup.hpp"

#include "sluice/world/local/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace running {

using namespace sluice;

WantedMemory wanted_memory(const Options& options) {
  const auto bytes = [](const std::optional<std::int64_t>& stated) {
    return stated ? std::optional{Bytes{*stated}} : std::nullopt;
  };
  return {bytes(options.device_memory), bytes(options.kv_memory), bytes(options.host_memory)};
}

void rebuild(MachineSetup& setup, const engines::System& system, const ModelShape& shape, LayerBlocks most) {
  if (!system.rebuilds_kv) return;
  setup.rebuilt = setup.limits.block_tokens * most.count();
  if (system.states_on_device) return;
  setup.hidden_blocks =
      hidden_in_flight(kv_block_shape(shape, setup.limits.block_tokens, 4), setup.rows(), setup.limits.batch);
}

engines::Setup engine_setup(const Options& options, const MachineSetup& setup, const ModelWeights& weights,
                            std::span<const RequestSpec> requests, const LocalMemory& memory, Costs& costs) {
  costs.device.memory = memory.device;
  costs.device.host_memory = memory.of(memory.host);
  engines::Setup engine{.limits = setup.limits,
                        .geometry = local_geometry(weights, setup.limits.block_tokens),
                        .device_blocks = memory.kv,
                        .host_blocks = memory.host,
                        .cost = costs.cost,
                        .model = weights.config.shape,
                        .device = costs.device};
  // A GPU's K, V and hidden states have the element type of its kernels.
  const std::int64_t element = memory.block.count() / kv_block_floats(weights.config.shape, setup.limits.block_tokens);
  engine.geometry.layer_block_bytes = memory.block;
  engine.geometry.layer_hidden_bytes = Bytes{element * weights.config.shape.hidden * setup.limits.block_tokens.count()};
  // Computed as in sluice-compare for the same trace: a batch of the longest requests.
  engine.worst_batch =
      TokenBlocks{longest_batch(requests, setup.limits.block_tokens, 1, 1).count() *
                  std::min<std::int64_t>(setup.limits.batch, static_cast<std::int64_t>(requests.size()))};
  engine.host_caching = {options.host_reuse.value_or(engine.host_caching.reuse),
                         options.host_write.value_or(engine.host_caching.write), Seconds{options.host_pin.value_or(0)}};
  return engine;
}

} // namespace running
