// SPDX-License-Identifier: Apache-2.0
// measure_gather: up to which size a kernel crosses this GPU's link faster than copy engines.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/cuda/cudart/cuda_memory.hpp"
#include "sluice/world/cuda/gather.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/stream/memory_device.hpp"
#include "sluice/world/stream/stream_link.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice {

/// Which sizes are measured, as powers of two, and how often.
struct GatherSweep {
  std::int64_t smallest = 4 << 10, largest = 1 << 20; ///< bytes of a copy
  std::int64_t batch_bytes = 4 << 20; ///< all copies of a batch: a quarter of a link's, which would take 0.4 s
  std::size_t batch_copies = GatherKernel::most;
  std::size_t batches = 4; ///< one after another in a stream, per time
  int times = 7;           ///< of which the median counts
};

namespace detail {

/// Both kinds of memory, and copies of one size both ways, by driver and by kernel.
class GatherTrial {
 public:
  GatherTrial(CudaMemory& memory, const GatherKernel& kernel, const GatherSweep& sweep)
      : memory_(&memory), kernel_(kernel), sweep_(sweep) {}

  /// How many copies of `bytes` make a batch.
  [[nodiscard]] static std::size_t copies(const GatherSweep& sweep, std::int64_t bytes) {
    return std::clamp(static_cast<std::size_t>(sweep.batch_bytes / bytes), GatherKernel::least, sweep.batch_copies);
  }
  /// Room that the sweep takes in each memory.
  [[nodiscard]] static Bytes room(const GatherSweep& sweep) {
    std::int64_t most = 0;
    for (std::int64_t bytes = sweep.smallest; bytes <= sweep.largest; bytes *= 2)
      most = std::max(most, 2 * bytes * static_cast<std::int64_t>(copies(sweep, bytes)));
    return Bytes{most};
  }

  /// Medians. The two are timed alternately, so that a temporary slowdown affects both alike.
  [[nodiscard]] GatherTimes time(StreamId way, std::int64_t bytes) {
    std::vector<double> by_driver, by_kernel;
    for (int i = 0; i <= sweep_.times; ++i) {
      const double driver = once(way, bytes, 0), kernel = once(way, bytes, GatherBelow::all);
      if (i == 0) continue; // the first finds the driver asleep
      by_driver.push_back(driver);
      by_kernel.push_back(kernel);
    }
    return {bytes, median(by_driver), median(by_kernel)};
  }

 private:
  [[nodiscard]] double once(StreamId way, std::int64_t bytes, std::int64_t below) {
    memory_->gather_by(kernel_, {below, below});
    const Ticket begun = memory_->record(way, Timing::timed);
    for (std::size_t batch = 0; batch < sweep_.batches; ++batch) {
      const auto count = static_cast<std::int64_t>(copies(sweep_, bytes));
      for (std::int64_t i = 0; i < count; ++i) { // with gaps, and in another order on the other side
        std::byte* const host = memory_->host_arena() + 2 * i * bytes;
        std::byte* const device = memory_->device_arena() + 2 * (count - 1 - i) * bytes;
        Copy copy;
        copy.from = way == StreamId::to_device ? host : device;
        copy.to = way == StreamId::to_device ? device : host;
        copy.bytes = bytes;
        memory_->copy_async(way, copy);
      }
      (void)memory_->stream(way); // gives the batch to the driver, as the link's ticket does
    }
    const Ticket ended = memory_->record(way, Timing::timed);
    memory_->synchronize(ended);
    return std::max(1e-9, std::chrono::duration<double>(memory_->time(ended) - memory_->time(begun)).count());
  }
  [[nodiscard]] static double median(std::vector<double>& times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  CudaMemory* memory_;
  GatherKernel kernel_;
  GatherSweep sweep_;
};

} // namespace detail

/// Uses the calls of a machine's copies, on streams and memory of its own: 8 MiB of each memory and some tens of
/// milliseconds, released on return. The GPU is otherwise idle: the time that a model's layers lose to the kernel's
/// blocks is not measured. Errors: not enough memory, or the driver's.
[[nodiscard]] inline Expected<GatherMeasured> measure_gather(const GatherKernel& kernel,
                                                             const GatherSweep& sweep = {}) {
  const Stopwatch all;
  Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
  if (!memory) return memory.error();
  const Bytes room = detail::GatherTrial::room(sweep);
  if (Status status = (*memory)->reserve(room, Bytes{0}, room); !status) return status.error();
  detail::GatherTrial trial(**memory, kernel, sweep);
  GatherMeasured measured;
  for (const StreamId way : {StreamId::to_device, StreamId::to_host}) {
    std::vector<GatherTimes> times;
    for (std::int64_t bytes = sweep.smallest; bytes <= sweep.largest; bytes *= 2)
      times.push_back(trial.time(way, bytes));
    if (!(*memory)->check()) return (*memory)->status().error();
    (way == StreamId::to_device ? measured.below.to_device : measured.below.to_host) = gather_below(times);
  }
  measured.took = all.elapsed();
  return measured;
}

} // namespace sluice
