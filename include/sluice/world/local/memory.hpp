// SPDX-License-Identifier: Apache-2.0
// LocalMemory, divide_memory: how a run divides the device's and the host's memory. configure_local: the configuration
// of an engine that runs for real on this machine's processor.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// How much memory this machine has.
[[nodiscard]] inline Bytes physical_memory() {
  return Bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE))};
}

/// The memories of a run, each with a stated size; on the CPU both are parts of this machine's memory.
struct LocalMemory {
  Bytes weights{0}; ///< all of them
  Bytes buffers{0}; ///< an iteration's buffers, with blocks for hidden states in flight
  Bytes block{0};   ///< a layer block of KV
  Bytes device{0};
  LayerBlocks kv{0};   ///< on the device, besides weights and buffers; negative if the weights alone are larger
  LayerBlocks host{0}; ///< of the host
  LayerBlocks all{0};  ///< what all requests fill at their longest

  [[nodiscard]] Bytes of(LayerBlocks blocks) const { return block * blocks.count(); }
  [[nodiscard]] Bytes with(LayerBlocks blocks) const { return weights + buffers + of(blocks); }
};

/// The memory that the user wants. Default: the device has room for a batch of the longest requests and the host for
/// all of them, each at most half of this machine's memory (but never less than one request needs).
struct WantedMemory {
  std::optional<Bytes> device{}; ///< weights, buffers and KV together
  std::optional<Bytes> kv{};     ///< the device's KV alone; ignored if `device` is given
  std::optional<Bytes> host{};
};

/// Layer blocks of KV that the `most` longest of the requests fill at their longest. `kept`: what layers keep, if they
/// give blocks back.
[[nodiscard]] inline LayerBlocks longest_batch(std::span<const RequestSpec> requests, Tokens block_tokens, int layers,
                                               std::size_t most, const KvBlocks& kept = {}) {
  std::vector<std::int64_t> blocks;
  for (const RequestSpec& request : requests)
    blocks.push_back(blocks_for(request.prompt + request.output, block_tokens).count());
  most = std::min(most, blocks.size());
  std::partial_sort(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(most), blocks.end(), std::greater<>());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < most; ++i)
    sum += kept.empty() ? across_layers(TokenBlocks{blocks[i]}, layers).count() : kept.room(blocks[i]);
  return LayerBlocks{sum};
}

/// What a machine takes from its device's memory, whatever the requests.
struct MemoryNeeds {
  Bytes weights{0}; ///< all of them, as they lie on the device
  Bytes buffers{0}; ///< an iteration's
  Bytes block{0};   ///< a layer block of KV
  Bytes unasked{0}; ///< the most to take from the device if the user states nothing and one request has room in it
};

/// Divides both memories by the limits of `setup`, and stores in `setup` how much of each the machine takes. `kept`: as
/// in `longest_batch`.
[[nodiscard]] inline LocalMemory divide_memory(const MemoryNeeds& needs, int layers,
                                               std::span<const RequestSpec> requests, const WantedMemory& wanted,
                                               MachineSetup& setup, const KvBlocks& kept = {}) {
  const Tokens block_tokens = setup.limits.block_tokens;
  LocalMemory memory;
  memory.weights = needs.weights;
  memory.block = needs.block;
  memory.buffers = needs.buffers + memory.of(setup.hidden_blocks);
  if (wanted.device) {
    memory.device = *wanted.device;
  } else if (wanted.kv) {
    memory.device = memory.with(LayerBlocks{0}) + *wanted.kv;
  } else {
    const auto batch = static_cast<std::size_t>(setup.limits.batch);
    const Bytes one = memory.with(longest_batch(requests, block_tokens, layers, 1, kept));
    memory.device =
        std::min(memory.with(longest_batch(requests, block_tokens, layers, batch, kept)), std::max(one, needs.unasked));
  }
  memory.all = longest_batch(requests, block_tokens, layers, requests.size(), kept);
  // More than all requests could hold at once, and as much again in flight, would only lengthen the block tables.
  const LayerBlocks most = memory.all * 2 + LayerBlocks{layers};
  setup.device_memory = std::min(memory.device, memory.with(most));
  const std::int64_t block = memory.block.count();
  const std::int64_t left = (setup.device_memory - memory.weights - memory.buffers).count();
  memory.kv = LayerBlocks{left >= 0 ? left / block : -((block - 1 - left) / block)};
  const Bytes half{physical_memory().count() / 2};
  memory.host = LayerBlocks{wanted.host.value_or(std::min(half, memory.of(memory.all))) / memory.block};
  setup.host_blocks = std::min(memory.host, most);
  return memory;
}

/// On the CPU both memories are parts of this machine's memory.
[[nodiscard]] inline MemoryNeeds cpu_needs(const ModelWeights& weights, const Decoder& decoder,
                                           const MachineSetup& setup) {
  const ModelShape& shape = weights.config.shape;
  return {weights.outer_bytes() + weights.layout.bytes * shape.layers, iteration_buffers(decoder, setup),
          Bytes{kv_block_floats(shape, setup.limits.block_tokens) * 4}, Bytes{physical_memory().count() / 2}};
}
[[nodiscard]] inline LocalMemory divide_memory(const ModelWeights& weights, const Decoder& decoder,
                                               std::span<const RequestSpec> requests, const WantedMemory& wanted,
                                               MachineSetup& setup) {
  return divide_memory(cpu_needs(weights, decoder, setup), weights.config.shape.layers, requests, wanted, setup);
}

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
