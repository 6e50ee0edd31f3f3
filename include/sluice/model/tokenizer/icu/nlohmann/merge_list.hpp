// SPDX-License-Identifier: Apache-2.0
// MergeList: collects the merges of a tokenizer.json while it is parsed.
#pragma once

#include "sluice/core/text.hpp"

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
  void take(const nlohmann::json& entry) {
    if (!wrong_.empty()) return;
    if (entry.is_string()) {
      const std::string_view text = entry.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
        put(text.substr(0, space));
        put(text.substr(space + 1));
      } else {
        wrong_ = "'" + excerpt(text) + "'";
      }
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      put(entry[0].get_ref<const std::string&>());
      put(entry[1].get_ref<const std::string&>());
    } else {
      wrong_ = std::string{"this "} + entry.type_name();
    }
  }

  /// The malformed entry at index `size()`; empty if all are well-formed.
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  [[nodiscard]] std::size_t size() const { return ends_.size() / 2; }

  [[nodiscard]] Pair operator[](std::size_t at) const {
    const std::string_view names = names_;
    const std::size_t begin = at == 0 ? 0 : ends_[2 * at - 1], middle = ends_[2 * at], end = ends_[2 * at + 1];
    return {names.substr(begin, middle - begin), names.substr(middle, end - middle)};
  }

 private:
  void put(std::string_view name) {
    names_ += name;
    ends_.push_back(static_cast<std::uint32_t>(names_.size())); // a file has at most 64 MiB
  }

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

  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::key && depth == 1) in_model_ = parsed == "model";
    if (event == Event::key && depth == 2) at_merges_ = in_model_ && parsed == "merges";
    if (depth == 2 && event == Event::array_start) in_list_ = at_merges_;
    if (depth == 2 && event == Event::array_end) in_list_ = false;
    const bool element =
        depth == 3 && (event == Event::value || event == Event::array_end || event == Event::object_end);
    if (!in_list_ || !element) return true;
    list_->take(parsed);
    return false;
  }

 private:
  MergeList* list_;
  bool in_model_ = false, at_merges_ = false, in_list_ = false;
};

} // namespace detail

} // namespace sluice
