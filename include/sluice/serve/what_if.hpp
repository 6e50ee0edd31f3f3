// SPDX-License-Identifier: Apache-2.0
// WhatIfThread: replays the requests of the last ten minutes through other systems on a thread of the lowest priority.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/what_if_replay.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice {

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
