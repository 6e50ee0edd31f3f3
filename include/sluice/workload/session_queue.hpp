// SPDX-License-Identifier: Apache-2.0
// SessionQueue: requests of a closed loop that wait for the previous answer of their session.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/workload/keyed_request.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Determines when the requests of sessions arrive. A request that follows another arrives `delay` after that one's
/// answer. A refused request counts as answered when it is refused, so that no request of the workload is lost.
///
/// Memory grows with the number of running sessions, not with the workload.
class SessionQueue {
 public:
  /// Records a submitted request that follows none. Call it before the requests that follow it are stored.
  void started(const RequestSpec& spec) {
    if (spec.session == 0) return;
    read_ = spec.session;
    forget_if_over(last_);
    last_ = read_;
    sessions_[spec.session];
  }
  /// Stores a request that follows the one read before it.
  void hold(KeyedRequest request) {
    const std::uint32_t session = request.spec.session;
    SLUICE_ASSERT(request.spec.follows && session != 0, "a request that follows another one of its session");
    Session& of = sessions_[session];
    read_ = session;
    of.waiting.push_back(std::move(request));
    ++held_;
    if (of.answered && of.waiting.size() == 1) arrive(of, *of.answered);
  }
  /// Records that the source has been read to its end: no session gets more requests.
  void read_all() {
    read_ = 0;
    forget_if_over(last_);
  }
  void answered(const Answered& answer) {
    const auto of = sessions_.find(answer.session);
    if (of == sessions_.end()) return;
    if (of->second.waiting.empty())
      of->second.answered = answer.when;
    else
      arrive(of->second, answer.when);
    forget_if_over(answer.session);
  }
  /// Returns when the next stored request arrives; no value while all wait for answers.
  [[nodiscard]] std::optional<Seconds> next() const {
    if (due_.empty()) return std::nullopt;
    return due_.front().spec.arrival;
  }
  /// Removes and returns that request.
  KeyedRequest take() {
    std::pop_heap(due_.begin(), due_.end(), later);
    KeyedRequest request = std::move(due_.back());
    due_.pop_back();
    --held_;
    return request;
  }
  /// Returns the number of stored requests.
  [[nodiscard]] std::size_t held() const { return held_; }

 private:
  struct Session {
    std::deque<KeyedRequest> waiting;  ///< in order of the session's turns
    std::optional<Seconds> answered{}; ///< end of the last answer, if no request waits for it
  };
  static bool later(const KeyedRequest& a, const KeyedRequest& b) {
    return a.spec.arrival != b.spec.arrival ? a.spec.arrival > b.spec.arrival : a.spec.session > b.spec.session;
  }
  void arrive(Session& of, Seconds answered) {
    of.answered.reset();
    of.waiting.front().spec.arrival = answered + of.waiting.front().spec.delay;
    due_.push_back(std::move(of.waiting.front()));
    of.waiting.pop_front();
    std::push_heap(due_.begin(), due_.end(), later);
  }
  void forget_if_over(std::uint32_t session) {
    if (session == read_) return; // more of its requests may follow
    const auto of = sessions_.find(session);
    if (of != sessions_.end() && of->second.answered && of->second.waiting.empty()) sessions_.erase(of);
  }

  std::unordered_map<std::uint32_t, Session> sessions_;
  std::vector<KeyedRequest> due_; ///< a heap
  std::size_t held_ = 0;
  std::uint32_t read_ = 0; ///< the session whose requests are being read
  std::uint32_t last_ = 0; ///< the session that started last
};

} // namespace sluice
