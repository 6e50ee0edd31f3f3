// SPDX-License-Identifier: Apache-2.0
// SessionQueue: requests of a closed loop that wait for the previous answer of their session.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
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
  void started(const RequestSpec& spec);
  /// Stores a request that follows the one read before it.
  void hold(KeyedRequest request);
  /// Records that the source has been read to its end: no session gets more requests.
  void read_all();
  void answered(const Answered& answer);
  /// Returns when the next stored request arrives; no value while all wait for answers.
  [[nodiscard]] std::optional<Seconds> next() const;
  /// Removes and returns that request.
  KeyedRequest take();
  /// Returns the number of stored requests.
  [[nodiscard]] std::size_t held() const { return held_; }

 private:
  struct Session {
    std::deque<KeyedRequest> waiting;  ///< in order of the session's turns
    std::optional<Seconds> answered{}; ///< end of the last answer, if no request waits for it
  };
  static bool later(const KeyedRequest& a, const KeyedRequest& b);
  void arrive(Session& of, Seconds answered);
  void forget_if_over(std::uint32_t session);

  std::unordered_map<std::uint32_t, Session> sessions_;
  std::vector<KeyedRequest> due_; ///< a heap
  std::size_t held_ = 0;
  std::uint32_t read_ = 0; ///< the session whose requests are being read
  std::uint32_t last_ = 0; ///< the session that started last
};

// OpenSessions: turns a closed loop of sessions into fixed arrivals.

/// The requests of sessions at their recorded arrivals, merged with all others in order of arrival. No request waits
/// for another any more, so a system that answers late gets the next turn early, as in other replayed traces.
///
/// Stores the requests of the sessions that have started and not ended.
class OpenSessions {
 public:
  /// Returns the next request of `source`.
  template <class Source>
  Expected<std::optional<RequestSpec>> next(Source& source) {
    // The top request is returned when no later request of the source can arrive before it.
    while (!ended_ && (waiting_.empty() || started_ <= waiting_.front().spec.arrival)) {
      const Expected<std::optional<RequestSpec>> request = source.next();
      if (!request) return request.error();
      if (!*request) {
        ended_ = true;
        break;
      }
      const std::span<const ContentPiece> content = content_of(source);
      if (!(*request)->follows) started_ = (*request)->arrival;
      waiting_.push_back({**request, {content.begin(), content.end()}, read_++});
      waiting_.back().spec.follows = false;
      std::push_heap(waiting_.begin(), waiting_.end(), later);
    }
    if (waiting_.empty()) return std::optional<RequestSpec>{};
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    last_ = std::move(waiting_.back());
    waiting_.pop_back();
    return std::optional{last_.spec};
  }
  [[nodiscard]] std::span<const ContentPiece> content() const { return last_.content; }

 private:
  struct Waiting {
    RequestSpec spec;
    std::vector<ContentPiece> content;
    std::int64_t number = 0;
  };
  static bool later(const Waiting& a, const Waiting& b) {
    return a.spec.arrival != b.spec.arrival ? a.spec.arrival > b.spec.arrival : a.number > b.number;
  }

  std::vector<Waiting> waiting_; ///< a heap
  Waiting last_;
  Seconds started_{0}; ///< arrival of the last request that follows no other
  std::int64_t read_ = 0;
  bool ended_ = false;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/session_queue.inl.hpp"
#endif
