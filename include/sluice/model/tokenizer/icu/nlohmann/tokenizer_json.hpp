// SPDX-License-Identifier: Apache-2.0
// read_tokenizer: the tokenizer of a Hugging Face model folder.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace sluice {

/// The tokenizer that a parsed tokenizer.json describes; `where` opens the error's line, and `config` is the parsed
/// tokenizer_config.json beside it, or null. Model type BPE only; other unsupported features are refused by name
/// (docs/tokenizers.md lists them).
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>>
tokenizer_from_json(const nlohmann::json& file, const std::string& where, const nlohmann::json& config = nullptr);

/// The same from the text of a tokenizer.json, with half the peak memory of parsing it first.
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>> tokenizer_from_text(std::string text, const std::string& where,
                                                                       const nlohmann::json& config = nullptr);

/// The tokenizer of a model folder: from tokenizer.json, or vocab.json and merges.txt, with the begin and end tokens of
/// a tokenizer_config.json if there is one; the byte tokenizer if there is none of these. Part of a tokenizer is an
/// error (`check_no_part`). A path to a tokenizer.json is accepted too.
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>> read_tokenizer(const std::string& path);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.inl.hpp"
#endif
