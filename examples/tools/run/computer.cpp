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

namespace {

/// Whether rates measured with one setup hold for the other.
bool rate_alike(const MachineSetup& a, const MachineSetup& b) {
  return a.limits.batch == b.limits.batch && a.limits.batch_tokens == b.limits.batch_tokens &&
         a.limits.block_tokens == b.limits.block_tokens && a.limits.max_context == b.limits.max_context &&
         a.products == b.products && a.graphs == b.graphs;
}

} // namespace

Expected<Computer> Computer::open(const Options& options, bool replays, KeptGpu kept) {
  Computer computer(options.threads, options.backend == "cuda");
  if (kept.device && kept.gather_below == options.gather_below && check_cuda(*kept.device))
    computer.kept_ = std::move(kept);
  kept = {}; // its memory is free before another GPU is opened
  if (computer.cuda_ && !replays && !computer.kept_.device) {
    std::optional<GatherBelow> below;
    if (options.gather_below) below = GatherBelow{*options.gather_below, *options.gather_below};
    Expected<CudaDevice> gpu = open_cuda(below);
    if (!gpu) return gpu.error();
    computer.kept_.device = *std::move(gpu);
    computer.kept_.gather_below = options.gather_below;
  }
  return computer;
}

Status Computer::take(ModelWeights& weights, const MachineSetup& setup, bool again) {
  if (kept_.device && !again) {
    Expected<ModelWeights> pinned = cuda_weights(weights, weights.embedding.type);
    if (!pinned) return pinned.error();
    weights = *std::move(pinned);
  } else if (cuda_) {
    if (!kept_.device) weights = retyped(weights, weights.embedding.type);
  } else {
    decoder_ = make_decoder(weights, setup.limits.block_tokens, threads_);
  }
  weights_ = weights;
  return {};
}

std::string Computer::gathered() const {
  if (!kept_.device) return {};
  const auto [below, took] = kept_.device->gather;
  return fmt::format("copies below {} bytes to the GPU and {} to the host use a kernel ({})", below.to_device,
                     below.to_host, took.count() > 0 ? "measured in " + time_text(took.count()) : "as stated");
}

MemoryNeeds Computer::needs(const MachineSetup& setup) const {
  if (!cuda_) return cpu_needs(weights_, *decoder_, setup);
  MemoryNeeds needs = cuda_needs(weights_, setup);
  if (kept_.device) needs.unasked = Bytes{kept_.device->free.count() / 10 * 9};
  return needs;
}

Expected<LocalRates> Computer::rates(const MachineSetup& setup, bool host_attends) {
  if (kept_.device) {
    if (kept_.rates && rate_alike(kept_.rated, setup)) return *kept_.rates;
    Expected<LocalRates> rates = cuda_rates(*kept_.device, weights_, setup);
    if (rates) kept_.rates = *rates;
    kept_.rated = setup;
    return rates;
  }
  SLUICE_ASSERT(decoder_ != nullptr, "something that computes");
  return rates_of(weights_, *decoder_, setup.limits, host_attends);
}

Expected<std::shared_ptr<TokenWorld>> Computer::make_machine(const MachineSetup& setup, TokenListener listener) {
  if (kept_.device) return make_cuda_machine(*kept_.device, std::move(weights_), setup, std::move(listener));
  SLUICE_ASSERT(decoder_ != nullptr, "something that computes");
  auto machine = running::make_machine(std::move(weights_), std::move(decoder_), setup, std::move(listener));
  if (!machine) return machine.error();
  return std::shared_ptr<TokenWorld>{*std::move(machine)};
}

} // namespace running
