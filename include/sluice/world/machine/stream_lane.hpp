// SPDX-License-Identifier: Apache-2.0
// StreamLane: a stream that waits, before it is given work, for the last uses of the work's blocks.
#pragma once

#include "sluice/world/machine/block_uses.hpp"
#include "sluice/world/machine/memory_device.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

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
  /// Takes the ticket behind the work.
  Ticket launched() {
    const Ticket ticket = given();
    arrival_ = {};
    return ticket;
  }
  /// The same for a part of the work: its waits still count as waits of the whole.
  Ticket given() {
    const Ticket ticket = memory_->record(stream_);
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
  [[nodiscard]] std::byte* address(const BlockRange& range, Content content) const {
    std::byte* const arena = content == Content::host ? memory_->host_arena() : memory_->device_arena();
    return arena + static_cast<std::int64_t>(range.first) * block_bytes_;
  }
  void wait_for_writers(const BlockUses& uses, const BlockUses::Uses& of, bool writes, Content content) {
    const Ticket appended = uses.appended(of);
    wait_for(of.writer, {stream_, writes, of.writer.stream, true, content});
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
