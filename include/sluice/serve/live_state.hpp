// SPDX-License-Identifier: Apache-2.0
// LiveState: an engine's current state as plain values; other threads get copies of it.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/retention/retention.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/state/memory/holding.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/world/host_tier/host_tier_counts.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// LiveHistory: memory, queue and counters of an engine during the last minutes.

/// The state at one time. Counters count from the start; readers compute differences.
struct LiveSample {
  double time_s = 0;
  std::int64_t running = 0, waiting = 0, preempted = 0;
  std::int64_t device_used = 0, device_capacity = 0, host_used = 0; ///< layer blocks
  std::int64_t to_device = 0, to_host = 0;                          ///< layer blocks moved; counters
  std::int64_t released = 0, missed = 0;                            ///< tokens and deadlines, counters
  double busy_s = 0, stall_s = 0;                                   ///< counters
};

/// The last state of each two-second interval, for at most `most` intervals (five minutes). An interval without events
/// has no sample, because the previous state still holds.
class LiveHistory {
 public:
  static constexpr double every_s = 2;
  static constexpr std::size_t most = 150;

  void add(const LiveSample& now);
  [[nodiscard]] const std::vector<LiveSample>& samples() const { return samples_; }

  /// Writes the samples as columns. Times are rounded to a chart's resolution; counters are exact.
  void write(JsonWriter& json) const;

 private:
  void push(const LiveSample& sample);

  std::vector<LiveSample> samples_;
  std::int64_t last_ = 0; ///< the interval of the newest sample
};

/// Keeps the last `most` values added, in constant memory.
template <class T, std::size_t most>
class Recent {
 public:
  void add(const T& one) {
    all_[next_] = one;
    next_ = (next_ + 1) % most;
    if (size_ < most) ++size_;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Returns the values, the oldest first.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < size_; ++i) visit(all_[(next_ + most - size_ + i) % most]);
  }

 private:
  std::array<T, most> all_{};
  std::size_t next_ = 0, size_ = 0;
};

/// A running or preempted request.
struct LiveRequest {
  enum class Phase : std::uint8_t { prefill, decode, preempted };

  std::uint32_t id = 0;
  Phase phase = Phase::prefill;
  std::int64_t prompt = 0, computed = 0, generated = 0, delivered = 0;
  bool has_kv = false;
  LayerSet host, nowhere, hidden; ///< as in its `holding`
  bool states_on_device = false;  ///< the hidden states are on the device
  Tokens head{0};                 ///< number of tokens that these sets apply to
  int times_preempted = 0;
  Seconds preempted_since{0};
  SloAttainment attainment;
};

struct LiveWaiting {
  std::uint32_t id = 0;
  std::int64_t prompt = 0;
  SloAttainment attainment;
};

/// A plan, with the content of a line of the decision log.
struct LivePlan {
  static constexpr std::size_t most_named = 8;

  std::int64_t number = 0; ///< counted from the start
  std::int64_t step = 0;
  Seconds when{0};
  std::int64_t requests = 0, offload = 0;
  std::array<std::pair<std::uint32_t, int>, most_named> away{}; ///< the first requests with offloaded layers, and the
                                                                ///< number of these layers
  std::int64_t streamed = 0;                                    ///< layers whose weights stream
  std::int64_t in_flight = 0;                                   ///< blocks
  Seconds predicted{0}, bound{0};                               ///< time of the step
  bool proven = true;
  Binding binding = Binding::none;
  std::int64_t effort = 0;
  Seconds wall{0}; ///< planning time on this machine
};

/// An event of a request.
struct LiveEvent {
  enum class Kind : std::uint8_t { preempt, resume, end, cancel };

  Kind kind = Kind::end;
  std::uint32_t id = 0;
  Seconds when{0};
  std::int64_t generated = 0, held = 0; ///< tokens generated; of these, tokens not delivered
  Kept kept = Kept::nothing;            ///< for `preempt`
  Seconds away{0};                      ///< for `resume`
  std::int64_t to_compute = 0;          ///< for `resume`: tokens
  Seconds first{-1};                    ///< for `end` and `cancel`: time from arrival to first token
  std::int64_t missed = 0;              ///< for `end` and `cancel`: deadlines missed
  SloAttainment::Verdict verdict = SloAttainment::Verdict::none;
};

/// The live page's data about an engine.
struct LiveState {
  static constexpr std::size_t most_waiting = 64; ///< most requests listed; all are counted
  static constexpr std::size_t most_events = 50;

  Seconds now{0};
  int layers = 0;
  std::int64_t layer_block_bytes = 0;
  std::int64_t block_tokens = 0; ///< tokens per block

  std::int64_t steps = 0, plans = 0, preemptions = 0;
  std::int64_t ended = 0, cancelled = 0, refused = 0;
  std::int64_t forecasts = 0, forecast_refused = 0, forecast_first_tokens = 0;
  /// What gates answered, by the prompt's length: [class][admitted].
  std::array<std::array<std::int64_t, 2>, 4> gate_answers{};
  std::int64_t unlooked_admitted = 0, unlooked_refused = 0; ///< newcomers without a forecast because there was no time
  double forecasting_s = 0, forecast_error_s = 0; ///< time used on the engine's thread; sum of TTFT prediction errors
  double forecast_slowdown = 1;
  std::int64_t forecast_errors_measured = 0;
  std::vector<ForecastErrorsShown> forecast_errors; ///< by SLO class
  std::int64_t running = 0, waiting = 0, preempted = 0;
  std::int64_t at_gate = 0; ///< of those that wait: held by a gate, outside the engine
  std::int64_t loading = 0; ///< of those that wait or are preempted: outside the batch until a tier's blocks have come
  std::int64_t device_used = 0, device_capacity = 0, host_used = 0, host_capacity = 0; ///< layer blocks
  std::optional<HostTierCounts> tier;                           ///< none: the engine has no host tier
  std::int64_t to_device = 0, to_host = 0, weights = 0;         ///< counters; weights in bytes
  double busy_s = 0, stall_s = 0, planning_s = 0, paused_s = 0; ///< counters
  std::int64_t released = 0, held = 0; ///< tokens delivered, a counter; tokens that are held back now
  std::int64_t missed = 0;             ///< deadlines missed, on the engine's clock
  std::int64_t prompts = 0;            ///< tokens of prompts that have got a first token, a counter
  std::int64_t found_on_device = 0;    ///< of these, those whose KV was there

  double last_step_s = 0, last_stall_s = 0;
  std::int64_t last_tokens = 0; ///< tokens computed in the last step

  std::vector<LiveRequest> requests;
  std::vector<LiveWaiting> queue; ///< the oldest requests
  Recent<LivePlan, most_events> recent_plans;
  Recent<LiveEvent, most_events> recent_moves; ///< preemptions and resumptions
  Recent<LiveEvent, most_events> recent_ends;
  LiveHistory history;
  std::string refusal; ///< the newest refusal's message
  std::string failure; ///< the error that ended the run; empty while it runs
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/live_state.inl.hpp"
#endif
