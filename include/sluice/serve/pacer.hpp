// SPDX-License-Identifier: Apache-2.0
// Pacer: holds what an engine told before its time, so that a token leaves when it is due.
#pragma once

#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Stands between an engine and the application: an event with `hold_s` above 0 goes on so much later, on a timer of
/// the transport; the others go on at once. Of one generation nothing overtakes: what follows a held token waits
/// behind it.
///
/// A listener that comes after the engine was made is set with `tell`, before the first submission: the application
/// submits to the engine, and the engine tells the application.
class Pacer final : public GenerationListener {
 public:
  /// `clock`: seconds, on the clock of the transport's timers.
  explicit Pacer(HttpTransport& transport, std::function<double()> clock = steady)
      : transport_(&transport), clock_(std::move(clock)) {}

  void tell(GenerationListener& to) { to_ = &to; }

  void happened(std::vector<GenerationEvent> events) override {
    if (to_ == nullptr) return;
    const double now = clock_();
    std::vector<Held> held;
    std::size_t kept = 0;
    for (GenerationEvent& event : events) {
      const double due = due_of(event, now);
      if (due > now) {
        held.push_back({due, std::move(event)});
      } else {
        if (&events[kept] != &event) events[kept] = std::move(event);
        ++kept;
      }
    }
    events.resize(kept);
    if (!events.empty()) to_->happened(std::move(events));
    forget_passed(now);
    if (held.empty()) return;
    std::stable_sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.due < b.due; });
    transport_->post([this, held = std::move(held)]() mutable { set_timers(std::move(held)); });
  }

 private:
  /// Two events of one generation are at least so far apart, that no timer overtakes; those of different generations
  /// that are closer share a timer.
  static constexpr double apart_s = 0.0005;

  struct Held {
    double due = 0;
    GenerationEvent event;
  };

  static double steady() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  [[nodiscard]] double due_of(const GenerationEvent& event, double now) {
    double due = now + event.hold_s;
    const auto before = last_due_.find(event.id);
    if (before != last_due_.end() && before->second > now) due = std::max(due, before->second + apart_s);
    if (due > now) last_due_.insert_or_assign(event.id, due);
    return due;
  }
  /// A generation that was cancelled tells nothing of its end: what has passed is forgotten from time to time.
  void forget_passed(double now) {
    if (last_due_.size() < sweep_at_) return;
    std::erase_if(last_due_, [now](const auto& of) { return of.second <= now; });
    sweep_at_ = std::max<std::size_t>(64, 2 * last_due_.size());
  }
  /// On the application's thread.
  void set_timers(std::vector<Held> held) {
    const double now = clock_();
    for (std::size_t begin = 0; begin < held.size();) {
      std::vector<GenerationEvent> together;
      const double due = held[begin].due;
      for (; begin < held.size() && held[begin].due < due + apart_s / 2; ++begin)
        together.push_back(std::move(held[begin].event));
      transport_->after(std::max(0.0, due - now), [this, together = std::move(together)] { to_->happened(together); });
    }
  }

  HttpTransport* transport_;
  std::function<double()> clock_;
  GenerationListener* to_ = nullptr;
  std::unordered_map<GenerationId, double> last_due_; ///< of held events, on the engine's thread
  std::size_t sweep_at_ = 64;
};

} // namespace sluice
