// SPDX-License-Identifier: Apache-2.0
// FleetEnd, FleetChoice, FleetWindow: the events that a fleet sends to its listener.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/fleet/report.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/workload/request.hpp"

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sluice {

/// A request has ended. Times are on the run's clock.
struct FleetEnd {
  std::uint64_t number = 0;       ///< counts the workload's requests in the order in which they were first routed
  std::uint32_t engine = 0;       ///< that ended it; engines of the second pool are numbered after those of the first
  std::uint32_t first_engine = 0; ///< that it was sent to first
  Outcome outcome = Outcome::unfinished;
  std::int32_t times_preempted = 0;
  std::int32_t times_interrupted = 0; ///< by an engine's death
  RequestSpec spec;                   ///< as the workload has it
  Seconds first{0};                   ///< first token; undefined without one
  Seconds last{0};                    ///< last token, or the refusal
  Tokens generated{0};                ///< tokens of the answer that its user has
  Tokens found{0};                    ///< prompt tokens whose KV an engine's caches had when the request first joined
  Tokens loaded{0};                   ///< the part of them that came from a tier
  Tokens arrived{0};                  ///< tokens whose KV crossed the network (Handoff), twice if an engine died

  [[nodiscard]] Seconds ttft() const { return first - spec.arrival; }
  [[nodiscard]] Seconds e2e() const { return last - spec.arrival; }
  /// (last - first token) / (tokens - 1); 0 for a single token.
  [[nodiscard]] Seconds tpot() const {
    return generated.count() > 1 ? (last - first) / static_cast<double>(generated.count() - 1) : Seconds{0};
  }
};
static_assert(std::is_trivially_copyable_v<FleetEnd>); // ranks exchange it

/// A router has chosen.
struct FleetChoice {
  std::uint64_t number = 0; ///< of the request
  std::uint32_t engine = 0; ///< that gets it, in the fleet's numbers
  Seconds now{0};           ///< when
  Seconds age{0};           ///< of that engine's report
};

/// A window begins: what engines report of the time before.
struct FleetWindow {
  Seconds begin{0};
  std::uint32_t first_engine = 0;        ///< the pool's first engine, in the fleet's numbers
  std::span<const EngineReport> reports; ///< by engine of the pool
  std::span<const SentSince> sent;       ///< to them, and not in the reports
};

/// Receives all events, in an order that depends on neither threads nor ranks.
template <class L>
concept FleetListener = std::invocable<L&, const FleetEnd&> && std::invocable<L&, const FleetChoice&> &&
    std::invocable<L&, const FleetWindow&>;

} // namespace sluice
