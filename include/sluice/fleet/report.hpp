// SPDX-License-Identifier: Apache-2.0
// EngineReport, FleetView: what a router knows about the engines behind it.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/view/known_spec.hpp"
#include "sluice/workload/content.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// What a router reads. A fleet gathers nothing that its router does not read.
struct RouterReads {
  bool load = false;     ///< the counts of EngineReport, and its share of KV memory
  bool prefill = false;  ///< `EngineReport::to_prefill`: a scan of the engine's live requests
  bool pace = false;     ///< `EngineReport::chunk_time`: a question to the engine's cost model
  bool prefixes = false; ///< `FleetView::found`: a question to every engine's prefix cache for every request

  /// Whether the router reads anything of engines, and so is given reports and their ages.
  [[nodiscard]] constexpr bool reports() const { return load || prefill || pace || prefixes; }
  friend constexpr RouterReads operator|(RouterReads a, RouterReads b) {
    return {a.load || b.load, a.prefill || b.prefill, a.pace || b.pace, a.prefixes || b.prefixes};
  }
  friend constexpr bool operator==(const RouterReads&, const RouterReads&) = default;
};

/// An engine's report: its counts at the end of its last iteration before the window began; an idle engine reports at
/// the window's start. `to_prefill` and `chunk_time` are those of the end of the iteration that runs then.
struct EngineReport {
  Seconds when{0};            ///< time of these numbers, on the run's clock
  std::int32_t waiting = 0;   ///< requests that have not run yet
  std::int32_t preempted = 0; ///< requests that have run and do not run now
  std::int32_t running = 0;   ///< requests of the batch
  std::int32_t batch = 0;     ///< the most that it may run at once
  double kv_used = 0;         ///< share of its KV memory that live requests hold, 0 to 1
  Tokens to_prefill{0};       ///< tokens of prompts, and of recomputed contexts, that its live requests have no KV of
  Tokens chunk{0};            ///< tokens that an iteration computes at most
  Tokens chunk_prompts{0};    ///< the part of `chunk` that its decodes leave for prompts (`pace`)
  Seconds chunk_time{0};      ///< how long an iteration of `chunk` tokens takes, by its own model (`pace`)
  Seconds computes_until{0};  ///< when the iteration ends that runs at the window's start; earlier if none does
};

/// What was sent to an engine and is not in its report.
struct SentSince {
  std::int32_t requests = 0;
  Tokens prompts{0}; ///< to compute: without KV that comes over a network (Handoff)
};

/// What a router sees when it chooses. All spans but `open` are by engine number, and valid only during the call.
struct FleetView {
  Seconds now{0};           ///< when the request is routed: its arrival, or the window's start if it arrived before
  std::int64_t edition = 0; ///< changes when the reports or `open` change: a router may keep what it derived from them
  std::span<const EngineReport> reports; ///< empty unless RouterReads::reports()
  std::span<const SentSince> sent;       ///< since the reports, by this router
  std::span<const std::uint32_t> open;   ///< the engines that take requests now, ascending; never empty
  /// How many of the request's leading blocks the engine's prefix cache had when the window began, on the device or in
  /// a tier below; empty unless the router reads them. An engine that computes when the window begins answers as of the
  /// end of that iteration.
  std::span<const std::int32_t> found;

  [[nodiscard]] std::size_t engines() const { return sent.size(); }
};

/// A request as a router sees it.
struct RoutedRequest {
  KnownSpec spec;                 ///< without the length of its answer, which no router knows
  std::span<const BlockKey> keys; ///< of the full blocks of its prompt; empty if the workload knows no content
  std::uint64_t number = 0;       ///< counts the requests that were routed, from 0
  Tokens arrived{0};              ///< of its prompt: KV of these comes over a network with it (Handoff)
};

} // namespace sluice
