// SPDX-License-Identifier: Apache-2.0
// VllmRunReader: reads the requests of a recorded vLLM run, with their measured times.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/reader.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// One request of a recorded run. Times are in seconds on the server's own monotonic clock.
struct VllmRunRecord {
  std::string id;
  Tokens prompt{1};
  Tokens output{1};
  Seconds queued{0};         ///< `queued_ts`: the arrival
  Seconds submitted{0};      ///< `submitted_ts`: when the engine got it, if a gate held it before, else the arrival
  Seconds scheduled{0};      ///< `scheduled_ts`: when it first joined a batch
  Seconds first_token{0};    ///< `first_token_ts`
  Seconds last_token{0};     ///< `last_token_ts`
  Tokens bound{0};           ///< `max_tokens` if the server wrote it, else 0
  Slo slo{};                 ///< `slo_ttft_s` and `slo_tbt_s` if the server wrote them (serve/served_requests.hpp)
  Slo engine_slo{};          ///< `engine_slo_…`: the tighter SLO that the engine got; equal to `slo` if there is none
  std::uint32_t session = 0; ///< `session` and `turn` if the client named its session; 0: it did not
  std::int32_t turn = 0;
  std::int32_t priority = 0; ///< `priority` if it is not 0
  SessionHints hints{};      ///< `kv_hints` if the client said any

  friend bool operator==(const VllmRunRecord&, const VllmRunRecord&) = default;
};

/// `requests.jsonl` of a recorded vLLM run: one JSON object per line. The arrival is `queued_ts`; `arrival_time` is on
/// another clock and is not read.
///
/// Lines are in order of submission, or, if sluice-serve recorded the run, in order of completion; either may differ
/// from the order of arrival. The reader sorts by arrival within `window` lines, in constant memory. A line that is
/// farther out of order is an error. Failed requests, which have 0 tokens, are skipped and counted.
class VllmRunReader {
 public:
  static constexpr std::size_t window = 65536;

  explicit VllmRunReader(LineReader lines) : lines_(std::move(lines)) {}

  static Expected<VllmRunReader> open(const std::string& path);

  /// Returns the next record in order of arrival, with its measured times as in the file.
  Expected<std::optional<VllmRunRecord>> next_record();

  Expected<std::optional<RequestSpec>> next();

  /// The number of failed requests, which have 0 tokens; they are skipped.
  [[nodiscard]] std::int64_t failed() const { return failed_; }

 private:
  struct Waiting {
    VllmRunRecord record;
    std::int64_t line = 0;
  };
  /// Heap order: the earliest arrival is on top; equal arrivals keep the order of their lines.
  static bool later(const Waiting& a, const Waiting& b);

  Status read_line();

  LineReader lines_;
  std::vector<Waiting> waiting_;
  detail::ArrivalClock clock_;
  std::int64_t lines_read_ = 0;
  std::int64_t failed_ = 0;
  Seconds arrival_{0}; // arrival of the last record
  bool ended_ = false;
};

static_assert(TraceReader<VllmRunReader>);

/// Reads a whole recorded run, in order of arrival, to compare runs request by request: a failed request is an error
/// here. Recorded runs fit in memory.
Expected<std::vector<VllmRunRecord>> read_vllm_run(const std::string& path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/vllm_run.inl.hpp"
#endif
