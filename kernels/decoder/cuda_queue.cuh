// SPDX-License-Identifier: Apache-2.0
// CudaQueue: the KernelQueue of a GPU, which is the compute stream of a CudaMemory.
#pragma once

#include "sluice/backend/cuda/cudart/allocation.hpp"
#include "sluice/backend/cuda/cudart/cuda_memory.hpp"
#include "sluice/backend/machine/memory_device.hpp"
#include "sluice/core/expected.hpp"

#include "kernels/decoder/kernel_queue.hpp"
#include "kernels/families.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::kernels {

/// Memory of the host for a queue's copies: pinned. Where the system refuses that, it is not, so that who writes there
/// may go on; the queue has failed then, and copies nothing.
class QueueMemory {
 public:
  QueueMemory() = default;
  explicit QueueMemory(PinnedBytes pinned) : pinned_(std::move(pinned)) {}
  explicit QueueMemory(std::size_t bytes) : other_(bytes) {}

  [[nodiscard]] std::byte* data() const { return other_.empty() ? pinned_.data() : other_.data(); }
  [[nodiscard]] std::size_t size() const { return std::max(pinned_.size(), other_.size()); }

 private:
  PinnedBytes pinned_;
  mutable std::vector<std::byte> other_;
};

/// A handle: copies are the same stream. Its errors are the memory's, as are its tickets. Read by any compiler: kernels
/// are launched by functions that nvcc has compiled (kernels/lookup.hpp), so that the runner on top of this, which is
/// host code, costs nvcc nothing.
class CudaQueue {
 public:
  using Ticket = sluice::Ticket;
  using Memory = QueueMemory;

  explicit CudaQueue(std::shared_ptr<CudaMemory> memory) : memory_(std::move(memory)) {}

  /// A configuration that is not listed does not compile: who launches by a template's argument knows it in time.
  template <auto config>
  void launch(const typename KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    using Family = KernelFamily<std::remove_const_t<decltype(config)>>;
    using Kernel = typename Family::template Kernel<config>;
    static_assert(std::find(Family::configs.begin(), Family::configs.end(), config) != Family::configs.end(),
                  "sluice: kernels/configs.cmake has no line for this configuration");
    static const Status ready = OnGpu::prepare<Kernel>(); // once: there is one device
    if (!memory_->status() || !memory_->succeeds(ready)) return;
    (void)memory_->succeeds(OnGpu::launch<Kernel>(params, memory_->stream(StreamId::compute)));
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    Copy copy;
    copy.to = static_cast<std::byte*>(to);
    copy.from = static_cast<const std::byte*>(from);
    copy.bytes = static_cast<std::int64_t>(bytes);
    memory_->copy_async(StreamId::compute, copy);
  }
  [[nodiscard]] Ticket record() { return memory_->record(StreamId::compute); }
  void wait(const Ticket& ticket, QueueWait /*why*/) { memory_->synchronize(ticket); }
  [[nodiscard]] Memory host(std::size_t bytes) {
    Expected<PinnedBytes> pinned = pinned_bytes(bytes, "tables of an iteration");
    if (pinned) return Memory{std::move(*pinned)};
    (void)memory_->succeeds(Status{pinned.error()});
    return Memory{bytes};
  }

  [[nodiscard]] CudaMemory& memory() { return *memory_; }

 private:
  std::shared_ptr<CudaMemory> memory_;
};
static_assert(KernelQueue<CudaQueue>);

} // namespace sluice::kernels
