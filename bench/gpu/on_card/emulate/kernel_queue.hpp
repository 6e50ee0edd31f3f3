// SPDX-License-Identifier: Apache-2.0
// KernelQueue and Device, as tests/emulate has them, of a GPU: found before the emulator's header, so that the tests of
// tests/kernels/decoder, as they are, ask the queue that a machine's runner has (kernels/decoder/cuda_queue.cuh).
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

/// Memory that a kernel reaches: pinned, as is all that a test allocates (arena.cpp). It is full of what is no number.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes) : bytes_(bytes, std::byte{0xff}) {}
  [[nodiscard]] std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  mutable std::vector<std::byte> bytes_;
};

/// The GPU, whose streams run as they will: the seed is nobody's.
class Device {
 public:
  Device(int /*streams*/, std::uint64_t /*seed*/) {
    Expected<std::shared_ptr<CudaMemory>> made = CudaMemory::make();
    if (!made) throw std::runtime_error(made.error().line());
    memory_ = *std::move(made);
  }
  void finish() { memory_->synchronize(memory_->record(StreamId::compute)); }
  /// What the driver says of all that was launched.
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
    SLUICE_ASSERT(false, "what a GPU's queue waits for is not left out: the test that asks for it is the emulator's");
  }
};
static_assert(kernels::KernelQueue<KernelQueue>);

} // namespace sluice::emulate
