// SPDX-License-Identifier: Apache-2.0
// BlockUses: which ticket last wrote each block, and which tickets have read it since.
#pragma once

#include "sluice/world/machine/memory_device.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Consecutive blocks of one memory.
struct BlockRange {
  std::size_t first = 0, count = 0;
  [[nodiscard]] std::size_t end() const { return first + count; }
};

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
class BlockUses {
 public:
  struct Uses {
    Ticket writer;
    std::array<std::uint64_t, stream_count> readers{}; ///< by stream, since the last write
  };

  explicit BlockUses(std::size_t blocks = 0) : uses_(blocks) {}

  [[nodiscard]] const Uses& operator[](std::size_t block) const { return uses_[block]; }
  void read(const BlockRange& range, const Ticket& ticket) {
    for (std::size_t block = range.first; block < range.end(); ++block)
      uses_[block].readers[static_cast<std::size_t>(ticket.stream)] = ticket.number;
  }
  void wrote(const BlockRange& range, const Ticket& ticket) {
    for (std::size_t block = range.first; block < range.end(); ++block) uses_[block] = {ticket, {}};
  }

 private:
  std::vector<Uses> uses_;
};

} // namespace sluice
