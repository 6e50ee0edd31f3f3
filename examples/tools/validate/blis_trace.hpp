// SPDX-License-Identifier: Apache-2.0
// BLIS TraceV2: what `blis observe` recorded of a server's requests, from the client's side.
#pragma once

#include "sluice/policy/cost/read_served_tables.hpp"

#include "validate/recording.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace recorded {

/// Reads trace.csv (inference-sim's TraceV2): when the client wanted to send each request (`arrival_time_us`, since the
/// start), sent it, and got its first and last chunk, on the client's clock. A failed request is left out.
///
/// The client's delays say whether it waited for earlier requests: then as many were in flight as it allows.
inline sluice::Status read_blis_trace(const std::string& path, Recording& recording) {
  using namespace sluice;
  Expected<detail::NamedCsv> csv =
      detail::NamedCsv::open(LineReader::open(path), "status",
                             {"server_input_tokens", "output_tokens", "arrival_time_us", "send_time_us",
                              "first_chunk_time_us", "last_chunk_time_us"});
  if (!csv) return csv.error();
  struct Row {
    VllmRunRecord record;
    double due_us = 0;
  };
  std::vector<Row> rows;
  std::int64_t failed = 0;
  for (;;) {
    const Expected<bool> more = csv->next();
    if (!more) return more.error();
    if (!*more) break;
    if (csv->text() != "ok") {
      ++failed;
      continue;
    }
    const Expected<std::int64_t> prompt = csv->whole(0, 1);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = csv->whole(1, 1);
    if (!output) return output.error();
    if (!(csv->number(3) <= csv->number(4) && csv->number(4) <= csv->number(5)))
      return csv->wrong("the times are not in order", "send_time_us <= first_chunk_time_us <= last_chunk_time_us");
    Row row;
    row.record.prompt = Tokens{*prompt};
    row.record.output = Tokens{*output};
    row.record.queued = row.record.scheduled = Seconds{csv->number(3) * 1e-6};
    row.record.first_token = Seconds{csv->number(4) * 1e-6};
    row.record.last_token = Seconds{csv->number(5) * 1e-6};
    row.due_us = csv->number(2);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return csv->wrong("no request was served", "rows with the status ok");
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair{a.due_us, a.record.queued} < std::pair{b.due_us, b.record.queued};
  });
  // The smallest delay between a request's time and its sending is the difference of the two clocks.
  double start_us = std::numeric_limits<double>::infinity(), longest_us = 0;
  for (const Row& row : rows) start_us = std::min(start_us, row.record.queued.count() * 1e6 - row.due_us);
  for (Row& row : rows) {
    longest_us = std::max(longest_us, row.record.queued.count() * 1e6 - row.due_us - start_us);
    recording.due.push_back(Seconds{(row.due_us - rows.front().due_us) * 1e-6});
    recording.records.push_back(std::move(row.record));
  }
  if (failed > 0)
    recording.server.inputs.push_back(
        {std::to_string(failed) + " failed requests left out", Input::Source::inferred, "their status"});
  constexpr double waits_us = 1e6; // a client that sends at will is late by milliseconds
  if (longest_us > waits_us) {
    recording.server.in_flight = most_in_flight(recording.records);
    recording.server.inputs.push_back(
        {"a client with " + std::to_string(recording.server.in_flight) + " requests in flight at most",
         Input::Source::inferred, "it sent requests late, and never more at once"});
  }
  return {};
}

/// The folder that states a trace's server: meta.json beside it, or in the nearest folder above, up to `top`.
inline std::string stated_server(const std::filesystem::path& folder, const std::filesystem::path& top) {
  std::error_code ignored;
  for (std::filesystem::path at = folder;; at = at.parent_path()) {
    if (std::filesystem::exists(at / "meta.json", ignored)) return at.string();
    if (at == top || at == at.parent_path() || at.empty()) return {};
  }
}

/// Reads a folder with trace.csv, whose server's settings are stated in `server_folder`.
inline sluice::Expected<Recording> read_blis_recording(const std::string& folder, const std::string& server_folder) {
  using namespace sluice;
  Recording recording;
  recording.folder = folder;
  Expected<Server> server = read_server(server_folder, 0);
  if (!server) return server.error();
  recording.server = std::move(*server);
  recording.server.inputs.push_back({"the server's settings", Input::Source::stated, "meta.json in a folder above"});
  if (Status status = read_blis_trace((std::filesystem::path(folder) / "trace.csv").string(), recording); !status)
    return status.error();
  assume_enough_kv(recording);
  if (Status status = find_prompts("", recording); !status) return status.error();
  return recording;
}

} // namespace recorded
