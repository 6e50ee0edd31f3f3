// SPDX-License-Identifier: Apache-2.0
// GenerationFeed: the observer through which an engine thread hears what its engine does.
#pragma once

#include "sluice/observer/observer.hpp"

#include <string_view>

namespace sluice {

/// What an engine thread wants to hear. An abstract class, so that it is compiled once for all engine types.
class FeedListener {
 public:
  FeedListener() = default;
  FeedListener(const FeedListener&) = delete;
  FeedListener& operator=(const FeedListener&) = delete;
  virtual ~FeedListener() = default;

  /// `count` tokens of the request are released; `row.delivered` counts them already.
  virtual void released(const RequestRow& row, Tokens count, Seconds when) = 0;
  virtual void ended(const RequestRow& row, Seconds now) = 0;
  virtual void refused(RequestId id, std::string_view reason) = 0;
  virtual void cancelled(const RequestRow& row, Seconds now) = 0;
  virtual void preempted(const RequestRow& row, Kept kept, Seconds now) = 0;
  virtual void resumed(const RequestRow& row, Seconds now) = 0;
  virtual void planned(const View& view, const Plan& plan, Seconds wall_time) = 0;
  virtual void iterated(const IterationRecord& record) = 0;
};

/// Passes on what happens. Null: nobody is told.
struct GenerationFeed {
  using role = roles::Observer;
  static constexpr bool wants_timeline = false;
  struct State {};

  FeedListener* listener = nullptr;

  void submitted(State&, const RequestRow&) const {}
  void refused(State&, RequestId id, const RequestSpec&, Seconds, std::string_view reason) const {
    if (listener != nullptr) listener->refused(id, reason);
  }
  void preempted(State&, const RequestRow& row, Kept kept, Seconds now) const {
    if (listener != nullptr) listener->preempted(row, kept, now);
  }
  void resumed(State&, const RequestRow& row, Seconds now) const {
    if (listener != nullptr) listener->resumed(row, now);
  }
  void ended(State&, const RequestRow& row, Seconds now) const {
    if (listener != nullptr) listener->ended(row, now);
  }
  void cancelled(State&, const RequestRow& row, Seconds now) const {
    if (listener != nullptr) listener->cancelled(row, now);
  }
  void delivered(State&, const RequestRow& row, Tokens count, Seconds when) const {
    if (listener != nullptr) listener->released(row, count, when);
  }
  void planned(State&, const View& view, const Plan& plan, Seconds, Seconds wall_time) const {
    if (listener != nullptr) listener->planned(view, plan, wall_time);
  }
  template <class Replay>
  void iterated(State&, const IterationRecord& record, const Replay&) const {
    if (listener != nullptr) listener->iterated(record);
  }
};

} // namespace sluice
