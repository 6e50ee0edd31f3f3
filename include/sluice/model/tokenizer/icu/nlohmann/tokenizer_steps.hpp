// SPDX-License-Identifier: Apache-2.0
// Reads the steps of a tokenizer.json: normalizer, pre_tokenizer, decoder and post_processor. MergeList: collects its
// merges while it is parsed.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/model/tokenizer/icu/byte_pair_tokenizer.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

/// Pairs of names in the order of the file, in either spelling: "a b", or ["a", "b"], which newer files use because
/// tokens may contain spaces.
///
/// Llama 3's 280,000 pairs are most of the file and took 80 MB as JSON values; here they take 6.
class MergeList {
 public:
  struct Pair {
    std::string_view left, right;
  };

  /// Adds a pair. The first malformed entry is stored in `wrong`; later entries are ignored.
  void take(const nlohmann::json& entry);

  /// The malformed entry at index `size()`; empty if all are well-formed.
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  [[nodiscard]] std::size_t size() const { return ends_.size() / 2; }

  [[nodiscard]] Pair operator[](std::size_t at) const;

 private:
  void put(std::string_view name);

  std::string names_; ///< all, one after another
  std::vector<std::uint32_t> ends_;
  std::string wrong_;
};

namespace detail {

/// A parser callback that moves the entries of `model.merges` into a list; the parsed value keeps an empty array.
class TakeMerges {
 public:
  /// Refers to `list`, which must outlive the parsing.
  explicit TakeMerges(MergeList& list) : list_(&list) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed);

 private:
  MergeList* list_;
  bool in_model_ = false, at_merges_ = false, in_list_ = false;
};

} // namespace detail

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_steps.inl.hpp"
#endif
