// SPDX-License-Identifier: Apache-2.0
// KernelQueue and Device, with the interface of tests/emulate, on a GPU. This header is found before the emulator's, so
// that the unchanged tests of tests/kernels/decoder use the queue of a machine's runner
// (kernels/decoder/cuda_queue.cuh).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/cuda/cudart/cuda_memory.hpp"

#include "emulate/report.hpp"
#include "kernels/decoder/cuda_queue.cuh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sluice::emulate {

/// Memory that a kernel can access: pinned, like every allocation of a test (arena.cpp). It is filled with NaNs.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes) : bytes_(bytes, std::byte{0xff}) {}
  [[nodiscard]] std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  mutable std::vector<std::byte> bytes_;
};

/// The GPU. Its streams run in their own order, so the seed is ignored.
class Device {
 public:
  Device(int /*streams*/, std::uint64_t /*seed*/) {
    Expected<std::shared_ptr<CudaMemory>> made = CudaMemory::make();
    if (!made) throw std::runtime_error(made.error().line());
    memory_ = *std::move(made);
  }
  void finish() { memory_->synchronize(memory_->record(StreamId::compute)); }
  /// The driver's result for all launches.
  [[nodiscard]] const Report& report() {
    if (const Status& status = memory_->check(); !status && report_.errors.empty())
      report_.errors.push_back(status.error().line());
    return report_;
  }
  [[nodiscard]] const std::shared_ptr<CudaMemory>& memory() const { return memory_; }

 private:
  std::shared_ptr<CudaMemory> memory_;
  Report report_;
};

class KernelQueue : public kernels::CudaQueue {
 public:
  KernelQueue(Device& device, int /*stream*/) : CudaQueue(device.memory()) {}
  void leave_out(kernels::QueueWait /*why*/) {
    SLUICE_ASSERT(false, "a GPU's queue cannot leave out a wait; a test that needs it runs only on the emulator");
  }
};
static_assert(kernels::KernelQueue<KernelQueue>);

} // namespace sluice::emulate
