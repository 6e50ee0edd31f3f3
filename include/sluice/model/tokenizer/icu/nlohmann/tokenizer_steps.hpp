// SPDX-License-Identifier: Apache-2.0
// Reads the steps of a tokenizer.json: normalizer, pre_tokenizer, decoder and post_processor.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/model/tokenizer/icu/byte_pair_tokenizer.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The result of the file's `pre_tokenizer`: the cuts, and whether the model's symbols are bytes.
struct PreTokenizerRead {
  PreTokenizer steps;
  bool byte_level = false;
};

/// The result of the file's `decoder`.
struct DecoderRead {
  bool byte_level = false;
  bool byte_fallback = false;
  int leading_spaces = 0;
  std::vector<std::pair<std::string, std::string>> replaced; ///< in each token
};

namespace detail {

[[nodiscard]] Error unknown_step(const std::string& type, const std::string& where, const char* known);
/// An optional flag.
[[nodiscard]] Expected<bool> flag_or(const JsonFields& fields, const char* name, bool otherwise);

/// GPT-2's pattern, which "ByteLevel" implies unless use_regex is false (Radford et al., 2019, in tokenizers'
/// spelling).
inline constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[nodiscard]] bool absent(const nlohmann::json& object, const char* name);

} // namespace detail

/// Reads the file's `normalizer`: NFC, NFD, NFKC, NFKD, Prepend, Replace, and a Sequence of these.
[[nodiscard]] Expected<Normalizer> read_normalizer(const nlohmann::json& file, const std::string& where);

/// Reads the file's `pre_tokenizer`: ByteLevel (last, if there are several), Split, Metaspace, and a Sequence of these.
[[nodiscard]] Expected<PreTokenizerRead> read_pre_tokenizer(const nlohmann::json& file, const std::string& where);

/// Reads the file's `decoder`: ByteLevel, Metaspace, or a Sequence of Replace, ByteFallback, Fuse and then Strip.
[[nodiscard]] Expected<DecoderRead> read_decoder(const nlohmann::json& file, const std::string& where);

/// The tokens that the file's `post_processor` puts before and after a text: TemplateProcessing, and ByteLevel, which
/// adds none.
struct TemplateRead {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

[[nodiscard]] Expected<TemplateRead> read_template(const nlohmann::json& file, const Vocabulary& vocabulary,
                                                   const std::string& where);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_steps.inl.hpp"
#endif
