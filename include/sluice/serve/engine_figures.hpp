// SPDX-License-Identifier: Apache-2.0
// EngineFigures: an engine's counters and state for Prometheus and the live page.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/live_state.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/state/view/view.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Written by the engine's thread, read by any thread. Events are counted without a lock; `update` publishes a copy
/// once per step. Memory is bounded, except for one note per live request.
class EngineFigures {
 public:
  using Clock = std::chrono::steady_clock;

  /// `listener` (or null) receives every finished request, on the engine's thread. Call before the first request.
  void tell(ServedListener* listener) { served_ = listener; }

  // ---- on the engine's thread

  /// An SLO as its client requested it, and the part that delivery needs.
  struct Asked {
    Slo slo;
    SloLead lead{};
  };
  /// `spec`: includes the SLO that the engine must keep. `predicted_ttft`: a gate's forecast; below 0: none.
  /// `submitted`: the present, if a gate has held it; below 0: it has not.
  void entered(RequestId id, const RequestSpec& spec, const Asked& asked, Seconds predicted_ttft = Seconds{-1},
               Seconds submitted = Seconds{-1});
  /// Counts one event of the engine.
  using hears = Events<events::Delivered, events::Preempted, events::Resumed, events::Ended, events::Cancelled,
                       events::Refused, events::Planned, events::Iterated>;
  void hear(const AnyEvent& event);
  void on(const events::Delivered& event);
  void on(const events::Preempted& event);
  void on(const events::Resumed& event);
  void on(const events::Ended& event);
  void on(const events::Cancelled& event);
  /// If the engine refuses a request at submission, the loop calls `refused` instead.
  void on(const events::Refused& event);
  /// Records that a newcomer was not admitted. `foreseen`: because a forecast predicts SLO violations.
  void refused(std::string_view reason, bool foreseen = false);
  /// Records that a gate has looked ahead, for `took_s` seconds of this thread.
  void forecast(double took_s);
  /// Records what the gates answered to a newcomer with so long a prompt.
  void gates_answered(std::int64_t prompt_tokens, bool admitted) {
    std::size_t at = 0;
    while (at < gate_classes.size() && prompt_tokens >= gate_classes[at]) ++at;
    ++state_.gate_answers[at][admitted ? 1 : 0];
  }
  /// Records that a gate that looks ahead had no time for a newcomer.
  void unlooked(bool admitted) { ++(admitted ? state_.unlooked_admitted : state_.unlooked_refused); }
  /// Returns a live request's attainment so far; null if it arrived before this object was made.
  [[nodiscard]] const SloAttainment* attainment(RequestId id) const;
  /// Returns the SLO that the engine must keep, so that a live request's client gets the SLO that it requested.
  [[nodiscard]] Slo firm(RequestId id) const;
  /// Returns the number of requests that have left the engine because they ended or were cancelled.
  [[nodiscard]] std::int64_t have_left() const { return state_.ended + state_.cancelled; }
  void on(const events::Planned& event);
  /// Stores the errors of forecasts. A copy is published when there are new errors.
  void forecast_errors(const ForecastErrors& errors);
  /// `slowdown`: measured over predicted iteration time.
  void slowed(double slowdown) { state_.forecast_slowdown = slowdown; }
  void on(const events::Iterated& event);

  /// After each step: takes the requests' state and publishes everything. `tier`: what the host tier has done, if there
  /// is one. `at_gate`: number of generations that gates hold.
  void update(const View& view, const std::optional<HostTierCounts>& tier = std::nullopt, std::int64_t at_gate = 0);
  /// Records that the run has failed, and all its requests with it.
  void failed(std::string_view why);

  // ---- on any thread

  /// Writes all metrics; `to` adds its common labels. Names and bounds with `vllm:` are vLLM's.
  void metrics(PrometheusWriter& to) const;

  /// Writes the live page's data and its age as JSON, from a copy, so that the engine does not wait.
  [[nodiscard]] std::string live(Clock::time_point now = Clock::now()) const;

 private:
  static constexpr std::array<std::int64_t, 3> gate_classes{256, 1024, 4096}; ///< prompts below so many tokens

  struct Note {
    SloAttainment attainment;   ///< against the SLO that the client asked for
    Slo firm;                   ///< that SLO, less the time that delivery needs
    Seconds predicted_ttft{-1}; ///< below 0: not predicted
    bool waits = true;          ///< the request has never run
    Seconds scheduled{-1};      ///< when its first iteration began; below 0: unknown
    Seconds submitted{-1};      ///< when the engine got it, if a gate has held it
  };

  /// vLLM's counters of what a connector is asked.
  static void write_tier(PrometheusWriter& to, const HostTierCounts& tier);
  static void write_errors(PrometheusWriter& to, const LiveState& state);
  void publish();
  [[nodiscard]] bool waits(std::uint32_t id) const;
  void forget(std::uint32_t id);
  /// Shows a request; returns whether it runs for the first time.
  bool show(const RequestRow& row, bool preempted);
  [[nodiscard]] static LiveEvent event_of(LiveEvent::Kind kind, const RequestRow& row, Seconds now);
  /// Counts a request that had a token, whether it ended or was cancelled.
  void note_phases(const Note& note, const RequestRow& row);
  void over(LiveEvent::Kind kind, const RequestRow& row, Seconds now);

  ServedListener* served_ = nullptr;
  LiveState state_;                               ///< used by the engine's thread
  std::vector<LiveWaiting> queue_;                ///< requests that have never run, the oldest first
  std::unordered_map<std::uint32_t, Note> notes_; ///< one per live request

  mutable std::mutex mutex_; ///< guards the next members
  RequestPhases phases_;
  LiveState published_;
  Clock::time_point published_at_ = Clock::now();
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/engine_figures.inl.hpp"
#endif
