// SPDX-License-Identifier: Apache-2.0
// CpuMemory: the addresses of a machine's places when both memories are parts of this machine's memory.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// VirtualMemory: anonymous address space, committed as it is touched.

/// A range of addresses that reads as zeros and costs memory only where it has been written. A memory tier's bytes lie
/// in one: it can have any size from the start, so nothing in it ever moves, while the resident set is only what is in
/// use.
///
/// Rejected: std::vector and operator new, which touch or may touch all of it; one allocation per block, which cannot
/// return memory to the system and has no fixed addresses.
class VirtualMemory {
 public:
  VirtualMemory() = default;
  VirtualMemory(VirtualMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  VirtualMemory& operator=(VirtualMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;
  ~VirtualMemory() {
    if (data_ != nullptr) (void)munmap(data_, size_);
  }

  /// Reserves `size` bytes, none of them committed, aligned to a page. Errors: `out_of_memory` if the system refuses
  /// that much; `bad_input` for a negative size.
  static Expected<VirtualMemory> reserve(Bytes size) {
    if (size.count() < 0)
      return Error{ErrorCode::bad_input, "", std::to_string(size.count()) + " bytes of memory were asked for",
                   "a size of at least 0"};
    VirtualMemory memory;
    if (size.count() == 0) return memory;
    const auto bytes = static_cast<std::size_t>(size.count());
    void* const there =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (there == MAP_FAILED)
      return Error{ErrorCode::out_of_memory, "",
                   "the system refuses " + std::to_string(size.count()) + " bytes of address space (errno " +
                       std::to_string(errno) + ")",
                   "a smaller memory"};
    memory.data_ = static_cast<std::byte*>(there);
    memory.size_ = bytes;
    return memory;
  }

  /// Asks the system for huge pages, for memory that is read from one end to the other: a processor prefetches within a
  /// page, and an AMD EPYC reads huge pages 1.3 to 1.9 times as fast as small ones. A huge page is resident as a whole.
  /// Without effect if the system has none.
  void prefer_huge_pages() const {
#ifdef MADV_HUGEPAGE
    if (size_ > 0) (void)madvise(data_, size_, MADV_HUGEPAGE);
#endif
  }

  /// Null if the size is 0.
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Bytes size() const { return Bytes{static_cast<std::int64_t>(size_)}; }

  /// Returns the whole pages inside a range to the system: they read as zeros and cost nothing until they are written
  /// again. A page that is only partly inside the range keeps its contents. No other thread may use the range
  /// meanwhile.
  void decommit(Bytes offset, Bytes size) {
    SLUICE_ASSERT(offset.count() >= 0 && size.count() >= 0 && offset + size <= this->size(), "a range of this memory");
    const std::size_t page = page_size();
    const std::size_t begin = (static_cast<std::size_t>(offset.count()) + page - 1) / page * page;
    std::size_t end = static_cast<std::size_t>((offset + size).count());
    if (end != size_) end = end / page * page; // the last page has nothing beyond the end
    if (begin < end) (void)madvise(data_ + begin, end - begin, MADV_DONTNEED);
  }

  [[nodiscard]] static std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Addresses for KV blocks in both memories, and for homes and slots of weights: address ranges, each large enough for
/// anything it may ever hold, committed as they are written. A machine's budget bounds how much is in use; memory that
/// the machine gives back returns to the system when something else needs it.
class CpuMemory {
 public:
  /// Error: the system has not enough address space.
  [[nodiscard]] Status reserve(const MachineCore& core) {
    const Bytes block = core.store.shape().bytes();
    block_ = block.count();
    const auto reserve_blocks = [&](std::size_t blocks, VirtualMemory& memory) -> Status {
      Expected<VirtualMemory> reserved = VirtualMemory::reserve(block * static_cast<std::int64_t>(blocks));
      if (!reserved) return reserved.error();
      memory = std::move(*reserved);
      return {};
    };
    if (Status status = reserve_blocks(core.store.device_blocks(), device_); !status) return status;
    if (Status status = reserve_blocks(core.store.host_blocks(), host_); !status) return status;
    // One range for all layers: in a range for each, a layer of 3 MB has at most one huge page, and that by chance.
    const auto page = static_cast<std::int64_t>(VirtualMemory::page_size());
    home_ = (core.weights.layer_bytes().count() + page - 1) / page * page;
    Expected<VirtualMemory> homes = VirtualMemory::reserve(Bytes{home_ * core.layers});
    if (!homes) return homes.error();
    homes->prefer_huge_pages();
    homes_ = std::move(*homes);
    return {};
  }

  /// Adopts a new plan of the weights: reserves address space for its slots. Homes that shrank and free blocks return
  /// their pages, since weights may have taken memory from KV or the other way round.
  [[nodiscard]] Status adopt_weights(const MachineCore& core) {
    slots_.clear();
    for (std::size_t i = 0; i < core.weights.slots(); ++i) {
      Expected<VirtualMemory> slot = VirtualMemory::reserve(core.weights.slot_bytes());
      if (!slot) return slot.error();
      slot->prefer_huge_pages();
      slots_.push_back(std::move(*slot));
    }
    const bool first = kept_.empty(); // nothing was written before the first plan
    kept_.resize(static_cast<std::size_t>(core.layers));
    for (int layer = 0; layer < core.layers; ++layer) {
      const Bytes kept{core.weights.kept(layer)};
      const Bytes before = std::exchange(kept_[static_cast<std::size_t>(layer)], kept);
      if (before > kept) homes_.decommit(Bytes{layer * home_} + kept, before - kept);
    }
    if (first) return {};
    const auto empty = [&](std::size_t at) { return core.store.device().is_free(at); };
    for (std::size_t at = 0, end = 0; at < core.store.device_blocks(); at = end + 1) {
      for (end = at; end < core.store.device_blocks() && empty(end);) ++end;
      device_.decommit(Bytes{static_cast<std::int64_t>(at) * block_},
                       Bytes{static_cast<std::int64_t>(end - at) * block_});
    }
    return {};
  }

  [[nodiscard]] std::byte* address(const DevicePlace& place) const {
    switch (place.kind) {
    case DevicePlace::Kind::kv_block:
      return device_.data() + place.index * block_; // neighbours follow
    case DevicePlace::Kind::home:
      return homes_.data() + place.index * home_;
    case DevicePlace::Kind::slot:
      break;
    }
    return slots_[static_cast<std::size_t>(place.index)].data();
  }

  [[nodiscard]] std::span<std::byte> host_block(std::int32_t block) const {
    return {host_.data() + block * block_, static_cast<std::size_t>(block_)};
  }

  [[nodiscard]] Copy addressed(const PlacedCopy& placed) const {
    std::byte* const device = address(placed.device) + placed.device_at;
    Copy copy;
    copy.bytes = placed.bytes;
    copy.rows = placed.rows;
    copy.from_stride = copy.to_stride = placed.stride;
    copy.tag = placed.tag;
    copy.since = placed.since;
    if (placed.image != nullptr) {
      copy.from = placed.image;
      copy.to = device;
      return copy;
    }
    std::byte* const host = host_.data() + placed.host_block * block_ + placed.host_at;
    copy.from = placed.way == Way::to_device ? host : device;
    copy.to = placed.way == Way::to_device ? device : host;
    return copy;
  }

 private:
  std::int64_t block_ = 0;
  VirtualMemory device_, host_; ///< KV
  VirtualMemory homes_;         ///< by layer
  std::int64_t home_ = 0;       ///< bytes of a layer's home, a multiple of a page
  std::vector<VirtualMemory> slots_;
  std::vector<Bytes> kept_; ///< by layer: bytes that its home keeps under the plan in force
};

} // namespace sluice
