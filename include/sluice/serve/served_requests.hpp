// SPDX-License-Identifier: Apache-2.0
// ServedRequests: the requests that ended in the last ten minutes.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/served_request.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace sluice {

/// Written by the engine's thread; any thread may read a copy. The oldest requests are dropped when they are older than
/// the window, or when there are more than `most`: 8,192 take 1.4 MB.
class ServedRequests final : public ServedListener {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds window{600};
  static constexpr std::size_t most = 8192;

  struct Copy {
    std::vector<ServedRequest> requests; ///< in order of arrival
    std::int64_t total = 0;              ///< requests that have ended since the start
    bool crowded = false;                ///< more than `most` ended within the window
  };

  void over(const ServedRequest& request) override { over(request, Clock::now()); }
  /// `at` must never decrease.
  void over(const ServedRequest& request, Clock::time_point at);

  [[nodiscard]] Copy copy(Clock::time_point now = Clock::now());
  [[nodiscard]] std::int64_t total() const;

 private:
  struct Ended {
    ServedRequest request;
    Clock::time_point at;
  };
  void forget(Clock::time_point now);

  mutable std::mutex mutex_;
  std::deque<Ended> all_; ///< in the order in which they ended
  Clock::time_point crowded_until_ = Clock::time_point::min();
  std::int64_t total_ = 0;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/served_requests.inl.hpp"
#endif
