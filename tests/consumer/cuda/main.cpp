// SPDX-License-Identifier: Apache-2.0
// An engine on a GPU with an installed sluice::cuda: with a GPU a request gets its tokens; without one the error is one
// line.
#include <sluice/engine/engine.hpp>
#include <sluice/model/checkpoint/tiny.hpp>
#include <sluice/model/device/named.hpp>
#include <sluice/world/cuda/cuda.hpp>
#include <sluice/world/local/memory.hpp>

#include "kernels/machine/cuda_machine.hpp"

#include <cstdio>
#include <string>

namespace {

int no_gpu(const sluice::Error& error) {
  std::printf("%s\n", error.line().c_str());
  return error.where.rfind("cuda", 0) == 0 ? 0 : 1;
}

} // namespace

int main() {
  using namespace sluice;
  const Expected<CudaDevice> device = open_cuda();
  if (!device) return no_gpu(device.error());
  const Expected<ModelWeights> weights = cuda_weights(tiny_llama(), ElementType::bf16);
  if (!weights) return no_gpu(weights.error());
  MachineSetup setup;
  setup.limits.max_context = Tokens{64};
  const MemoryNeeds needs = cuda_needs(*weights, setup);
  const LayerBlocks kv{4 * weights->config.shape.layers};
  setup.device_memory = needs.weights + needs.buffers + needs.block * kv.count();
  const auto machine = make_cuda_machine(*device, *weights, setup);
  if (!machine) return no_gpu(machine.error());

  using E = With<Engine<>, Cuda>;
  Geometry geometry = local_geometry(*weights, setup.limits.block_tokens);
  geometry.layer_block_bytes = needs.block;
  Expected<E> engine = E::make({.limits = setup.limits,
                                .geometry = geometry,
                                .device_blocks = kv,
                                .host_blocks = LayerBlocks{0},
                                .cost = Roofline{weights->config.shape, h100()},
                                .backend = Cuda{*machine}});
  if (!engine) return 1;
  const Expected<RequestId> id = engine->submit({.prompt = Tokens{3}, .output = Tokens{4}, .slo = {}});
  if (!id) return 1;
  TokenRequest request;
  request.tokens = {1, 2, 3};
  request.ends = false;
  (*machine)->enter(*id, std::move(request));
  while (engine->step() == Stepped::ran) {
  }
  const bool whole = engine->status().ok() && (*machine)->tokens(*id).size() == 7;
  std::printf("%s: %s\n", device->name.c_str(), whole ? "4 tokens" : "no tokens");
  return whole ? 0 : 1;
}
