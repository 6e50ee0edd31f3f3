// SPDX-License-Identifier: Apache-2.0
// Pacer: holds events that an engine sent early, so that a token leaves when it is due.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
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
  explicit Pacer(HttpTransport& transport, std::function<double()> clock = steady);

  void tell(GenerationListener& to) { to_ = &to; }

  void happened(std::vector<GenerationEvent> events) override;
  void stopped(const std::string& why) override;

 private:
  /// One generation's queued events.
  struct Queued {
    double last_due = 0;
    std::int64_t events = 0;
  };

  static double steady();

  // ---- on the application's thread

  void queue(std::vector<GenerationEvent> events);
  /// Passes on due events in order, and sets a timer for the next.
  void hand_on();

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

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/pacer.inl.hpp"
#endif
