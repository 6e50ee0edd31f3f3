// SPDX-License-Identifier: Apache-2.0
// HostTierCounts: what a machine's host tier has, and what it has done so far. DiskTierCounts: the same of the disk
// below it. KvMoved: KV over the link, or from a disk.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

/// What has crossed the link in one direction, and the sum of the copies' times; or what was read from a disk.
struct KvMoved {
  std::int64_t bytes = 0;
  double seconds = 0;

  void add(std::int64_t more, std::chrono::steady_clock::duration took) {
    bytes += more;
    seconds += std::chrono::duration<double>(took).count();
  }
};

struct DiskTierCounts {
  std::int64_t capacity = 0, bytes = 0;  ///< of all records: the most (0: there is no disk), and now
  std::int64_t waiting = 0;              ///< token blocks of the host that are not on the disk yet
  std::int64_t written = 0, evicted = 0; ///< records; one is a token block
  std::int64_t faults = 0;               ///< reads and writes that failed, and damaged records
};

struct HostTierCounts {
  std::int64_t capacity = 0, blocks = 0; ///< token blocks: the most, and now
  std::int64_t asked = 0, found = 0; ///< tokens of prompts looked up, and those found: on the host, or read from a disk
  std::int64_t from_disk = 0;        ///< part of `found`
  std::int64_t loaded = 0;           ///< part of `found` with which requests began; they computed the rest
  std::int64_t stored = 0, evicted = 0; ///< token blocks
  /// Token blocks of ended requests for which there was no room: a request exceeds the tier, or others are pinned,
  /// worth more, or on their way.
  std::int64_t refused = 0;
  std::int64_t pinned = 0;              ///< token blocks that sessions pin now
  std::int64_t pins = 0, lost_pins = 0; ///< of sessions' requests so far; of these, for lack of room or of their share
  std::int64_t block_bytes = 0;         ///< of a token block
  KvMoved to_device, to_host;           ///< over the link: KV of running requests, too, but no weights
  KvMoved disk_reads;                   ///< of records: their KV, and the time of the thread that reads them
  DiskTierCounts disk;
};

} // namespace sluice
