// SPDX-License-Identifier: Apache-2.0
// MergeList: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/merge_list.hpp"

namespace sluice {

SLUICE_MODEL_INLINE void MergeList::take(const nlohmann::json& entry) {
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

SLUICE_MODEL_INLINE MergeList::Pair MergeList::operator[](std::size_t at) const {
  const std::string_view names = names_;
  const std::size_t begin = at == 0 ? 0 : ends_[2 * at - 1], middle = ends_[2 * at], end = ends_[2 * at + 1];
  return {names.substr(begin, middle - begin), names.substr(middle, end - middle)};
}

SLUICE_MODEL_INLINE void MergeList::put(std::string_view name) {
  names_ += name;
  ends_.push_back(static_cast<std::uint32_t>(names_.size())); // a file has at most 64 MiB
}

} // namespace sluice

namespace sluice::detail {

SLUICE_MODEL_INLINE bool TakeMerges::operator()(int depth, nlohmann::json::parse_event_t event,
                                                const nlohmann::json& parsed) {
  using Event = nlohmann::json::parse_event_t;
  if (event == Event::key && depth == 1) in_model_ = parsed == "model";
  if (event == Event::key && depth == 2) at_merges_ = in_model_ && parsed == "merges";
  if (depth == 2 && event == Event::array_start) in_list_ = at_merges_;
  if (depth == 2 && event == Event::array_end) in_list_ = false;
  const bool element = depth == 3 && (event == Event::value || event == Event::array_end || event == Event::object_end);
  if (!in_list_ || !element) return true;
  list_->take(parsed);
  return false;
}

} // namespace sluice::detail
