// SPDX-License-Identifier: Apache-2.0
// OpenSessions: turns a closed loop of sessions into fixed arrivals.
#pragma once

#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

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
