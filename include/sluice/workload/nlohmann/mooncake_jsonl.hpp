// SPDX-License-Identifier: Apache-2.0
// MooncakeReader: the trace release of Mooncake.
#pragma once

#include "sluice/workload/nlohmann/hash_ids.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Mooncake's traces (Qin et al., FAST 2025): `timestamp` in milliseconds, `input_length` and `output_length` in
/// tokens. `hash_ids`, which a line may lack, has one number per started block of 512 prompt tokens: equal numbers mean
/// equal blocks after equal prompts. The release says nothing of the answers' content.
struct MooncakeFormat {
  static constexpr JsonlNames names{"timestamp", 1e15, "milliseconds", 1e3, "input_length", "output_length"};

  static Status read_content(const nlohmann::json& object, Tokens prompt, Tokens, const std::string& where,
                             std::vector<ContentPiece>& content) {
    return read_hash_ids(object, {.block = Tokens{512}, .prompt = prompt, .salt = 0}, where, content);
  }
};

using MooncakeReader = JsonlReader<MooncakeFormat>;

static_assert(TraceReader<MooncakeReader> && KnowsContent<MooncakeReader>);

} // namespace sluice
