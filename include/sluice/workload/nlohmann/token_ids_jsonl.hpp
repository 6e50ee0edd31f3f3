// SPDX-License-Identifier: Apache-2.0
// TokenIdsReader: requests with the token ids of their prompts and answers.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"

#include <string>
#include <vector>

namespace sluice {

/// LLMServingSim's data sets (branch `ispass26-artifact`): `arrival_time_ns`, `input_toks` and `output_toks` in tokens,
/// and `input_tok_ids` and `output_tok_ids`, the ids themselves. Without `output_tok_ids` the answer is unknown
/// content.
struct TokenIdsFormat {
  static constexpr JsonlNames names{"arrival_time_ns", 1e21, "nanoseconds", 1e9, "input_toks", "output_toks"};

  static Status read_content(const nlohmann::json& object, Tokens prompt, Tokens output, const std::string& where,
                             std::vector<ContentPiece>& content);

 private:
  static Status read_ids(const nlohmann::json& object, const char* name, Tokens tokens, const std::string& where,
                         std::vector<ContentPiece>& content);
};

using TokenIdsReader = JsonlReader<TokenIdsFormat>;

static_assert(TraceReader<TokenIdsReader> && KnowsContent<TokenIdsReader>);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/token_ids_jsonl.inl.hpp"
#endif
