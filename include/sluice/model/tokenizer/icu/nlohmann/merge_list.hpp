// SPDX-License-Identifier: Apache-2.0
// MergeList: collects the merges of a tokenizer.json while it is parsed.
#pragma once

#include "sluice/core/compiled.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

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
#include "sluice/model/tokenizer/icu/nlohmann/merge_list.inl.hpp"
#endif
