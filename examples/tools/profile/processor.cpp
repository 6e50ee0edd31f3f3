// SPDX-License-Identifier: Apache-2.0
// Measures this machine's processor.
#include "sluice/world/cpu/decoder_timer.hpp"
#include "sluice/world/local/memory.hpp"

#include "profile/subject.hpp"
#include "run/machine.hpp"
#include <fmt/format.h>

#include <utility>

namespace profiled {

using namespace sluice;

namespace {

class Processor final : public Subject {
 public:
  Processor(ModelWeights weights, int threads, double link, VirtualMemory memory)
      : weights_(std::move(weights)),
        threads_(threads),
        link_(link),
        decoder_(running::make_decoder(weights_, block_tokens, threads)),
        timer_(weights_, *decoder_, block_tokens, std::move(memory)) {}

  [[nodiscard]] std::string name() const override {
    return fmt::format("this machine, {} thread{}", threads_, threads_ == 1 ? "" : "s");
  }
  [[nodiscard]] Grid grid() const override { return {}; }
  [[nodiscard]] bool computes_here() const override { return true; }
  [[nodiscard]] int kv_element_bytes() const override { return 4; }
  [[nodiscard]] Bytes memory() const override { return Bytes{physical_memory().count() / 2}; }
  [[nodiscard]] const ModelWeights& weights() const override { return weights_; }
  [[nodiscard]] BatchTimer& timer() override { return timer_; }

  Expected<std::shared_ptr<TokenWorld>> make_machine(MachineSetup setup, LayerBlocks kv) override {
    std::unique_ptr<Decoder> decoder = running::make_decoder(weights_, block_tokens, threads_);
    const MemoryNeeds needs = cpu_needs(weights_, *decoder, setup);
    setup.device_memory = needs.weights + needs.buffers + needs.block * kv.count();
    auto machine = running::make_machine(weights_, std::move(decoder), setup, {});
    if (!machine) return machine.error();
    return std::shared_ptr<TokenWorld>{*std::move(machine)};
  }
  Expected<LinkTimes> link(std::int64_t block, double seconds) override { return measure_link(link_, block, seconds); }

  HostAttentionRate host_attention() override {
    Limits limits;
    limits.block_tokens = block_tokens;
    return measure_host_attention(weights_, *decoder_, limits);
  }

 private:
  ModelWeights weights_;
  int threads_;
  double link_;
  std::unique_ptr<Decoder> decoder_;
  DecoderTimer timer_;
};

} // namespace

Expected<std::unique_ptr<Subject>> measure_processor(ModelWeights weights, int threads, double link) {
  Expected<VirtualMemory> memory = DecoderTimer::reserve(weights);
  if (!memory) return memory.error();
  return std::unique_ptr<Subject>{std::make_unique<Processor>(std::move(weights), threads, link, *std::move(memory))};
}

} // namespace profiled
