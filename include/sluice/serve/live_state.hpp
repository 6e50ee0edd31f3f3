// SPDX-License-Identifier: Apache-2.0
// LiveState: what an engine is doing, as plain values that another thread may have a copy of.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/memory/holding.hpp"
#include "sluice/plan/plan.hpp"
#include "sluice/retention/retention.hpp"
#include "sluice/serve/kept_promises.hpp"
#include "sluice/serve/live_history.hpp"
#include "sluice/serve/recent.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// A request that runs, or did and is preempted.
struct LiveRequest {
  enum class Phase : std::uint8_t { prefill, decode, preempted };

  std::uint32_t id = 0;
  Phase phase = Phase::prefill;
  std::int64_t prompt = 0, computed = 0, generated = 0, delivered = 0;
  bool has_kv = false;
  LayerSet host, nowhere, hidden; ///< as in its holding
  Tokens head{0};                 ///< the tokens that the sets speak of
  int times_preempted = 0;
  Seconds preempted_since{0};
  KeptPromises promises;
};

struct LiveWaiting {
  std::uint32_t id = 0;
  std::int64_t prompt = 0;
  KeptPromises promises;
};

/// A plan as the decision log has it.
struct LivePlan {
  static constexpr std::size_t most_named = 8;

  std::int64_t number = 0; ///< of the plans since the start
  std::int64_t step = 0;
  Seconds when{0};
  std::int64_t requests = 0, offload = 0;
  std::array<std::pair<std::uint32_t, int>, most_named> away{}; ///< request, and its layers away; the first of them
  std::int64_t streamed = 0;                                    ///< layers whose weights stream
  std::int64_t in_flight = 0;                                   ///< blocks
  Seconds predicted{0}, bound{0};                               ///< of a step
  bool proven = true;
  Binding binding = Binding::none;
  std::int64_t effort = 0;
  Seconds wall{0}; ///< what planning took on this machine
};

/// What has happened to a request.
struct LiveEvent {
  enum class Kind : std::uint8_t { preempt, resume, end, cancel };

  Kind kind = Kind::end;
  std::uint32_t id = 0;
  Seconds when{0};
  std::int64_t generated = 0, held = 0; ///< tokens made; of them, not delivered
  Kept kept = Kept::nothing;            ///< of `preempt`
  Seconds away{0};                      ///< of `resume`
  std::int64_t to_compute = 0;          ///< of `resume`: tokens
  Seconds first{-1};                    ///< of `end` and `cancel`: arrival to first token
  std::int64_t missed = 0;              ///< of them: deadlines
  KeptPromises::Verdict verdict = KeptPromises::Verdict::none;
};

/// Everything that the live page shows of an engine.
struct LiveState {
  static constexpr std::size_t most_waiting = 64; ///< that are listed; all are counted
  static constexpr std::size_t most_events = 50;

  Seconds now{0};
  int layers = 0;
  std::int64_t layer_block_bytes = 0;

  std::int64_t steps = 0, plans = 0, preemptions = 0;
  std::int64_t ended = 0, cancelled = 0, refused = 0;
  std::int64_t forecasts = 0, forecast_refused = 0, forecast_first_tokens = 0;
  double forecasting_s = 0, forecast_error_s = 0; ///< processor time; of predicted TTFTs
  double forecast_slowdown = 1;
  std::int64_t running = 0, waiting = 0, preempted = 0;
  std::int64_t device_used = 0, device_capacity = 0, host_used = 0, host_capacity = 0; ///< layer blocks
  std::int64_t to_device = 0, to_host = 0, weights = 0;                                ///< counters; weights in bytes
  double busy_s = 0, stall_s = 0, planning_s = 0, paused_s = 0;                        ///< counters
  std::int64_t released = 0, held = 0; ///< tokens handed over, a counter; tokens held back now
  std::int64_t on_time = 0, missed = 0;
  std::int64_t first_in_time = 0, first_late = 0; ///< of requests that were promised a first token

  double last_step_s = 0, last_stall_s = 0;
  std::int64_t last_tokens = 0; ///< computed in the last step

  std::vector<LiveRequest> requests;
  std::vector<LiveWaiting> queue; ///< the oldest
  Recent<LivePlan, most_events> recent_plans;
  Recent<LiveEvent, most_events> recent_moves; ///< who was preempted, and came back
  Recent<LiveEvent, most_events> recent_ends;
  LiveHistory history;
  std::string refusal; ///< the newest, in words
  std::string failure; ///< what ended the run; empty: it goes on
};

} // namespace sluice
