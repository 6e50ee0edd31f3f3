// SPDX-License-Identifier: Apache-2.0
// FeedRelay: a feed whose listener changes.
#pragma once

#include "sluice/serve/generation_feed.hpp"

#include <string_view>

namespace sluice {

/// Copies of an engine are made often, and observers for each would be set up as often: all copies tell one relay,
/// which passes on to whoever steps a copy.
class FeedRelay final : public FeedListener {
 public:
  /// Null: nobody is told.
  void hear(FeedListener* listener) { to_ = listener; }

  void released(const RequestRow& row, Tokens count, Seconds when) override {
    if (to_ != nullptr) to_->released(row, count, when);
  }
  void ended(const RequestRow& row, Seconds now) override {
    if (to_ != nullptr) to_->ended(row, now);
  }
  void refused(RequestId id, std::string_view reason) override {
    if (to_ != nullptr) to_->refused(id, reason);
  }
  void cancelled(const RequestRow& row, Seconds now) override {
    if (to_ != nullptr) to_->cancelled(row, now);
  }
  void preempted(const RequestRow& row, Kept kept, Seconds now) override {
    if (to_ != nullptr) to_->preempted(row, kept, now);
  }
  void resumed(const RequestRow& row, Seconds now) override {
    if (to_ != nullptr) to_->resumed(row, now);
  }
  void planned(const View& view, const Plan& plan, Seconds wall_time) override {
    if (to_ != nullptr) to_->planned(view, plan, wall_time);
  }
  void iterated(const IterationRecord& record) override {
    if (to_ != nullptr) to_->iterated(record);
  }

 private:
  FeedListener* to_ = nullptr;
};

} // namespace sluice
