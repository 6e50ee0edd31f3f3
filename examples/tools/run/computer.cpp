// SPDX-License-Identifier: Apache-2.0
#include "run/computer.hpp"

#include "sluice/backend/machine/beside.hpp"
#include "sluice/decoder/element_type.hpp"

#include "run/machine.hpp"

#include <cstdint>
#include <utility>

namespace running {

using namespace sluice;

Expected<Computer> Computer::open(const Options& options) {
  Computer computer(options.threads);
  if (options.backend == "cuda") {
    Expected<CudaDevice> gpu = open_cuda();
    if (!gpu) return gpu.error();
    computer.gpu_ = *std::move(gpu);
  }
  return computer;
}

Status Computer::take(ModelWeights& weights, const MachineSetup& setup) {
  if (gpu_) {
    Expected<ModelWeights> pinned = cuda_weights(weights, weights.embedding.type);
    if (!pinned) return pinned.error();
    weights = *std::move(pinned);
  } else {
    decoder_ = make_decoder(weights, setup.limits.block_tokens, threads_);
  }
  weights_ = weights;
  return {};
}

Expected<LocalRates> Computer::rates(const MachineSetup& setup) {
  if (gpu_) return cuda_rates(*gpu_, weights_, setup);
  return rates_of(weights_, *decoder_, setup.limits);
}

MemoryNeeds Computer::needs(const MachineSetup& setup) const {
  if (gpu_) {
    MemoryNeeds needs = cuda_needs(weights_, setup);
    needs.unasked = Bytes{gpu_->free.count() / 10 * 9};
    return needs;
  }
  return cpu_needs(weights_, *decoder_, setup);
}

Expected<std::shared_ptr<TokenWorld>> Computer::make_machine(const MachineSetup& setup, TokenListener listener) {
  if (gpu_) return make_cuda_machine(*gpu_, std::move(weights_), setup, std::move(listener));
  auto machine = running::make_machine(std::move(weights_), std::move(decoder_), setup, std::move(listener));
  if (!machine) return machine.error();
  return std::shared_ptr<TokenWorld>{*std::move(machine)};
}

} // namespace running
