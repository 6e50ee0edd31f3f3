// SPDX-License-Identifier: Apache-2.0
// DiskForecast: how long a disk will take for records, by its latest reads and by what it has to read before.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/records/record.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

namespace sluice {

/// A record is a block, so records of one machine have one size, and the time of a read has the disk's latency and rate
/// in it, and the checksum. It is the mean of the first 16 reads; from then on each read counts a sixteenth. Rejected:
/// a latency and a rate of their own, which reads of one size cannot tell apart; and a rate that the user states, since
/// the same disk reads what the system still has in memory many times faster.
class DiskForecast {
 public:
  /// A read has taken so long.
  void took(Seconds read) {
    reads_ = std::min<std::int64_t>(16, reads_ + 1);
    each_ += Seconds{(read - each_).count() / static_cast<double>(reads_)};
  }
  [[nodiscard]] bool knows_pace() const { return reads_ > 0; }
  /// Somebody waits for these records, each of which is `done` later.
  void wait_for(std::span<const RecordKey> keys) {
    for (const RecordKey& key : keys) ++unread_[key];
  }
  void done(const RecordKey& key) {
    if (const auto found = unread_.find(key); --found->second == 0) unread_.erase(found);
  }
  /// How long it takes until these records have been read, after all that somebody waits for. What several wait for is
  /// read once. 0 as long as nothing has been read.
  [[nodiscard]] Seconds time_of(std::span<const RecordKey> keys) const {
    const auto more =
        std::count_if(keys.begin(), keys.end(), [&](const RecordKey& key) { return !unread_.contains(key); });
    return Seconds{(static_cast<double>(unread_.size()) + static_cast<double>(more)) * each_.count()};
  }

 private:
  struct HashKey {
    std::size_t operator()(const RecordKey& key) const { return static_cast<std::size_t>(key.low); }
  };

  std::unordered_map<RecordKey, int, HashKey> unread_; ///< by how many wait for them
  Seconds each_{0};
  std::int64_t reads_ = 0; ///< at most 16
};

} // namespace sluice
