// SPDX-License-Identifier: Apache-2.0
// A GPU's rates with a model, measured with the model's own layers.
#include "sluice/core/stopwatch.hpp"
#include "sluice/policy/cost/layer_work.hpp"
#include "sluice/world/cuda/cudart/cuda_memory.hpp"
#include "sluice/world/stream/beside.hpp"
#include "sluice/world/stream/measure_runner.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "kernels/machine/cuda_runner.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace sluice {

namespace {

/// The fastest of some runs, as the GPU's rate. The first run may find the GPU idle at low clocks.
template <class Time>
double fastest(int times, const Time& time) {
  (void)time();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) best = std::min(best, time());
  return std::max(best, 1e-9);
}

/// Two layers in a row, so that the second is timed, with the KV blocks of one sequence of `rows` tokens.
TimerRoom room_of(const ModelWeights& weights, const MachineSetup& setup, int rows) {
  TimerRoom room;
  room.block_tokens = setup.limits.block_tokens;
  room.element_bytes = bytes_of(weights.embedding.type);
  room.rows = rows;
  room.samples = 1;
  room.weights = weights.layout.bytes * 2 + Bytes{2 * beside_alignment};
  room.kv = kv_block_shape(weights.config.shape, room.block_tokens, room.element_bytes).bytes() *
            blocks_for(Tokens{rows}, room.block_tokens).count();
  return room;
}

/// Bytes per second of copies of pinned memory, in the slower direction.
Expected<BytesPerSecond> copy_rate() {
  constexpr std::int64_t bytes = std::int64_t{32} << 20; // too large for copies by a kernel
  Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
  if (!memory) return memory.error();
  auto timer = StreamCopyTimer<CudaMemory>::make(*memory, Bytes{bytes});
  if (!timer) return timer.error();
  const double in = fastest(3, [&] { return (*timer)->time(bytes, true, false).to_device; });
  const double out = fastest(3, [&] { return (*timer)->time(bytes, false, true).to_host; });
  if (!(*memory)->check()) return (*memory)->status().error();
  return BytesPerSecond{static_cast<double>(bytes) / std::max(in, out)};
}

} // namespace

Expected<LocalRates> cuda_rates(const CudaDevice& device, const ModelWeights& weights, const MachineSetup& setup) {
  if (device.memory->in_use())
    return Error{ErrorCode::unsupported, "cuda: rates", "a machine lives on the GPU", "a measurement before it"};
  device.memory->release();
  const Stopwatch all;
  const LayerWork work(weights.config.shape);
  const int rows =
      static_cast<int>(std::min<std::int64_t>(setup.limits.batch_tokens.count(), weights.config.max_positions));
  double one = 0, many = 0;
  {
    Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
    if (!memory) return memory.error();
    auto runner =
        kernels::make_cuda_runner(weights.embedding.type, *memory, weights.config, kernels::cuda_runner_limits(setup));
    auto timer = RunnerTimer<CudaMemory>::make(*memory, std::move(runner), weights, room_of(weights, setup, rows));
    if (!timer) return timer.error();
    one = fastest(7, [&] { return (*timer)->time({.chunk = 1}).layer.count(); });
    many = fastest(7, [&] { return (*timer)->time({.chunk = rows}).layer.count(); });
    if (!(*memory)->check()) return (*memory)->status().error();
  } // frees the memory
  Expected<BytesPerSecond> copying = copy_rate();
  if (!copying) return copying.error();
  LocalRates rates;
  rates.reading = BytesPerSecond{work.weight_bytes(Tokens{1}) / one};
  rates.computing = FlopsPerSecond{work.linear_flops(Tokens{rows}).count() / many};
  rates.copying = *copying;
  rates.took = all.elapsed();
  return rates;
}

} // namespace sluice
