// SPDX-License-Identifier: Apache-2.0
// Pacer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/pacer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE Pacer::Pacer(HttpTransport& transport, std::function<double()> clock)
    : transport_(&transport), clock_(std::move(clock)) {}

SLUICE_SERVER_INLINE void Pacer::happened(std::vector<GenerationEvent> events) {
  if (to_ == nullptr || events.empty()) return;
  const double told = clock_();
  for (GenerationEvent& event : events) event.due_s = told + event.hold_s;
  const bool held = std::any_of(events.begin(), events.end(), [](const auto& event) { return event.hold_s > 0; });
  if (!held && on_their_way_.load(std::memory_order_acquire) == 0) return to_->happened(std::move(events));
  on_their_way_.fetch_add(static_cast<std::int64_t>(events.size()), std::memory_order_relaxed);
  transport_->post([this, events = std::move(events)]() mutable { queue(std::move(events)); });
}

SLUICE_SERVER_INLINE void Pacer::stopped(const std::string& why) {
  if (to_ != nullptr) to_->stopped(why);
}

SLUICE_SERVER_INLINE double Pacer::steady() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

SLUICE_SERVER_INLINE void Pacer::queue(std::vector<GenerationEvent> events) {
  for (GenerationEvent& event : events) {
    Queued& of = of_[event.id];
    of.last_due = of.events > 0 ? std::max(of.last_due, event.due_s) : event.due_s;
    ++of.events;
    held_.emplace(of.last_due, std::move(event)); // after all others that are due at the same time
  }
  hand_on();
}

SLUICE_SERVER_INLINE void Pacer::hand_on() {
  const double now = clock_();
  std::vector<GenerationEvent> due;
  while (!held_.empty() && held_.begin()->first <= now) {
    due.push_back(std::move(held_.begin()->second));
    held_.erase(held_.begin());
    const auto of = of_.find(due.back().id);
    if (--of->second.events == 0) of_.erase(of);
  }
  const auto count = static_cast<std::int64_t>(due.size());
  if (count > 0) {
    to_->happened(std::move(due));
    // The application posts events to itself: the engine's thread may bypass the queue only after they have arrived.
    transport_->post([this, count] { on_their_way_.fetch_sub(count, std::memory_order_release); });
  }
  if (held_.empty() || held_.begin()->first >= armed_) return;
  armed_ = held_.begin()->first;
  transport_->after(std::max(0.0, armed_ - now), [this, at = armed_] {
    if (armed_ == at)
      armed_ = never; // otherwise a timer for an earlier time was set after this one, and it sets the
                      // next one
    hand_on();
  });
}

} // namespace sluice
