// SPDX-License-Identifier: Apache-2.0
// KeptTables: where the device keeps the block tables that outlive a launch, and how many entries each has.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::kernels {

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
