// SPDX-License-Identifier: Apache-2.0
// BlockUses: which ticket last wrote each block, and which tickets have read it since.
#pragma once

#include "sluice/world/machine/block_pool.hpp"
#include "sluice/world/machine/memory_device.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Bytes within a range of blocks: the blocks that contain them, and the offset in the first.
struct BlockPiece {
  BlockRange blocks;
  std::int64_t at = 0;
};
[[nodiscard]] inline BlockPiece piece_of(const BlockRange& range, std::int64_t at, std::int64_t bytes,
                                         std::int64_t block_bytes) {
  const std::int64_t into = at % block_bytes;
  return {{range.first + static_cast<std::size_t>(at / block_bytes),
           static_cast<std::size_t>((into + bytes + block_bytes - 1) / block_bytes)},
          into};
}

/// The tickets of each block's last writer and last readers. A stream executes in order, so the largest number per
/// stream is enough.
///
/// Blocks that are used together share one record, since a layer's KV comes, is read and goes in runs of blocks. A use
/// of some of them gives those a record of their own.
///
/// Whole tables of blocks are read, and appended to, by one launch after the other. Such a table has one ticket for all
/// of its blocks, and a record only the table's number. So a block waits for all launches that used it, and one that
/// has left its table perhaps for a later launch that used the rest of it.
class BlockUses {
 public:
  static constexpr std::int32_t no_table = -1;

  struct Uses {
    Ticket writer;
    std::array<std::uint64_t, stream_count> readers{}; ///< by stream, since the last write
    std::int32_t table = no_table;                     ///< whose uses are these blocks' too, since the last write
    std::uint32_t blocks = 0;                          ///< that share the record
  };

  explicit BlockUses(std::size_t blocks = 0) : record_(blocks), records_(1) {
    records_[0].blocks = static_cast<std::uint32_t>(blocks);
  }

  /// Calls `visit(uses)` for the records of a range of blocks.
  template <class Visit>
  void each(const BlockRange& range, const Visit& visit) const {
    for (std::size_t block = range.first; block < range.end(); block = same_until(block, range.end()))
      visit(records_[record_[block]]);
  }
  /// The last read by a stream since the last write; number 0: none.
  [[nodiscard]] std::uint64_t reader(const Uses& uses, StreamId stream) const {
    const std::uint64_t own = uses.readers[static_cast<std::size_t>(stream)];
    if (uses.table == no_table) return own;
    const Ticket& table = tables_[static_cast<std::size_t>(uses.table)].read;
    const bool since = table.stream == stream && (uses.writer.stream != stream || uses.writer.number < table.number);
    return since ? std::max(own, table.number) : own;
  }
  /// The last launch that may have written to a block as a part of its table; number 0: none.
  [[nodiscard]] Ticket appended(const Uses& uses) const {
    return uses.table == no_table ? Ticket{} : tables_[static_cast<std::size_t>(uses.table)].appended;
  }

  void read(const BlockRange& range, const Ticket& ticket, std::int32_t table) {
    for (std::size_t block = range.first; block < range.end();) {
      const std::size_t end = same_until(block, range.end());
      if (table == no_table)
        own({block, end - block}).readers[static_cast<std::size_t>(ticket.stream)] = ticket.number;
      else if (records_[record_[block]].table != table)
        own({block, end - block}).table = table;
      block = end;
    }
    if (table != no_table) of(table).read = ticket;
  }
  void wrote(const BlockRange& range, const Ticket& ticket, std::int32_t table) {
    if (range.count == 0) return;
    for (std::size_t block = range.first; block < range.end();) {
      const std::size_t end = same_until(block, range.end());
      drop(record_[block], end - block);
      block = end;
    }
    assign(range, {ticket, {}, table, 0});
    if (table != no_table) of(table).read = ticket;
  }
  /// All blocks of a table were read, and some may have been written.
  void used_table(std::int32_t table, const Ticket& ticket) { of(table) = {ticket, ticket}; }

 private:
  struct Table {
    Ticket read, appended;
  };
  Table& of(std::int32_t table) {
    if (static_cast<std::size_t>(table) >= tables_.size()) tables_.resize(2 * static_cast<std::size_t>(table) + 1);
    return tables_[static_cast<std::size_t>(table)];
  }
  /// The end of the blocks that share this block's record, from this one on.
  [[nodiscard]] std::size_t same_until(std::size_t block, std::size_t end) const {
    const std::uint32_t record = record_[block];
    while (++block < end && record_[block] == record) {
    }
    return block;
  }
  /// The record of blocks that share one, and that have it to themselves afterwards.
  Uses& own(const BlockRange& range) {
    const std::uint32_t shared = record_[range.first];
    if (records_[shared].blocks == range.count) return records_[shared];
    const Uses copy = records_[shared];
    drop(shared, range.count);
    return assign(range, copy);
  }
  void drop(std::uint32_t record, std::size_t blocks) {
    Uses& uses = records_[record];
    uses.blocks -= static_cast<std::uint32_t>(blocks);
    if (uses.blocks == 0) free_.push_back(record);
  }
  Uses& assign(const BlockRange& range, const Uses& uses) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(records_.size()));
      records_.emplace_back();
    }
    const std::uint32_t record = free_.back();
    free_.pop_back();
    records_[record] = uses;
    records_[record].blocks = static_cast<std::uint32_t>(range.count);
    std::fill_n(record_.begin() + static_cast<std::ptrdiff_t>(range.first), range.count, record);
    return records_[record];
  }

  std::vector<std::uint32_t> record_; ///< by block
  std::vector<Uses> records_;
  std::vector<std::uint32_t> free_; ///< records that no block has
  std::vector<Table> tables_;
};

} // namespace sluice
