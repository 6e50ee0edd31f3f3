// SPDX-License-Identifier: Apache-2.0
// VirtualMemory: anonymous address space, committed as it is touched.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

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

} // namespace sluice
