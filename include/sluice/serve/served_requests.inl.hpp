// SPDX-License-Identifier: Apache-2.0
// ServedRequests: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/served_requests.hpp"

#include <algorithm>

namespace sluice {

SLUICE_SERVER_INLINE void ServedRequests::over(const ServedRequest& request, Clock::time_point at) {
  const std::lock_guard lock{mutex_};
  if (all_.size() == most) {
    crowded_until_ = all_.front().at + window;
    all_.pop_front();
  }
  all_.push_back({request, at});
  ++total_;
  forget(at);
}

SLUICE_SERVER_INLINE ServedRequests::Copy ServedRequests::copy(Clock::time_point now) {
  Copy copy;
  {
    const std::lock_guard lock{mutex_};
    forget(now);
    copy.requests.reserve(all_.size());
    for (const Ended& one : all_) copy.requests.push_back(one.request);
    copy.total = total_;
    copy.crowded = crowded_until_ >= now;
  }
  std::sort(copy.requests.begin(), copy.requests.end(),
            [](const ServedRequest& a, const ServedRequest& b) { return index(a.id) < index(b.id); });
  return copy;
}

SLUICE_SERVER_INLINE std::int64_t ServedRequests::total() const {
  const std::lock_guard lock{mutex_};
  return total_;
}

SLUICE_SERVER_INLINE void ServedRequests::forget(Clock::time_point now) {
  while (!all_.empty() && now - all_.front().at > window) all_.pop_front();
}

} // namespace sluice
