// SPDX-License-Identifier: Apache-2.0
// What a GPU reaches with a model, measured by the model's own layers.
#include "sluice/backend/cuda/cudart/cuda_memory.hpp"
#include "sluice/backend/machine/beside.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/cost/layer_work.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "kernels/machine/cuda_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {

namespace {

/// A layer on the GPU, with the KV blocks of one sequence, and a runner with its workspace.
class OneLayer {
 public:
  static Expected<OneLayer> make(const CudaDevice& device, const ModelWeights& weights, const MachineSetup& setup,
                                 int rows) {
    OneLayer one;
    one.memory_ = device.memory;
    one.weights_ = &weights;
    const ElementType element = weights.embedding.type;
    const auto size = [](Bytes bytes) { return static_cast<std::size_t>(bytes.count()); };
    const Bytes workspace{
        kernels::RunnerRoom{weights.config, bytes_of(element), kernels::cuda_runner_limits(setup), rows, 1}.bytes};
    Expected<DeviceBytes> beside = device_bytes(size(bytes_beside(weights, workspace)), "measuring");
    if (!beside) return beside.error();
    Expected<DeviceBytes> layer = device_bytes(size(weights.layout.bytes), "measuring a layer");
    if (!layer) return layer.error();
    const Bytes block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, bytes_of(element)).bytes();
    const std::int64_t blocks = blocks_for(Tokens{rows}, setup.limits.block_tokens).count();
    Expected<DeviceBytes> kv = device_bytes(size(block * blocks), "measuring a layer");
    if (!kv) return kv.error();
    one.beside_ = std::move(*beside);
    one.layer_ = std::move(*layer);
    one.kv_ = std::move(*kv);
    for (std::int64_t i = 0; i < blocks; ++i) one.blocks_.push_back(one.kv_.data() + i * block.count());
    one.runner_ = kernels::make_cuda_runner(element, device.memory, weights.config, kernels::cuda_runner_limits(setup));
    std::byte* const outer = one.beside_.data() + detail::outer_weights_at(workspace);
    one.runner_->place({{one.beside_.data(), size(workspace)}, weights.moved_to(outer, beside_alignment)});
    // The embedding too, which the layer's input comes from: fresh memory is mostly zeros, of which products take less
    // power and a router sends every row to the same experts.
    weights.lay_out(beside_alignment, [&](Matrix OuterWeights::*member, std::int64_t at) {
      const Matrix& matrix = weights.*member;
      Copy all;
      all.from = matrix.row(0);
      all.to = outer + at;
      all.bytes = matrix.rows * matrix.row_bytes();
      one.memory_->copy_async(StreamId::compute, all);
    });
    Copy copy;
    copy.from = weights.layers.front().front();
    copy.to = one.layer_.data();
    copy.bytes = weights.layout.bytes.count(); // pinned weights are whole images
    one.memory_->copy_async(StreamId::compute, copy);
    return one;
  }

  /// Seconds of the layer with so many tokens of one sequence: the fastest of some, of which the first warms up.
  double time(int rows) {
    std::vector<std::int32_t> tokens, positions(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) // from all over the vocabulary, as a prompt's
      tokens.push_back(static_cast<std::int32_t>(i * 7919 % weights_->embedding.rows));
    std::iota(positions.begin(), positions.end(), 0);
    const SequenceRows sequence{0, rows, 0, blocks_.data(), 0};
    const LayerWeights layer{weights_->layout, layer_.data(), nullptr, weights_->layout.bytes.count()};
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 8; ++i) {
      runner_->begin(tokens, positions);
      const Ticket begun = memory_->record(StreamId::compute);
      runner_->launch_layer(0, layer, {&sequence, 1}, rows, 0, {});
      const Ticket ended = memory_->record(StreamId::compute);
      memory_->synchronize(ended);
      if (i == 0) continue;
      best = std::min(best, std::chrono::duration<double>(memory_->time(ended) - memory_->time(begun)).count());
    }
    return std::max(best, 1e-9);
  }

 private:
  OneLayer() = default;
  std::shared_ptr<CudaMemory> memory_;
  const ModelWeights* weights_ = nullptr;
  DeviceBytes beside_, layer_, kv_;
  std::vector<std::byte*> blocks_;
  std::unique_ptr<ModelRunner> runner_; ///< goes first, and waits
};

/// Bytes a second of pinned memory, the slower way.
Expected<BytesPerSecond> copy_rate(CudaMemory& memory) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  Expected<PinnedBytes> host = pinned_bytes(bytes, "measuring the link");
  if (!host) return host.error();
  Expected<DeviceBytes> device = device_bytes(bytes, "measuring the link");
  if (!device) return device.error();
  double slower = 0;
  for (const StreamId way : {StreamId::to_device, StreamId::to_host}) {
    Copy copy;
    copy.from = way == StreamId::to_device ? host->data() : device->data();
    copy.to = way == StreamId::to_device ? device->data() : host->data();
    copy.bytes = static_cast<std::int64_t>(bytes);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 4; ++i) {
      const Ticket begun = memory.record(way);
      memory.copy_async(way, copy);
      const Ticket ended = memory.record(way);
      memory.synchronize(ended);
      best = std::min(best, std::chrono::duration<double>(memory.time(ended) - memory.time(begun)).count());
    }
    slower = std::max(slower, best);
  }
  return BytesPerSecond{static_cast<double>(bytes) / std::max(slower, 1e-9)};
}

} // namespace

Expected<LocalRates> cuda_rates(const CudaDevice& device, const ModelWeights& weights, const MachineSetup& setup) {
  const Stopwatch all;
  const LayerWork work(weights.config.shape);
  const int rows =
      static_cast<int>(std::min<std::int64_t>(setup.limits.batch_tokens.count(), weights.config.max_positions));
  Expected<OneLayer> layer = OneLayer::make(device, weights, setup, rows);
  if (!layer) return layer.error();
  const double one = layer->time(1), many = layer->time(rows);
  Expected<BytesPerSecond> copying = copy_rate(*device.memory);
  if (!copying) return copying.error();
  if (!device.memory->status()) return device.memory->status().error();
  LocalRates rates;
  rates.reading = BytesPerSecond{work.weight_bytes(Tokens{1}) / one};
  rates.computing = FlopsPerSecond{work.linear_flops(Tokens{rows}).count() / many};
  rates.copying = *copying;
  rates.took = all.elapsed();
  return rates;
}

} // namespace sluice
