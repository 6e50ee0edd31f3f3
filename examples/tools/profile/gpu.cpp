// SPDX-License-Identifier: Apache-2.0
// Measures a GPU.
#include "sluice/world/local/memory.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "profile/subject.hpp"

#include <algorithm>
#include <utility>

namespace profiled {

using namespace sluice;

namespace {

class Gpu final : public Subject {
 public:
  Gpu(CudaDevice device, ModelWeights weights, Products products)
      : device_(std::move(device)), weights_(std::move(weights)), products_(products) {}

  /// Timers need memory in addition to the machine's: up to 16 layers, in half of the memory that the machine's weights
  /// leave free, and enough KV for the contexts.
  Status make_timers() {
    const Grid wanted = grid();
    MachineSetup setup;
    setup.limits.block_tokens = block_tokens;
    setup.limits.batch = wanted.most_rows;
    setup.limits.max_context = Tokens{weights_.config.max_positions};
    setup.products = products_;
    TimerRoom room;
    room.block_tokens = block_tokens;
    room.element_bytes = kv_element_bytes();
    room.rows = wanted.most_rows + wanted.most_decodes;
    room.samples = wanted.most_decodes + 1;
    const Bytes block{kv_block_floats(weights_.config.shape, block_tokens) * kv_element_bytes()};
    const auto tokens = Tokens{std::int64_t{wanted.most_decodes + 2} * (wanted.contexts.back() + 1)};
    const std::int64_t blocks = std::max<std::int64_t>(blocks_for(tokens, block_tokens).count(), room.rows);
    const Bytes layer = weights_.layout.bytes;
    const Bytes spare = device_.free - layer * weights_.config.shape.layers;
    room.weights = std::max(room.weights, std::min(layer * 16, Bytes{spare.count() / 2}));
    room.kv = std::min(block * (2 * blocks), Bytes{device_.free.count() / 8});
    Expected<std::unique_ptr<BatchTimer>> timer = cuda_batch_timer(weights_, setup, room);
    if (!timer) return timer.error();
    timer_ = *std::move(timer);
    Expected<std::unique_ptr<CopyTimer>> copies = cuda_copy_timer(Bytes{64 << 20});
    if (!copies) return copies.error();
    copies_ = *std::move(copies);
    return {};
  }

  [[nodiscard]] std::string name() const override { return device_.name; }
  [[nodiscard]] Grid grid() const override {
    return {.most_decodes = 64,
            .most_rows = 2048,
            .contexts = {15, 255, 1023, 4095},
            .chunks = {16, 64, 256, 1024, 2048},
            .pasts = {0, 256, 1024, 4096},
            .mixes = true};
  }
  [[nodiscard]] bool computes_here() const override { return false; }
  [[nodiscard]] int kv_element_bytes() const override { return bytes_of(weights_.embedding.type); }
  [[nodiscard]] Bytes memory() const override { return device_.all; }
  [[nodiscard]] const ModelWeights& weights() const override { return weights_; }
  [[nodiscard]] BatchTimer& timer() override { return *timer_; }

  Expected<std::shared_ptr<TokenWorld>> make_machine(MachineSetup setup, LayerBlocks kv) override {
    setup.products = products_;
    const MemoryNeeds needs = cuda_needs(weights_, setup);
    setup.device_memory = needs.weights + needs.buffers + needs.block * kv.count();
    return make_cuda_machine(device_, weights_, setup);
  }
  Expected<LinkTimes> link(std::int64_t block, double seconds) override {
    return measure_link(*copies_, block, seconds);
  }
  [[nodiscard]] Status status() override { return cuda_status(); }

 private:
  CudaDevice device_;
  ModelWeights weights_;
  Products products_;
  std::unique_ptr<BatchTimer> timer_;
  std::unique_ptr<CopyTimer> copies_;
};

} // namespace

Status find_gpu() {
  const Expected<CudaDevice> device = open_cuda(GatherBelow{}); // does not measure anything yet
  return device ? Status{} : Status{device.error()};
}

Expected<std::unique_ptr<Subject>> measure_gpu(const ModelWeights& weights, Products products) {
  Expected<CudaDevice> device = open_cuda();
  if (!device) return device.error();
  Expected<ModelWeights> pinned = cuda_weights(weights, weights.embedding.type);
  if (!pinned) return pinned.error();
  auto gpu = std::make_unique<Gpu>(*std::move(device), *std::move(pinned), products);
  if (Status status = gpu->make_timers(); !status) return status.error();
  return std::unique_ptr<Subject>(std::move(gpu));
}

} // namespace profiled
