// SPDX-License-Identifier: Apache-2.0
// SessionQueue: requests of a closed loop that wait for the previous answer of their session.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/keyed_request.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
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

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/session_queue.inl.hpp"
#endif
