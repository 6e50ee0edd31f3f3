// SPDX-License-Identifier: Apache-2.0
// Pacer: holds events that an engine sent early, so that a token leaves when it is due.
#pragma once

#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Sits between an engine and the application. Delays events with `hold_s` above 0 by that time, with a timer of the
/// transport. Events of one generation keep their order, however late the transport's thread is. Without held events,
/// everything is passed on at once.
///
/// Rejected: holding a token for a shorter time because delivery is slow. The engine's Delivery policy, which paces,
/// must know the delay; otherwise its forecasts are wrong. Therefore `Generation::lead` tightens the SLO that the
/// engine gets.
///
/// The application submits to the engine and is therefore constructed after it: `tell` sets it before the first
/// submission.
///
/// One queue on the application's thread keeps the order: while it contains events, all events go through it. Rejected:
/// comparing due times on the engine's thread. An event whose time has passed may still be in the transport's queue,
/// and a later one would overtake it.
class Pacer final : public GenerationListener {
 public:
  /// `clock`: seconds at the pace of the transport's timers, callable from any thread. It is the application's clock,
  /// which measures delivery from the time when an event was due. `transport` must run posted work in the order in
  /// which a thread posts it.
  explicit Pacer(HttpTransport& transport, std::function<double()> clock = steady)
      : transport_(&transport), clock_(std::move(clock)) {}

  void tell(GenerationListener& to) { to_ = &to; }

  void happened(std::vector<GenerationEvent> events) override {
    if (to_ == nullptr || events.empty()) return;
    const double told = clock_();
    for (GenerationEvent& event : events) event.due_s = told + event.hold_s;
    const bool held = std::any_of(events.begin(), events.end(), [](const auto& event) { return event.hold_s > 0; });
    if (!held && on_their_way_.load(std::memory_order_acquire) == 0) return to_->happened(std::move(events));
    on_their_way_.fetch_add(static_cast<std::int64_t>(events.size()), std::memory_order_relaxed);
    transport_->post([this, events = std::move(events)]() mutable { queue(std::move(events)); });
  }
  void stopped(const std::string& why) override {
    if (to_ != nullptr) to_->stopped(why);
  }

 private:
  /// One generation's queued events.
  struct Queued {
    double last_due = 0;
    std::int64_t events = 0;
  };

  static double steady() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // ---- on the application's thread

  void queue(std::vector<GenerationEvent> events) {
    for (GenerationEvent& event : events) {
      Queued& of = of_[event.id];
      of.last_due = of.events > 0 ? std::max(of.last_due, event.due_s) : event.due_s;
      ++of.events;
      held_.emplace(of.last_due, std::move(event)); // after all others that are due at the same time
    }
    hand_on();
  }
  /// Passes on due events in order, and sets a timer for the next.
  void hand_on() {
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

  static constexpr double never = std::numeric_limits<double>::infinity();

  HttpTransport* transport_;
  std::function<double()> clock_;
  GenerationListener* to_ = nullptr;
  std::atomic<std::int64_t> on_their_way_{0};   ///< events that were posted to the queue and have not arrived yet
  std::multimap<double, GenerationEvent> held_; ///< by the time when they are due
  std::unordered_map<GenerationId, Queued> of_; ///< for the generations in `held_`
  double armed_ = never;                        ///< the time of the earliest timer
};

} // namespace sluice
