// SPDX-License-Identifier: Apache-2.0
// Staging: uploads an iteration's tables from pinned memory. KeptTables: the block tables that the device keeps.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/copy/copy_segments.hpp"
#include "kernels/decoder/kernel_queue.hpp"

#include <algorithm>
#include <array>
#include <bit>
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

/// Arrays that are uploaded together: the host's bytes and their destination. It has room for `bytes`.
class StagedBlock {
 public:
  static constexpr std::size_t alignment = 16;
  /// Bytes of a block that `count` numbers take.
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

/// The host's side of an iteration's uploads. No byte is written twice between two calls of `restart`, so a late copy
/// still finds its data; call `restart` only when all copies are done. Memory grows in pieces, which are never freed,
/// so an iteration no larger than an earlier one allocates nothing.
///
/// Rejected: a ring with a ticket for each layer. The host would wait within a step, unless the ring were as long as an
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

  /// The next `flush` uploads the block. Blocks of one flush have no byte of the device in common.
  void upload(const StagedBlock& block) {
    if (block.used() > 0) waiting_.push_back({block.host(), block.device(), static_cast<std::int64_t>(block.used())});
  }
  /// Blocks that wait for the next flush.
  [[nodiscard]] std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  /// Uploads all blocks that wait, by one launch that carries their list, of a kernel that reads the host's memory
  /// itself: a copy engine would queue the copy behind its current one, which takes milliseconds for a layer's weights.
  /// For the number of eight blocks see gather_params (kernels/machine/cuda_gather.hpp). A longer list is itself
  /// uploaded by that launch, to `list`, and a second launch works through it.
  void flush(Queue& queue, std::byte* list) {
    if (waiting_.empty()) return;
    constexpr std::size_t most = CopySegmentsParams::most_launched;
    const std::size_t direct = waiting_.size() <= most ? waiting_.size() : most - 1;
    CopySegmentsParams first, rest;
    for (std::size_t i = 0; i < direct; ++i) add(first, waiting_[i]);
    if (direct < waiting_.size()) {
      const std::size_t count = waiting_.size() - direct;
      StagedBlock listed = block(queue, StagedBlock::bytes_of<CopySegment>(count), list);
      const Staged<CopySegment> segments = listed.take<CopySegment>(count);
      std::copy(waiting_.begin() + static_cast<std::ptrdiff_t>(direct), waiting_.end(), segments.host);
      add(first, {listed.host(), listed.device(), static_cast<std::int64_t>(listed.used())});
      rest.segments = segments.device;
      rest.count = static_cast<int>(count);
      rest.ctas = std::min(rest.count, most_ctas);
    }
    first.ctas = few_ctas + first.count; // several for a long block, one for each of many short ones
    queue.template launch<CopySegmentsConfig{}>(first);
    if (rest.count > 0) queue.template launch<CopySegmentsConfig{}>(rest);
    waiting_.clear();
  }

  /// Call it when all uploads have arrived. Blocks that still wait are dropped.
  void restart() {
    piece_ = used_ = 0;
    waiting_.clear();
  }

 private:
  static constexpr std::size_t least = std::size_t{1} << 14;
  static constexpr int few_ctas = 8, most_ctas = 128;

  static void add(CopySegmentsParams& copy, const CopySegment& one) {
    copy.launched[copy.count++] = one;
    copy.longest = std::max(copy.longest, one.bytes);
  }
  [[nodiscard]] static constexpr std::size_t rounded(std::size_t bytes) {
    return (bytes + StagedBlock::alignment - 1) / StagedBlock::alignment * StagedBlock::alignment;
  }

  std::vector<typename Queue::Memory> pieces_;
  std::size_t piece_ = 0; // that is written
  std::size_t used_ = 0;  // bytes of it
  std::vector<CopySegment> waiting_;
};

// KeptTables: where the device keeps the block tables that outlive a launch, and how many entries each has.

/// A decode step changes few entries of its block tables. So tables stay on the device, in one array of entries, and
/// only new entries are uploaded. A table is a range of that array, a power of two long. A table that outgrows its
/// range gets a longer one, and is uploaded whole; its old range serves the next table of that length. Freeing needs no
/// wait: the queue reads and writes entries in its order.
///
/// If the array has no room for a table, the caller uploads that table with each launch. Rejected: an array for the
/// worst case. Every sequence at its longest in every layer would take gigabytes, where blocks for a few are there.
class KeptTables {
 public:
  static constexpr std::int32_t shortest = 16; ///< entries of a range

  struct Table {
    std::int32_t first = -1;  ///< of its range; -1: none
    std::int32_t room = 0;    ///< entries of its range
    std::int32_t entries = 0; ///< that the device has, or has been given in its queue
  };

  KeptTables() = default;
  /// `entries`: of the array.
  KeptTables(int layers, std::int64_t entries) : layers_(static_cast<std::size_t>(layers)), size_(entries) {}

  /// A table that the device keeps, or null.
  [[nodiscard]] Table* find(int layer, std::int32_t table) {
    const std::size_t at = number(layer, table);
    return at < tables_.size() && tables_[at].first >= 0 ? &tables_[at] : nullptr;
  }
  /// The table, with room for `entries`; null if the array has none. It has no entries if it moved.
  [[nodiscard]] Table* of(int layer, std::int32_t table, std::int64_t entries) {
    const std::size_t at = number(layer, table);
    if (at >= tables_.size()) tables_.resize(std::bit_ceil(at + 1));
    Table& one = tables_[at];
    if (one.first >= 0 && entries <= one.room) return &one;
    if (one.first >= 0) free_[list_of(one.room)].push_back(one.first);
    one = {};
    const auto room =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(entries, shortest))));
    if (room > size_) return nullptr;
    std::vector<std::int32_t>& ranges = free_[list_of(room)];
    if (ranges.empty() && end_ + room > size_) return nullptr;
    if (ranges.empty()) {
      one.first = static_cast<std::int32_t>(end_);
      end_ += room;
    } else {
      one.first = ranges.back();
      ranges.pop_back();
    }
    one.room = static_cast<std::int32_t>(room);
    return &one;
  }

 private:
  [[nodiscard]] std::size_t number(int layer, std::int32_t table) const {
    SLUICE_ASSERT(table >= 0, "a table that outlives the launch");
    return static_cast<std::size_t>(table) * layers_ + static_cast<std::size_t>(layer);
  }
  [[nodiscard]] static std::size_t list_of(std::int64_t room) {
    return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(room)));
  }

  std::size_t layers_ = 0;
  std::int64_t size_ = 0, end_ = 0;                ///< of the array, and of its part that was ever used
  std::vector<Table> tables_;                      ///< by table, then layer
  std::array<std::vector<std::int32_t>, 32> free_; ///< ranges that no table has, by the logarithm of their length
};

} // namespace sluice::kernels
