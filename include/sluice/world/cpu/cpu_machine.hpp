// SPDX-License-Identifier: Apache-2.0
// CpuMachine: a machine that computes on this machine's processor, and how much memory it takes.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/decoder_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cpu/cpu_device.hpp"
#include "sluice/world/machine/machine.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/token_requests.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace sluice {

using CpuMachine = Machine<CpuDevice>;

[[nodiscard]] inline Expected<std::shared_ptr<CpuMachine>> make_cpu_machine(ModelWeights weights,
                                                                            std::unique_ptr<Decoder> decoder,
                                                                            const MachineSetup& setup,
                                                                            TokenListener listener = {}) {
  return CpuMachine::make(std::move(weights), std::make_unique<DecoderRunner>(std::move(decoder)), setup,
                          std::move(listener));
}

/// Memory that an iteration computes in, at most: activations, and the logits of a full batch.
[[nodiscard]] inline Bytes iteration_buffers(const Decoder& decoder, const MachineSetup& setup) {
  return DecoderRunner::workspace(decoder, setup.rows(), setup.limits.batch);
}

/// The memory left for KV when all weights and the buffers are on the device, in layer blocks; negative if the weights
/// alone are larger.
[[nodiscard]] inline LayerBlocks device_kv_blocks(const ModelWeights& weights, const Decoder& decoder,
                                                  const MachineSetup& setup) {
  const std::int64_t block = kv_block_floats(weights.config.shape, setup.limits.block_tokens) * 4;
  const std::int64_t beside = (weights.outer_bytes() + weights.layout.bytes * weights.config.shape.layers).count() +
                              iteration_buffers(decoder, setup).count() + block * setup.hidden_blocks.count();
  const std::int64_t left = setup.device_memory.count() - beside;
  return LayerBlocks{left >= 0 ? left / block : -((block - 1 - left) / block)};
}

} // namespace sluice
