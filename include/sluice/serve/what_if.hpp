// SPDX-License-Identifier: Apache-2.0
// WhatIfThread: replays the requests of the last ten minutes through other systems on a thread of the lowest priority.
// WhatIfSystem, WhatIfRequests, replay_what_if: one system's replay of a server's requests, and its result.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/slo_attainment.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
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

struct WhatIfLimits {
  double every_s = 30;     ///< least age of an answer before a new one is computed
  double processor_s = 10; ///< processor time that one system's replay may take
};

/// Answers "what if": which SLO attainment other systems would have reached with the requests of the last ten minutes.
/// Computes only on request, at most every `every_s` seconds, and only if more requests have ended.
///
/// Any thread may call, and never waits for the computing thread, which may be descheduled for a long time while it
/// holds a lock: the calling thread copies the requests, and returns the previous answer while a new one is being
/// handed over.
class WhatIfThread {
 public:
  using Clock = std::chrono::steady_clock;

  /// `systems`: the serving system is the first. `served` must outlive this object.
  WhatIfThread(ServedRequests& served, std::vector<WhatIfSystem> systems, WhatIfLimits limits = {});
  WhatIfThread(const WhatIfThread&) = delete;
  WhatIfThread& operator=(const WhatIfThread&) = delete;
  ~WhatIfThread() { stop(); }

  /// Ends the thread within a few steps of a replay.
  void stop();

  /// Returns the newest answer as a JSON object. Starts to compute a newer one if it is due.
  [[nodiscard]] std::string json(Clock::time_point now = Clock::now());

  /// Blocks until all requested answers are computed, or the thread has been stopped.
  void wait();

 private:
  struct Answer {
    bool any = false;
    WhatIfRequests requests;
    std::vector<WhatIfResult> results;
    Clock::time_point at{};
  };

  void run();

  // ---- the answer as JSON

  static std::string percent(double share);
  [[nodiscard]] std::string said(const Answer& answer, bool computing) const;
  static void write(JsonWriter& json, const SloTally& tally);
  static std::string_view name_of(WhatIfResult::State state);
  [[nodiscard]] std::string write(const Answer& answer, bool computing, Clock::time_point now) const;

  ServedRequests* served_;
  std::vector<WhatIfSystem> systems_;
  WhatIfLimits limits_;

  std::mutex asking_; ///< guards the next members, between asking threads
  Answer shown_;
  bool computing_ = false;
  std::int64_t seen_ = 0; ///< number of requests that had ended when the newest answer was requested
  std::optional<Clock::time_point> began_;

  std::mutex mutex_; ///< guards the next members, between asking threads and the computing thread
  std::condition_variable asked_, idle_;
  std::optional<WhatIfRequests> work_;
  std::optional<Answer> fresh_;
  bool busy_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/what_if.inl.hpp"
#endif
