// SPDX-License-Identifier: Apache-2.0
// WhatIfSystem, WhatIfRequests, replay_what_if: one system's replay of a server's requests, and its result.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/slo_attainment.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

// SloTally: SLO attainment of many requests; SloJudge: computes it for an engine that replays requests.

/// Counts as docs/metrics.md defines. If there is nothing to count, shares are NaN.
struct SloTally {
  std::int64_t requests = 0;
  std::int64_t with_slo = 0, met = 0; ///< requests with an SLO; those that met it
  std::int64_t with_ttft = 0, first_in_time = 0;
  std::int64_t on_time = 0, missed = 0; ///< tokens after the first that were on time; deadlines missed
  std::int64_t refused = 0;             ///< part of `requests`: the engine could not serve them

  /// `over`: when a request without a token ended.
  void add(const SloAttainment& kept, Seconds over);
  /// A request that the engine could not serve misses its SLO.
  void add_refused(const Slo& slo);

  [[nodiscard]] double attainment() const { return share(met, with_slo); }
  [[nodiscard]] double first_attainment() const { return share(first_in_time, with_ttft); }
  [[nodiscard]] double token_attainment() const { return share(on_time, on_time + missed); }

 private:
  static double share(std::int64_t part, std::int64_t whole);
};

/// Listens to an engine that replays `requests`; its request ids are indexes into them.
class SloJudge final : public EventListener {
 public:
  explicit SloJudge(std::span<const RequestSpec> requests);
  [[nodiscard]] const SloTally& tally() const { return tally_; }
  /// Ends the replay: requests that the engine never finished count as refused.
  void finish();

  using hears = Events<events::Delivered, events::Ended, events::Refused>;
  void hear(const AnyEvent& event) override;

 private:
  void on(const events::Delivered& event);
  void on(const events::Ended& event);
  void on(const events::Refused& event);

  std::vector<SloAttainment> kept_; ///< by request
  std::vector<bool> over_;          ///< by request
  SloTally tally_;
};

/// A system for replays: a name, and a function that runs `requests` until they end or `enough` returns true; it calls
/// `enough` every few steps. `judge` receives the engine's events; request ids are indexes into `requests`. Errors: the
/// engine cannot be made, or a policy gave an impossible answer.
struct WhatIfSystem {
  using Replay = std::function<Status(std::span<const RequestSpec> requests, EventListener& judge,
                                      const std::function<bool()>& enough)>;
  std::string name;
  Replay replay;
};

/// One system's result.
struct WhatIfResult {
  enum class State : std::uint8_t { done, cut, failed };

  std::string system;
  State state = State::done;
  std::string why; ///< for `cut` and `failed`: a message
  SloTally tally;
  double processor_s = 0;
};

/// The requests of a replay, and their SLO attainment during serving.
struct WhatIfRequests {
  std::vector<RequestSpec> replayed;
  SloTally served;
  std::int64_t left_out = 0; ///< requests whose client disconnected before it was decided whether they meet their SLO
  bool crowded = false;
  double span_s = 0; ///< from the first arrival to the last end
};

/// The first request arrives at 0. Outputs have the length that was generated, and policies that use lengths know them
/// in advance. A request whose client disconnected before its first token is left out, unless that token was already
/// late; then it has one token.
[[nodiscard]] WhatIfRequests what_if_requests(const ServedRequests::Copy& copy);

/// Replays `requests` through `system`; counts SLO attainment as a server does.
[[nodiscard]] WhatIfResult replay_what_if(const WhatIfSystem& system, std::span<const RequestSpec> requests,
                                          double most_processor_s, const std::atomic<bool>& stop);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/what_if_replay.inl.hpp"
#endif
