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
#include <utility>

namespace sluice {

/// A record is a block, so records of one machine have one size, and the time of a read has the disk's latency and rate
/// in it, and the checksum. It is the mean of the first 16 reads; from then on each read counts a sixteenth. Rejected:
/// a latency and a rate of their own, which reads of one size cannot tell apart; and a rate that the user states, since
/// the same disk reads what the system still has in memory many times faster.
///
/// Requests measure the disk as long as they read. If they decline for `old_after`, the caller reads a few records for
/// which nobody waits, and the mean begins anew with these: a disk that was slow once (it was asleep) would otherwise
/// stay slow for as many measurements as its slow reads count.
class DiskForecast {
 public:
  static constexpr Seconds old_after{10};

  /// A read that ended at `now` has taken so long.
  void took(Seconds read, Seconds now) {
    last_ = now;
    if (std::exchange(anew_, false)) reads_ = 0;
    reads_ = std::min<std::int64_t>(16, reads_ + 1);
    each_ += Seconds{(read - each_).count() / static_cast<double>(reads_)};
  }
  /// So has one that failed. A quick failure says nothing about the reads to come; a slow one, for which requests have
  /// waited, does.
  void failed(Seconds read, Seconds now) {
    last_ = now;
    if (read > each_) took(read, now);
  }
  /// Whether something has been read, but nothing lately.
  [[nodiscard]] bool is_old(Seconds now) const { return reads_ > 0 && now - last_ >= old_after; }
  /// The disk is being measured again from `now` on: the next read counts as the first.
  void measure_anew(Seconds now) {
    last_ = now;
    anew_ = true;
  }
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
  Seconds last_{0};        ///< when a read ended, or a new measurement began
  std::int64_t reads_ = 0; ///< at most 16
  bool anew_ = false;      ///< the next read counts as the first
};

} // namespace sluice
