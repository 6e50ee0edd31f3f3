// SPDX-License-Identifier: Apache-2.0
// ServedRequests: the requests that ended in the last ten minutes; one of them, and its line in a record.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/workload/request.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace sluice {

// ServedRequest: a request that a server has finished, with its SLO attainment.

/// Times are on the engine's clock. Contains neither text nor tokens.
struct ServedRequest {
  RequestId id{};
  RequestSpec spec;     ///< as submitted: `output` is the length limit, `slo` the SLO that the engine got
  Tokens generated{0};  ///< actual length
  SloAttainment kept;   ///< for the SLO that its user requested, on the engine's clock
  Seconds scheduled{0}; ///< when its first iteration began; below 0: unknown
  Seconds ended{0};
  bool cancelled = false; ///< because its client disconnected, or by a stop string
  Seconds submitted{-1};  ///< when the engine got it, if a gate held it before; below 0: on arrival
};

/// Receives finished requests, on the engine's thread.
class ServedListener {
 public:
  ServedListener() = default;
  ServedListener(const ServedListener&) = delete;
  ServedListener& operator=(const ServedListener&) = delete;
  virtual ~ServedListener() = default;

  virtual void over(const ServedRequest& request) = 0;
};

/// Written by the engine's thread; any thread may read a copy. The oldest requests are dropped when they are older than
/// the window, or when there are more than `most`: 8,192 take 1.4 MB.
class ServedRequests final : public ServedListener {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds window{600};
  static constexpr std::size_t most = 8192;

  struct Copy {
    std::vector<ServedRequest> requests; ///< in order of arrival
    std::int64_t total = 0;              ///< requests that have ended since the start
    bool crowded = false;                ///< more than `most` ended within the window
  };

  void over(const ServedRequest& request) override { over(request, Clock::now()); }
  /// `at` must never decrease.
  void over(const ServedRequest& request, Clock::time_point at);

  [[nodiscard]] Copy copy(Clock::time_point now = Clock::now());
  [[nodiscard]] std::int64_t total() const;

 private:
  struct Ended {
    ServedRequest request;
    Clock::time_point at;
  };
  void forget(Clock::time_point now);

  mutable std::mutex mutex_;
  std::deque<Ended> all_; ///< in the order in which they ended
  Clock::time_point crowded_until_ = Clock::time_point::min();
  std::int64_t total_ = 0;
};

// write_request: writes a finished request as one line of a record, which sluice-compare reads as a trace.

/// Appends a line in the format of recorded vLLM runs (workload/nlohmann/vllm_run.hpp), with more fields: `slo_ttft_s`
/// and `slo_tbt_s`, absent without an SLO; `engine_slo_ttft_s` and `engine_slo_tbt_s`, the tighter SLO that the engine
/// got, if it differs; `submitted_ts`, when the engine got it, if a gate held it before; `max_tokens`, the limit that
/// the engine knew; `priority`, if it is not 0; and `session` and `turn`, if the client named its session.
///
/// Among the four trace formats, only this one has a time for each event of a request, and only its lines may be in any
/// order. A line can therefore be written when its request ends, and a server that is killed loses only running
/// requests. A request without a token (it was `cancelled`) is recorded with one token, the minimum of a trace; the
/// times that it never reached are set to its end.
void write_request(std::string& to, const ServedRequest& request);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/served_requests.inl.hpp"
#endif
