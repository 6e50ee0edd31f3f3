// SPDX-License-Identifier: Apache-2.0
// PoolFront: what a fleet keeps of its requests, and what the router of a pool sees and remembers.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/fleet/pool.hpp"
#include "sluice/fleet/report.hpp"
#include "sluice/fleet/router.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::detail {

/// A request before the router has chosen.
struct FleetArrival {
  std::uint64_t number = 0;
  Seconds when{0}; ///< when it is routed, unless the window begins later
  SentRequest request;
};

/// What a fleet must know of a live request if engines hand it over or may die.
struct TrackedRequest {
  RequestSpec spec; ///< the workload's
  std::vector<BlockKey> keys;
  Seconds first{0};
  Tokens had{0};              ///< tokens of its answer before its present engine
  Tokens found{0}, loaded{0}; ///< by the first engine that computed it
  Tokens arrived{0};          ///< whose KV came over the network
  std::uint32_t first_engine = 0;
  std::int32_t times_preempted = 0, times_interrupted = 0;
  bool routed = false, joined = false;

  /// Adds what an engine did for the request: an EngineEnd, or a ReturnedRequest.
  template <class Part>
  void add(const Part& part) {
    if (had.count() == 0) first = part.first;
    had += part.generated;
    times_preempted += part.times_preempted;
    if (joined || !part.ran()) return;
    joined = true;
    found = part.found;
    loaded = part.loaded;
  }
};

/// A request whose prompt was computed in the first pool.
struct HandedRequest {
  Seconds when{0};  ///< its prompt was computed
  Seconds ready{0}; ///< its KV arrives
  std::uint64_t number = 0;
  std::uint32_t sender = 0; ///< the engine in the first pool
  Tokens tokens{0};         ///< with KV that is sent
};

template <Router R>
struct PoolFront {
  R router;
  typename R::State state{};
  std::size_t engines = 0;
  std::vector<EngineNews> news{};
  std::vector<EngineReport> reports{};
  std::vector<SentSince> sent{};
  std::vector<std::uint32_t> open{};
  std::vector<char> takes{};    ///< by engine: it is in `open`
  std::vector<Seconds> opens{}; ///< by engine: when it first takes requests; `never_due` if nobody has started it
  std::vector<Seconds> dies{};  ///< by engine; `never_due` if it lives
  std::vector<Seconds> link{};  ///< by engine: when its network link is free
  std::vector<char> buried{};   ///< by engine: its requests have returned
  std::vector<FleetArrival> arrivals{};
  std::int64_t edition = 0;
  std::uint64_t routed = 0;

  void resize(std::size_t count) {
    engines = count;
    sent.resize(count);
    takes.assign(count, 0);
    opens.assign(count, Seconds{0});
    dies.assign(count, never_due);
    link.assign(count, Seconds{0});
    buried.assign(count, 0);
  }
  /// A window begins: which engines take requests, and what they report.
  void begin(Seconds now) {
    ++edition;
    open.clear();
    for (std::size_t i = 0; i < engines; ++i) {
      takes[i] = !news[i].dead && opens[i] <= now ? 1 : 0;
      if (takes[i] != 0) open.push_back(static_cast<std::uint32_t>(i));
      sent[i] = news[i].queued;
    }
    if constexpr (R::reads.reports()) {
      reports.resize(engines);
      for (std::size_t i = 0; i < engines; ++i) {
        reports[i] = news[i].report;
        // An engine without work says so when it is asked. One that computes said what it says before its iteration.
        if (news[i].idle) reports[i].when = std::max(reports[i].when, now);
      }
    }
  }
  /// The engine that a scaler starts next; `engines` if all that live are started.
  [[nodiscard]] std::size_t startable() const {
    std::size_t i = 0;
    while (i < engines && (opens[i] != never_due || news[i].dead)) ++i;
    return i;
  }
  /// When the next engine opens that lives and was started; `never_due` if none does.
  [[nodiscard]] Seconds next_opening() const {
    Seconds next = never_due;
    for (std::size_t i = 0; i < engines; ++i)
      if (!news[i].dead && takes[i] == 0) next = std::min(next, opens[i]);
    return next;
  }
  /// When the next engine dies.
  [[nodiscard]] Seconds next_death() const {
    Seconds next = never_due;
    for (std::size_t i = 0; i < engines; ++i)
      if (!news[i].dead) next = std::min(next, dies[i]);
    return next;
  }
};

} // namespace sluice::detail
