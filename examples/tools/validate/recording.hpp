// SPDX-License-Identifier: Apache-2.0
// Recording: the requests of a recorded server with their measured times, its settings, and what is known of its
// prompts.
#pragma once

#include "sluice/workload/nlohmann/vllm_run.hpp"

#include "validate/prompts.hpp"
#include "validate/server.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace recorded {

struct Recording {
  std::string folder;
  Server server;
  std::vector<sluice::VllmRunRecord> records; ///< in order of arrival
  std::vector<sluice::Seconds> due;           ///< when the client wanted to send each, since the first
  PromptKeys prompts;
  std::string_view prompts_from; ///< "given", "known dataset", "not shared" or "unknown"
};

/// Finds the keys of each record's prompt: from the dataset `given` or the file in the run's folder that the recording
/// names, else from a known dataset's shared beginnings, else none.
inline sluice::Status find_prompts(const std::string& given, Recording& recording) {
  using namespace sluice;
  Server& server = recording.server;
  std::string path = given;
  if (path.empty() && !server.dataset.empty()) {
    const std::filesystem::path beside = std::filesystem::path(recording.folder) / server.dataset;
    std::error_code ignored;
    if (std::filesystem::exists(beside, ignored)) path = beside.string();
  }
  if (!path.empty()) {
    const Expected<PromptTokens> tokens = read_prompts(path);
    if (!tokens) return tokens.error();
    Expected<PromptKeys> keys = keys_of(*tokens, path, recording.records, server.limits.block_tokens);
    if (!keys) return keys.error();
    recording.prompts = std::move(*keys);
    recording.prompts_from = "given";
    return {};
  }
  recording.prompts_from = "not shared";
  if (!server.prefix_caching) return {};
  const KnownDataset* known = find_known(server.dataset_hash, server.dataset, recording.records);
  if (known != nullptr && server.limits.block_tokens >= shortest_known_beginning) {
    recording.prompts = keys_of(*known, recording.records, server.limits.block_tokens);
    recording.prompts_from = "known dataset";
    server.inputs.push_back({"which prompts begin alike", Input::Source::stated,
                             "facts of the dataset " + std::string{known->names.front()}});
    return {};
  }
  recording.prompts_from = "unknown";
  server.inputs.push_back({"no two prompts begin alike", Input::Source::inferred, "the prompts are not recorded"});
  return {};
}

/// If the recording does not say how much KV the server had: the most that its requests ever hold.
inline void assume_enough_kv(Recording& recording) {
  using namespace sluice;
  Server& server = recording.server;
  if (server.kv_blocks != TokenBlocks{0}) return;
  for (const VllmRunRecord& record : recording.records)
    server.kv_blocks += blocks_for(record.prompt + record.output, server.limits.block_tokens);
  server.inputs.push_back({"KV memory for every request", Input::Source::inferred, "the recording has no size"});
}

/// Requests that were in flight at once at most, from their recorded times.
inline std::int64_t most_in_flight(const std::vector<sluice::VllmRunRecord>& records) {
  std::vector<std::pair<double, int>> changes;
  for (const sluice::VllmRunRecord& record : records) {
    changes.emplace_back(record.queued.count(), 1);
    changes.emplace_back(record.last_token.count(), -1);
  }
  std::sort(changes.begin(), changes.end()); // of equal times, an end comes first
  std::int64_t now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

/// Reads a run that LLMServingSim 2.0's bench or sluice-serve wrote: meta.json and requests.jsonl.
inline sluice::Expected<Recording> read_run(const std::string& folder, std::int64_t kv_blocks,
                                            const std::string& prompts) {
  using namespace sluice;
  Recording recording;
  recording.folder = folder;
  Expected<Server> server = read_server(folder, kv_blocks);
  if (!server) return server.error();
  recording.server = std::move(*server);
  Expected<std::vector<VllmRunRecord>> records =
      read_vllm_run((std::filesystem::path(folder) / "requests.jsonl").string());
  if (!records) return records.error();
  recording.records = std::move(*records);
  for (const VllmRunRecord& record : recording.records)
    recording.due.push_back(record.queued - recording.records.front().queued);
  assume_enough_kv(recording);
  if (Status status = find_prompts(prompts, recording); !status) return status.error();
  return recording;
}

} // namespace recorded
