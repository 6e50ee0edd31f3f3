// SPDX-License-Identifier: Apache-2.0
// StreamLane: a stream that waits for the last uses of a work's blocks before it gets the work. BlockUses: those uses.
#pragma once

#include "sluice/world/machine/block_pool.hpp"
#include "sluice/world/stream/memory_device.hpp"

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
/// Blocks that are used together share one record, because a layer's KV moves and is read in runs of blocks. So a use
/// costs the same for one block and for hundreds. If only some of the blocks are used, these get a record of their own.
///
/// Consecutive launches read and extend whole tables. Such a table has one ticket for all of its blocks, and the record
/// has only the table's number. A block that has left its table may therefore wait for a later launch than necessary.
/// A record names one table, the last: that suffices because the lane ends each iteration with `finish`, so that
/// launches through other tables, for another sequence with the same block, are over by then.
class BlockUses {
 public:
  static constexpr std::int32_t no_table = -1;

  /// A record. A step visits thousands in the order of the blocks, so two fit a cache line.
  class alignas(32) Uses {
   public:
    Uses() = default;
    /// Written, and not read since.
    Uses(const Ticket& writer, std::int32_t of_table) : writer_(writer.stream), table(of_table) {
      set(stream_count, writer.number);
    }
    [[nodiscard]] Ticket writer() const { return {writer_, get(stream_count)}; }
    /// The last read by a stream since the last write; number 0: none.
    [[nodiscard]] std::uint64_t reader(StreamId stream) const { return get(static_cast<std::size_t>(stream)); }
    void read_by(const Ticket& ticket) { set(static_cast<std::size_t>(ticket.stream), ticket.number); }
    /// Takes the other record's blocks, if they differ at most in when the same stream wrote.
    [[nodiscard]] bool join(const Uses& other) {
      if (writer_ != other.writer_ || table != other.table) return false;
      for (const StreamId stream : all_streams)
        if (reader(stream) != other.reader(stream)) return false;
      set(stream_count, std::max(get(stream_count), other.get(stream_count)));
      return true;
    }

   private:
    [[nodiscard]] std::uint64_t get(std::size_t at) const { return std::uint64_t{high_[at]} << 32 | low_[at]; }
    void set(std::size_t at, std::uint64_t number) {
      low_[at] = static_cast<std::uint32_t>(number);
      high_[at] = static_cast<std::uint16_t>(number >> 32);
    }

    std::array<std::uint32_t, stream_count + 1> low_{}; ///< numbers of tickets, 48 bits: by reader, and the writer's
    std::array<std::uint16_t, stream_count + 1> high_{};
    StreamId writer_ = StreamId::compute;

   public:
    std::int32_t table = no_table; ///< whose uses are these blocks' too, since the last write
  };

  explicit BlockUses(std::size_t blocks = 0) : size_(blocks), begins_(blocks), record_(blocks), records_(1) {
    if (blocks > 0) begins_.assign({0, 1}, true);
  }

  /// Calls `visit(uses)` for the records of a range of blocks.
  template <class Visit>
  void each(const BlockRange& range, const Visit& visit) const {
    if (range.count == 0) return;
    for (std::size_t block = begins_.last_set(range.first); block < range.end(); block = next(block, range.end()))
      visit(records_[record_[block]]);
  }
  /// The last read by a stream since the last write; number 0: none.
  [[nodiscard]] std::uint64_t reader(const Uses& uses, StreamId stream) const {
    const std::uint64_t own = uses.reader(stream);
    if (uses.table == no_table) return own;
    const Ticket& table = tables_[static_cast<std::size_t>(uses.table)].read;
    const bool since =
        table.stream == stream && (uses.writer().stream != stream || uses.writer().number < table.number);
    return since ? std::max(own, table.number) : own;
  }
  /// The last launch that may have written to a block as a part of its table; number 0: none.
  [[nodiscard]] Ticket appended(const Uses& uses) const {
    return uses.table == no_table ? Ticket{} : tables_[static_cast<std::size_t>(uses.table)].appended;
  }

  void read(const BlockRange& range, const Ticket& ticket, std::int32_t table) {
    if (table != no_table) of(table).read = ticket;
    if (range.count == 0) return;
    cut(range.first);
    cut(range.end());
    Uses* before = nullptr;
    for (std::size_t block = range.first; block < range.end(); block = next(block, range.end())) {
      Uses& uses = records_[record_[block]];
      if (table == no_table)
        uses.read_by(ticket);
      else
        uses.table = table;
      // Copies begin at other blocks in every step, and each appended block was written alone; without this each block
      // would have a record of its own in the end. The reader has waited for both writers, so the later one will do.
      if (before != nullptr && before->join(uses)) {
        free_.push_back(record_[block]);
        begins_.assign({block, 1}, false);
      } else {
        before = &uses;
      }
    }
  }
  void wrote(const BlockRange& range, const Ticket& ticket, std::int32_t table) {
    if (table != no_table) of(table).read = ticket;
    if (range.count == 0) return;
    cut(range.first);
    cut(range.end());
    for (std::size_t block = next(range.first, range.end()); block < range.end(); block = next(block, range.end()))
      free_.push_back(record_[block]);
    begins_.assign(range, false);
    begins_.assign({range.first, 1}, true);
    records_[record_[range.first]] = {ticket, table};
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
  /// The first block behind this one that has another record, or `end`.
  [[nodiscard]] std::size_t next(std::size_t block, std::size_t end) const { return begins_.first_set(block + 1, end); }
  /// Gives the blocks from this one on a record of their own, apart from those before it.
  void cut(std::size_t block) {
    if (block >= size_ || begins_.test(block)) return;
    const Uses before = records_[record_[begins_.last_set(block)]];
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(records_.size()));
      records_.emplace_back();
    }
    record_[block] = free_.back();
    free_.pop_back();
    records_[record_[block]] = before;
    begins_.assign({block, 1}, true);
  }

  std::size_t size_;
  BlockBits begins_;                  ///< blocks that begin a record
  std::vector<std::uint32_t> record_; ///< of a block that begins one
  std::vector<Uses> records_;
  std::vector<std::uint32_t> free_; ///< records that no block has
  std::vector<Table> tables_;
};

