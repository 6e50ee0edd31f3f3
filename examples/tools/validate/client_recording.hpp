// SPDX-License-Identifier: Apache-2.0
// Client recordings: what a load generator recorded of a server's requests, and where its server is stated.
#pragma once

#include "sluice/workload/nlohmann/load_result.hpp"

#include "validate/recording.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

namespace recorded {

/// Reads a load generator's result. Its times are the client's: when it wanted to send each request, sent it, and got
/// its first and last token. A failed request is left out.
///
/// The client's delays say whether it waited for earlier requests: then as many were in flight as it allows.
inline sluice::Status read_client_times(const std::string& path, Recording& recording) {
  using namespace sluice;
  Expected<LoadResult> result = read_load_result(path);
  if (!result) return result.error();
  if (result->without_first > 0)
    return Error{ErrorCode::bad_input, path,
                 std::to_string(result->without_first) + " requests have no time of a first token",
                 "a run with streaming, whose TTFTs can be compared"};
  // The smallest delay between a request's time and its sending is the difference of the two clocks.
  double start_s = std::numeric_limits<double>::infinity(), longest_s = 0;
  for (const ClientRecord& one : result->requests) start_s = std::min(start_s, one.record.queued.count() - one.due_s);
  for (ClientRecord& one : result->requests) {
    longest_s = std::max(longest_s, one.record.queued.count() - one.due_s - start_s);
    recording.due.push_back(Seconds{one.due_s - result->requests.front().due_s});
    recording.records.push_back(std::move(one.record));
  }
  if (result->failed > 0)
    recording.server.inputs.push_back(
        {std::to_string(result->failed) + " failed requests left out", Input::Source::inferred, "their status"});
  constexpr double waits_s = 1; // a client that sends at will is late by milliseconds
  if (longest_s > waits_s) {
    recording.server.in_flight = most_in_flight(recording.records);
    recording.server.inputs.push_back(
        {"a client with " + std::to_string(recording.server.in_flight) + " requests in flight at most",
         Input::Source::inferred,
         "it sent requests late, and never more at once",
         {&Mechanisms::closed}});
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

/// Reads a load generator's `file`, whose server's settings are stated in `server_folder`.
inline sluice::Expected<Recording> read_client_recording(const std::string& file, const std::string& server_folder) {
  using namespace sluice;
  Recording recording;
  recording.folder = std::filesystem::path(file).parent_path().string();
  Expected<Server> server = read_server(server_folder, 0);
  if (!server) return server.error();
  recording.server = std::move(*server);
  recording.server.inputs.push_back({"the server's settings", Input::Source::stated, "meta.json in a folder above"});
  if (Status status = read_client_times(file, recording); !status) return status.error();
  assume_enough_kv(recording);
  if (Status status = find_prompts("", recording); !status) return status.error();
  return recording;
}

} // namespace recorded
