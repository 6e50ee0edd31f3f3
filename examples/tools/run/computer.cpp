// SPDX-License-Identifier: Apache-2.0
#include "run/computer.hpp"

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/weights.hpp"

#include "run/machine.hpp"
#include "shared/progress.hpp"
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace running {

using namespace sluice;

Expected<Computer> Computer::open(const Options& options, bool replays, const KeptGpu& kept) {
  Computer computer(options.threads, options.backend == "cuda");
  if (kept.device && kept.gather_below == options.gather_below) computer.gpu_ = kept.device;
  if (computer.cuda_ && !replays && !computer.gpu_) {
    std::optional<GatherBelow> below;
    if (options.gather_below) below = GatherBelow{*options.gather_below, *options.gather_below};
    Expected<CudaDevice> gpu = open_cuda(below);
    if (!gpu) return gpu.error();
    computer.gpu_ = *std::move(gpu);
  }
  return computer;
}

Status Computer::take(ModelWeights& weights, const MachineSetup& setup, bool again) {
  if (gpu_ && !again) {
    Expected<ModelWeights> pinned = cuda_weights(weights, weights.embedding.type);
    if (!pinned) return pinned.error();
    weights = *std::move(pinned);
  } else if (cuda_) {
    if (!gpu_) weights = retyped(weights, weights.embedding.type);
  } else {
    decoder_ = make_decoder(weights, setup.limits.block_tokens, threads_);
  }
  weights_ = weights;
  return {};
}

std::string Computer::gathered() const {
  if (!gpu_) return {};
  const auto [below, took] = gpu_->gather;
  return fmt::format("copies below {} bytes to the GPU and {} to the host use a kernel ({})", below.to_device,
                     below.to_host, took.count() > 0 ? "measured in " + time_text(took.count()) : "as stated");
}

MemoryNeeds Computer::needs(const MachineSetup& setup) const {
  if (!cuda_) return cpu_needs(weights_, *decoder_, setup);
  MemoryNeeds needs = cuda_needs(weights_, setup);
  if (gpu_) needs.unasked = Bytes{gpu_->free.count() / 10 * 9};
  return needs;
}

Expected<LocalRates> Computer::rates(const MachineSetup& setup) {
  if (gpu_) return cuda_rates(weights_, setup);
  SLUICE_ASSERT(decoder_ != nullptr, "something that computes");
  return rates_of(weights_, *decoder_, setup.limits);
}

Expected<std::shared_ptr<TokenWorld>> Computer::make_machine(const MachineSetup& setup, TokenListener listener) {
  if (gpu_) return make_cuda_machine(*gpu_, std::move(weights_), setup, std::move(listener));
  SLUICE_ASSERT(decoder_ != nullptr, "something that computes");
  auto machine = running::make_machine(std::move(weights_), std::move(decoder_), setup, std::move(listener));
  if (!machine) return machine.error();
  return std::shared_ptr<TokenWorld>{*std::move(machine)};
}

} // namespace running