/// Why a stream waits: its coming use of a block, and the block's previous use by another stream.
struct StreamWait {
  enum class Content : std::uint8_t { kv, weights, host };
  StreamId waits = StreamId::compute;
  bool writes = false; ///< it will write the block; otherwise read it
  StreamId used_by = StreamId::compute;
  bool was_written = false; ///< `used_by` wrote the block; otherwise read it
  Content content = Content::kv;
};

/// Makes every wait. Tests substitute a class that drops some, to see that each wait is necessary.
struct EveryWait {
  [[nodiscard]] static constexpr bool keeps(const StreamWait& /*wait*/) { return true; }
};

/// Hands out the addresses of blocks, and orders the stream behind their last writers (for a read), and also behind
/// their last readers (for a write). Call `launched` when the stream has been given all the work for which addresses
/// were requested since the last call: its ticket is then the blocks' last use.
template <MemoryDevice Memory, class Waits>
class StreamLane {
 public:
  using Content = StreamWait::Content;

  StreamLane(Memory& memory, BlockUses& device, BlockUses& host, std::int64_t block_bytes, StreamId stream,
             const Waits& waits)
      : memory_(&memory), device_(&device), host_(&host), block_bytes_(block_bytes), stream_(stream), waits_(&waits) {}

  /// `table`: of the stream's own that keeps the address; its reads count as the blocks' (BlockUses).
  [[nodiscard]] const std::byte* reads(const BlockRange& range, Content content,
                                       std::int32_t table = BlockUses::no_table) {
    BlockUses& uses = uses_of(content);
    uses.each(range, [&](const BlockUses::Uses& of) { wait_for_writers(uses, of, false, content); });
    touched_.push_back({range, content, false, table});
    return address(range, content);
  }
  /// The work reads blocks of a table whose addresses it has from earlier, and which no other stream has written since;
  /// it may write to them too.
  void again(std::int32_t table) { again_.push_back(table); }
  [[nodiscard]] std::byte* writes(const BlockRange& range, Content content, std::int32_t table = BlockUses::no_table) {
    BlockUses& uses = uses_of(content);
    uses.each(range, [&](const BlockUses::Uses& of) {
      wait_for_writers(uses, of, true, content);
      for (const StreamId reader : all_streams)
        wait_for({reader, uses.reader(of, reader)}, {stream_, true, reader, false, content});
    });
    touched_.push_back({range, content, true, table});
    return address(range, content);
  }
  /// The same address, for a table. No work may use it before it was asked for by `reads` or `writes`.
  [[nodiscard]] std::byte* address(const BlockRange& range, Content content) const {
    std::byte* const arena = content == Content::host ? memory_->host_arena() : memory_->device_arena();
    return arena + static_cast<std::int64_t>(range.first) * block_bytes_;
  }
  /// Takes the ticket behind the work.
  Ticket launched() {
    const Ticket ticket = given();
    arrival_ = {};
    return ticket;
  }
  /// The same for a part of the work: its waits still count as waits of the whole.
  Ticket given() {
    const Ticket ticket = memory_->record(stream_, Timing::timed);
    for (const Touched& one : touched_) {
      BlockUses& uses = uses_of(one.content);
      if (one.written)
        uses.wrote(one.range, ticket, one.table);
      else
        uses.read(one.range, ticket, one.table);
    }
    touched_.clear();
    for (const std::int32_t table : again_) device_->used_table(table, ticket);
    again_.clear();
    return ticket;
  }
  /// The last ticket of the link that the stream waits for since `launched`; number 0: none.
  [[nodiscard]] Ticket arrival() const { return arrival_; }
  [[nodiscard]] StreamId stream() const { return stream_; }

 private:
  struct Touched {
    BlockRange range;
    Content content = Content::kv;
    bool written = false;
    std::int32_t table = BlockUses::no_table;
  };

  [[nodiscard]] BlockUses& uses_of(Content content) { return content == Content::host ? *host_ : *device_; }
  void wait_for_writers(const BlockUses& uses, const BlockUses::Uses& of, bool writes, Content content) {
    const Ticket appended = uses.appended(of);
    const Ticket writer = of.writer();
    wait_for(writer, {stream_, writes, writer.stream, true, content});
    wait_for(appended, {stream_, writes, appended.stream, true, content});
  }
  void wait_for(const Ticket& ticket, const StreamWait& why) {
    if (ticket.number == 0 || ticket.stream == stream_) return;
    std::uint64_t& waited = waited_[static_cast<std::size_t>(ticket.stream)];
    if (ticket.number <= waited || !waits_->keeps(why)) return;
    memory_->wait(stream_, ticket);
    waited = ticket.number;
    if (ticket.stream == StreamId::to_device) arrival_ = ticket;
  }

  Memory* memory_;
  BlockUses* device_;
  BlockUses* host_;
  std::int64_t block_bytes_;
  StreamId stream_;
  const Waits* waits_;
  std::array<std::uint64_t, stream_count> waited_{}; ///< by stream: the last ticket that this one waits for
  std::vector<Touched> touched_;                     ///< since `launched`
  std::vector<std::int32_t> again_;                  ///< tables, since `launched`
  Ticket arrival_;
};

} // namespace sluice
