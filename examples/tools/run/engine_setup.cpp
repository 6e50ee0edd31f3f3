// SPDX-License-Identifier: Apache-2.0
// The setup of an engine on this machine.
#include "run/engine_setup.hpp"

#include "sluice/engine/submit.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/machine/machine_setup.hpp"

#include <fmt/format.h>

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

const char* needs_all_blocks(const engines::System& system, const KvBlocks& kept) {
  if (system.moves_weights) return "the machine moves weights of layers that are alike";
  if (system.finds_released) return "requests find blocks of layers that are alike";
  return kept.movable().empty() ? system.movable_layers : system.equal_layers;
}

KvKeeping keep_kv(const Options& options, const engines::System& system, const ModelWeights& weights,
                  MachineSetup& setup) {
  const KvReach reach{weights.config, setup.limits.block_tokens};
  if (reach.bounded.empty()) return {};
  const Bytes block{kv_block_floats(weights.config.shape, setup.limits.block_tokens) * 4};
  const std::optional<KvGroups> groups = kv_groups_of(weights.config, setup.limits.block_tokens, block);
  const KvBlocks kept = groups ? KvBlocks{*groups, setup.limits.block_tokens} : KvBlocks{};
  const char* const why = options.backend != "cpu" ? "a GPU's layers give nothing back"
                          : options.host_cache > 0 ? "--host-cache needs them"
                          : !groups                ? "the layers keep more different amounts than an engine counts"
                                                   : needs_all_blocks(system, kept);
  if (why != nullptr) return {nullptr, fmt::format("KV: every layer keeps all blocks of a request: {}", why)};
  setup.gives_back = true;
  setup.hidden_blocks += reach.while_computing(setup.rows(), setup.limits.batch);
  return {std::make_shared<const KvLayers>(KvLayers{kept, {}, {}}),
          fmt::format("KV: layers give blocks back: {} of a request", in_words(kept, weights.config.shape.layers))};
}

engines::Setup engine_setup(const Options& options, const MachineSetup& setup, const ModelWeights& weights,
                            std::span<const RequestSpec> requests, const LocalMemory& memory, Costs& costs,
                            const KvKeeping& kept) {
  costs.device.memory = memory.device;
  costs.device.host_memory = memory.of(memory.host);
  engines::Setup engine{.limits = setup.limits,
                        .geometry = local_geometry(weights, setup.limits.block_tokens),
                        .groups = kept.groups,
                        .device_blocks = memory.kv,
                        .host_blocks = memory.host,
                        .cost = costs.cost,
                        .model = weights.config.shape,
                        .device = costs.device};
  engine.geometry.groups = kept.groups.get();
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
