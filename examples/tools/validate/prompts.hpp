// SPDX-License-Identifier: Apache-2.0
// Prompts of a recorded run: the block keys of each request's prompt, from the dataset's text or from a known dataset's
// facts.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/state/memory/shared_beginnings.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include "validate/known_datasets.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recorded {

using PromptTokens = std::vector<std::vector<std::uint64_t>>;
using PromptKeys = std::vector<std::vector<sluice::BlockKey>>; ///< keys of full blocks

/// The prompts of a file with one JSON object per line, each with `input_tok_ids`.
inline sluice::Expected<PromptTokens> read_prompts(const std::string& path) {
  using namespace sluice;
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return lines.error();
  PromptTokens prompts;
  for (;;) {
    const Expected<std::optional<std::string_view>> line = lines->next();
    if (!line) return line.error();
    if (!*line) break;
    const Expected<nlohmann::json> object = parse_json_object(**line, lines->name(), lines->number());
    if (!object) return object.error();
    const auto ids = object->find("input_tok_ids");
    if (ids == object->end() || !ids->is_array()) {
      return Error{ErrorCode::bad_input, lines->where(), "input_tok_ids is missing", "the prompt's token numbers"};
    }
    std::vector<std::uint64_t>& prompt = prompts.emplace_back();
    for (const nlohmann::json& id : *ids) {
      if (!id.is_number_unsigned()) {
        return Error{ErrorCode::bad_input, lines->where(), "a token is not a number", "whole numbers from 0"};
      }
      prompt.push_back(id.get<std::uint64_t>());
    }
  }
  if (prompts.empty()) return Error{ErrorCode::bad_input, path, "the file holds no prompt", "one per line"};
  return prompts;
}

/// A request's line in the dataset, from 0: the number at the end of its id.
inline std::optional<std::size_t> line_of(const sluice::VllmRunRecord& record) {
  const std::size_t digits = record.id.find_last_not_of("0123456789") + 1;
  std::size_t line = 0;
  const auto [end, error] = std::from_chars(record.id.data() + digits, record.id.data() + record.id.size(), line);
  if (digits == record.id.size() || error != std::errc{}) return std::nullopt;
  return line;
}

/// The keys of each record's prompt.
inline sluice::Expected<PromptKeys> keys_of(const PromptTokens& prompts, const std::string& path,
                                            const std::vector<sluice::VllmRunRecord>& records,
                                            sluice::Tokens block_tokens) {
  using namespace sluice;
  PromptKeys assigned;
  for (const VllmRunRecord& record : records) {
    const std::optional<std::size_t> line = line_of(record);
    if (!line || *line >= prompts.size() || static_cast<std::int64_t>(prompts[*line].size()) != record.prompt.count()) {
      return Error{ErrorCode::bad_input, path, "there is no prompt for request '" + excerpt(record.id) + "'",
                   "on the line with its number, a prompt of " + std::to_string(record.prompt.count()) + " tokens"};
    }
    std::vector<BlockKey>& keys = assigned.emplace_back();
    const auto per_block = static_cast<std::size_t>(block_tokens.count());
    BlockKey key{};
    for (std::size_t i = 0; i < prompts[*line].size() / per_block * per_block; ++i) {
      key = next_key(key, prompts[*line][i]);
      if ((i + 1) % per_block == 0) keys.push_back(key);
    }
  }
  return assigned;
}

/// The dataset that the recording names: by its hash, or by its file's name if the recording has no hash. Null if it is
/// not known, or if the requests are not its prompts, one each and with the same sum of tokens.
inline const KnownDataset* find_known(std::string_view sha256, std::string_view name,
                                      const std::vector<sluice::VllmRunRecord>& records) {
  const auto named = [&](const KnownDataset& dataset) {
    if (!sha256.empty()) return dataset.sha256 == sha256;
    return std::find(dataset.names.begin(), dataset.names.end(), name) != dataset.names.end();
  };
  const auto dataset = std::find_if(known_datasets.begin(), known_datasets.end(), named);
  if (dataset == known_datasets.end() || records.size() != dataset->prompts) return nullptr;
  std::vector<sluice::Tokens> lengths(dataset->prompts);
  sluice::Tokens sum{0};
  for (const sluice::VllmRunRecord& record : records) {
    const std::optional<std::size_t> line = line_of(record);
    if (!line || *line >= lengths.size() || lengths[*line] > sluice::Tokens{0}) return nullptr;
    lengths[*line] = record.prompt;
    sum += record.prompt;
  }
  if (sum.count() != dataset->prompt_tokens) return nullptr;
  const auto fits = [&](const sluice::SharedBeginning& row) {
    return row.tokens <= std::min(lengths[row.prompt], lengths[row.earlier]).count();
  };
  return std::all_of(dataset->shared.begin(), dataset->shared.end(), fits) ? &*dataset : nullptr;
}

/// The keys of each record's prompt; `records` are the dataset's, which `find_known` has checked.
inline PromptKeys keys_of(const KnownDataset& dataset, const std::vector<sluice::VllmRunRecord>& records,
                          sluice::Tokens block_tokens) {
  std::vector<sluice::Tokens> lengths(dataset.prompts);
  for (const sluice::VllmRunRecord& record : records) lengths[*line_of(record)] = record.prompt;
  const PromptKeys keys = sluice::keys_of_shared_beginnings(dataset.shared, lengths, block_tokens);
  PromptKeys assigned;
  for (const sluice::VllmRunRecord& record : records) assigned.push_back(keys[*line_of(record)]);
  return assigned;
}

} // namespace recorded
