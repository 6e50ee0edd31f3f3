// SPDX-License-Identifier: Apache-2.0
// StopStrings: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/stop_strings.hpp"

#include <algorithm>

namespace sluice {

SLUICE_SERVER_INLINE StopStrings::StopStrings(std::vector<std::string> stops, bool include)
    : stops_(std::move(stops)), include_(include) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

SLUICE_SERVER_INLINE std::string StopStrings::push(std::string_view piece) {
  if (hit_) return {};
  if (stops_.empty()) return std::string{piece};
  held_ += piece;
  std::size_t first = std::string::npos, length = 0;
  for (const std::string& stop : stops_)
    if (const std::size_t at = held_.find(stop); at < first) first = at, length = stop.size();
  if (first != std::string::npos) {
    hit_ = true;
    std::string text = held_.substr(0, first + (include_ ? length : 0));
    held_.clear();
    return text;
  }
  std::size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, begun(stop));
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return text;
}

SLUICE_SERVER_INLINE std::size_t StopStrings::begun(const std::string& stop) const {
  for (std::size_t bytes = std::min(stop.size() - 1, held_.size()); bytes > 0; --bytes)
    if (std::string_view(held_).substr(held_.size() - bytes) == std::string_view(stop).substr(0, bytes)) return bytes;
  return 0;
}

} // namespace sluice
