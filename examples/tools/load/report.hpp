// SPDX-License-Identifier: Apache-2.0
// LoadReport: what came of all requests, as a table and as JSON.
#pragma once

#include "sluice/core/expected.hpp"

#include "load/options.hpp"
#include "load/slo_tally.hpp"
#include "load/stream_check.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace loading {

struct LoadReport {
  struct Error {
    std::int64_t count = 0;
    std::string example; ///< what the first one said
  };

  std::string workload, model;
  std::string taken_for; ///< how the workload's trace was read (taken_for_text)
  std::int64_t requests = 0;
  std::int64_t completed = 0;                  ///< answers that came whole and as promised
  std::int64_t failed = 0;                     ///< refused, cut, given up or flawed
  std::array<std::int64_t, 3> left{};          ///< by their clients: while waiting, in prefill, in decode
  std::int64_t slow = 0, slow_cut = 0;         ///< completed though read slowly; ended by the server for that
  double duration = 0;                         ///< seconds, without what slow readers took
  std::int64_t input = 0, output = 0;          ///< tokens of the completed
  std::int64_t pieces = 0;                     ///< of text, of all
  std::vector<double> ttfts, tpots, latencies; ///< seconds, of the completed that were read as they came
  std::vector<float> gaps;
  /// One of those in `ttfts`: when it arrived by the workload and was sent, in seconds since the start.
  struct Answer {
    double due = 0, sent = 0, ttft = 0, latency = 0;
    std::int64_t prompt = 0, output = 0;
  };
  std::vector<Answer> answers;   ///< kept with --out
  SloTally all;                  ///< of those in `ttfts`
  std::vector<SloTally> classes; ///< the same by SLO class; empty: none has ended
  std::int64_t most_at_once = 0;
  std::vector<std::int64_t> pieces_by_second;
  double latest_start = 0; ///< seconds that a request was sent after it had arrived, at most
  double processor = 0;    ///< seconds, of this program
  Flaws flaws{};
  std::int64_t flawed = 0;             ///< answers with any
  std::map<std::string, Error> errors; ///< by status, or what else went wrong
};

[[nodiscard]] std::string report_text(const Options& options, const LoadReport& report);
/// The names are those of `vllm bench serve`, and ours beside them.
[[nodiscard]] std::string report_json(const Options& options, const LoadReport& report);
/// The answers as a TraceV2 table (workload/nlohmann/load_result.hpp): a recording that sluice-validate replays.
[[nodiscard]] std::string report_trace(const LoadReport& report);
sluice::Status write_json(const std::string& path, const std::string& json);

} // namespace loading
