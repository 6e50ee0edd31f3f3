// SPDX-License-Identifier: Apache-2.0
// Staging: what the host writes for a device to read: tables of an iteration, in pinned memory until they are uploaded.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/copy/copy_segments.hpp"
#include "kernels/decoder/kernel_queue.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::kernels {

/// An array that is written on the host and read on the device.
template <class T>
struct Staged {
  T* host = nullptr;
  const T* device = nullptr;
};

/// Copies between the host's memory of a queue and the device's, by a kernel that reads or writes the host's itself:
/// both ends and the length whole packets of 16 bytes. A copy engine would take this copy behind the one that it works
/// on for the link, which of a layer's weights is milliseconds, and the layer would wait. Eight blocks: gather_params
/// (kernels/machine/cuda_gather.hpp) says why.
template <KernelQueue Queue>
void copy_by_kernel(Queue& queue, void* to, const void* from, std::size_t bytes) {
  CopySegmentsParams copy;
  copy.from = from;
  copy.to = to;
  copy.bytes = static_cast<std::int64_t>(bytes);
  copy.count = 1;
  copy.ctas = 8;
  queue.template launch<CopySegmentsConfig{.bulk = false}>(copy);
}

/// Arrays that are uploaded by one launch: the host's bytes, and where they go. Made for at most `bytes`.
class StagedBlock {
 public:
  static constexpr std::size_t alignment = 16;
  /// Bytes that `count` numbers take of a block.
  template <class T>
  [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t count) {
    return (count * sizeof(T) + alignment - 1) / alignment * alignment;
  }

  StagedBlock(std::byte* host, std::byte* device, std::size_t bytes) : host_(host), device_(device), bytes_(bytes) {}

  template <class T>
  [[nodiscard]] Staged<T> take(std::size_t count) {
    static_assert(alignof(T) <= alignment && std::is_trivially_copyable_v<T>);
    const std::size_t at = std::exchange(used_, used_ + bytes_of<T>(count));
    SLUICE_ASSERT(used_ <= bytes_, "a block with room for its arrays");
    return {reinterpret_cast<T*>(host_ + at), reinterpret_cast<const T*>(device_ + at)};
  }

  [[nodiscard]] std::byte* host() const { return host_; }
  [[nodiscard]] std::byte* device() const { return device_; }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::byte* host_;
  std::byte* device_;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

/// The host's side of an iteration's uploads. Nothing is written twice between two calls of `restart`, so that a copy
/// which is late finds what it was given; `restart` is called when all copies have been done. Memory grows in pieces,
/// of which none is freed: an iteration like an earlier one allocates nothing.
///
/// Rejected: a ring with a ticket for each layer. The host would wait within a step, or the ring be as long as an
/// iteration anyway.
template <KernelQueue Queue>
class Staging {
 public:
  /// Room for `bytes` that will be uploaded to `device`.
  [[nodiscard]] StagedBlock block(Queue& queue, std::size_t bytes, std::byte* device) {
    while (piece_ < pieces_.size() && pieces_[piece_].size() - used_ < bytes) {
      ++piece_;
      used_ = 0;
    }
    if (piece_ == pieces_.size()) {
      const std::size_t twice = pieces_.empty() ? least : 2 * pieces_.back().size();
      pieces_.push_back(queue.host(std::max(twice, bytes)));
    }
    std::byte* const at = pieces_[piece_].data() + std::exchange(used_, used_ + rounded(bytes));
    return {at, device, bytes};
  }

  void upload(Queue& queue, const StagedBlock& block) {
    if (block.used() > 0) copy_by_kernel(queue, block.device(), block.host(), block.used());
  }

  /// All that was uploaded has arrived.
  void restart() { piece_ = used_ = 0; }

 private:
  static constexpr std::size_t least = std::size_t{1} << 14;
  [[nodiscard]] static constexpr std::size_t rounded(std::size_t bytes) {
    return (bytes + StagedBlock::alignment - 1) / StagedBlock::alignment * StagedBlock::alignment;
  }

  std::vector<typename Queue::Memory> pieces_;
  std::size_t piece_ = 0; // that is written
  std::size_t used_ = 0;  // bytes of it
};

} // namespace sluice::kernels
