// SPDX-License-Identifier: Apache-2.0
// PromiseReading: how promises are kept in a copy of an engine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/serve/generation_feed.hpp"
#include "sluice/serve/kept_promises.hpp"
#include "sluice/serve/measured_pace.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Follows some of the requests of a copy.
class PromiseReading final : public FeedListener {
 public:
  struct Followed {
    KeptPromises promises;
    Seconds longest{0}; ///< gap between two tokens since the copy was made
    bool over = false;  ///< it has ended, or was refused

    /// Nothing is owed once it is over.
    [[nodiscard]] bool broken(Seconds now) const {
      return promises.verdict(over ? promises.last : now) == KeptPromises::Verdict::missed;
    }
  };

  PromiseReading() = default;
  /// Goes on from where another is.
  void take_over(const PromiseReading& other) {
    of_ = other.of_;
    broken_ = other.broken_;
    left_ = other.left_;
  }

  void follow(RequestId id, const KeptPromises& promises) {
    left_ += of_.try_emplace(index(id), Followed{promises, Seconds{0}, false}).second ? 1 : 0;
  }
  [[nodiscard]] const Followed& of(RequestId id) const {
    const auto found = of_.find(index(id));
    SLUICE_ASSERT(found != of_.end(), "a request that is followed");
    return found->second;
  }
  /// Of those that are followed, how many have not ended.
  [[nodiscard]] std::int64_t left() const { return left_; }
  /// Whose promises have been broken since, in that order.
  [[nodiscard]] const std::vector<RequestId>& broken() const { return broken_; }
  [[nodiscard]] bool breaks(RequestId id) const {
    return std::find(broken_.begin(), broken_.end(), id) != broken_.end();
  }
  /// The first iteration that was told.
  [[nodiscard]] const std::optional<ForeseenStep>& first_step() const { return first_; }
  /// Finds those whose time has passed without a token.
  void look_at(Seconds now) {
    for (auto& [at, one] : of_)
      if (!one.over && one.broken(now)) breaks_now(RequestId{at});
  }

  void released(const RequestRow& row, Tokens count, Seconds when) override {
    const auto found = of_.find(index(row.id));
    if (found == of_.end() || count.count() < 1) return;
    Followed& one = found->second;
    if (one.promises.started()) one.longest = std::max(one.longest, when - one.promises.last);
    (void)one.promises.release(count.count(), when);
    if (one.broken(when)) breaks_now(row.id);
  }
  void ended(const RequestRow& row, Seconds /*now*/) override { over(row.id); }
  void refused(RequestId id, std::string_view /*reason*/) override {
    if (over(id)) breaks_now(id);
  }
  void cancelled(const RequestRow& row, Seconds /*now*/) override { over(row.id); }
  void preempted(const RequestRow&, Kept, Seconds) override {}
  void resumed(const RequestRow&, Seconds) override {}
  void planned(const View&, const Plan&, Seconds) override {}
  void iterated(const IterationRecord& record) override {
    if (!first_) first_ = ForeseenStep{record.step, record.tokens.count(), record.running, record.duration};
  }

 private:
  bool over(RequestId id) {
    const auto found = of_.find(index(id));
    if (found == of_.end() || found->second.over) return false;
    found->second.over = true;
    --left_;
    return true;
  }
  void breaks_now(RequestId id) {
    if (!breaks(id)) broken_.push_back(id);
  }

  std::unordered_map<std::uint32_t, Followed> of_;
  std::vector<RequestId> broken_;
  std::int64_t left_ = 0;
  std::optional<ForeseenStep> first_;
};

} // namespace sluice
