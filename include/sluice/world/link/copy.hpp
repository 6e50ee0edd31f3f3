// SPDX-License-Identifier: Apache-2.0
// Copy, PlacedCopy, LinkRates, CopyTotals: transfers over the link between the two memories, their rates and totals.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// The earliest time at which a copy could start, room in memory aside; `CopySince::min()`: directly after the copy
/// before it. A lane that is late makes up for its delay, but not for time in which it had nothing to move.
using CopySince = std::chrono::steady_clock::time_point;

/// `rows` runs of `bytes` each, `from_stride` and `to_stride` bytes apart. Source and destination do not overlap.
struct Copy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0; ///< of one row
  std::int64_t rows = 1;
  std::int64_t from_stride = 0, to_stride = 0; ///< without meaning if there is one row
  std::uint64_t tag = 0;                       ///< the source's own; a FaultPlan draws by it
  CopySince since = CopySince::min();

  [[nodiscard]] std::int64_t total() const { return bytes * rows; }
};

enum class Way : std::uint8_t { to_device, to_host };

enum class CopyOutcome : std::uint8_t {
  done,   ///< every byte has arrived
  failed, ///< the second try failed too: the destination's contents are undefined
};

/// A piece of the device's memory with one owner at a time: neighbouring KV blocks, the home of a layer's weights, or a
/// slot that weights pass through. The device decides where it lies.
struct DevicePlace {
  enum class Kind : std::uint8_t { kv_block, home, slot };
  Kind kind = Kind::kv_block;
  std::int32_t index = 0; ///< of the first block, the layer, the slot
  std::int32_t count = 1; ///< of blocks

  friend constexpr bool operator==(const DevicePlace&, const DevicePlace&) = default;
};

/// A copy that a machine requests: `rows` runs of `bytes`, `stride` apart in both memories. The machine names places; a
/// device turns them into addresses when the copy begins, and orders the copy against their other uses.
struct PlacedCopy {
  Way way = Way::to_device;
  DevicePlace device;
  std::int64_t device_at = 0;       ///< bytes from the start of the place
  const std::byte* image = nullptr; ///< weights: their address on the host, which is never written
  std::int32_t layer = -1;          ///< to the device: the layer that waits for the copy
  std::int32_t host_block = -1;     ///< KV: the first of the host's blocks, as many neighbours as in `device`
  std::int64_t host_at = 0;         ///< bytes from the start of that block, or of the layer's image
  std::int64_t bytes = 0;           ///< of one row
  std::int64_t rows = 1;
  std::int64_t stride = 0; ///< without meaning if there is one row
  std::uint64_t tag = 0;   ///< numbers a machine's copies; a FaultPlan draws by it
  CopySince since = CopySince::min();

  [[nodiscard]] std::int64_t total() const { return bytes * rows; }
};

/// How fast the link is. A rate of 0 or infinity means the rate of `move_bytes`, or of the device's own link.
struct LinkRates {
  double to_device_bytes_per_s = 0;
  double to_host_bytes_per_s = 0;
  bool each_way = false; ///< one lane each way; otherwise one lane serves both ways
  double per_copy_s = 0; ///< before each copy, on the link
};

/// What a link has moved since it was made.
struct CopyTotals {
  struct OneWay {
    Bytes bytes{0};          ///< of completed copies
    Seconds busy{0};         ///< from the begin to the end of its copies
    std::int64_t copies = 0; ///< completed
    std::int64_t retries = 0;
    std::int64_t failed = 0; ///< after the second try
  };
  OneWay to_device, to_host;
};

// FaultPlan: which copies fail, start late or run slowly; none by default.

/// What happens to one try of one copy.
struct Fault {
  bool fails = false;
  double moved = 1;    ///< fraction of the bytes that the try writes; below 1 only if it fails
  Seconds delay{0};    ///< before the first byte; the lane is busy meanwhile
  double slowdown = 1; ///< factor on the link time
};

/// Faults as a pure function of the plan, the copy's tag and the number of the try: the same on every run, however
/// threads are scheduled. Copies with one tag share their faults, so a source that wants independent faults numbers its
/// copies.
struct FaultPlan {
  std::uint64_t seed = 0;
  double failing = 0; ///< probability that a try fails
  bool to_device_fails = false, to_host_fails = false;
  std::vector<std::uint64_t> tags_failing{};      ///< every try
  std::vector<std::uint64_t> tags_failing_once{}; ///< the first try
  Seconds most_delay{0};                          ///< uniform from 0
  double least_slowdown = 1, most_slowdown = 1;   ///< uniform between them
  bool reorders =
      false; ///< the next block is drawn at random among all that may start, instead of chosen by the transfer rule

  /// Whether any copy can be affected. (The source decides the order of copies.)
  [[nodiscard]] bool any() const {
    return failing > 0 || to_device_fails || to_host_fails || !tags_failing.empty() || !tags_failing_once.empty() ||
           most_delay.count() > 0 || least_slowdown != 1 || most_slowdown != 1;
  }

  /// `attempt`: 0 for the first try.
  [[nodiscard]] Fault of(Way way, std::uint64_t tag, int attempt) const {
    Random random{seed ^ (tag * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(attempt) * 0xd1342543de82ef95u)};
    const auto named = [tag](const std::vector<std::uint64_t>& tags) {
      return std::find(tags.begin(), tags.end(), tag) != tags.end();
    };
    Fault fault;
    fault.fails = random.uniform() < failing; // every number is drawn, so that one setting does not shift the others
    const double moved = random.uniform();
    fault.delay = most_delay * random.uniform();
    fault.slowdown = least_slowdown + (most_slowdown - least_slowdown) * random.uniform();
    fault.fails = fault.fails || (way == Way::to_device ? to_device_fails : to_host_fails) || named(tags_failing) ||
                  (attempt == 0 && named(tags_failing_once));
    if (fault.fails) fault.moved = moved;
    return fault;
  }
};

} // namespace sluice
