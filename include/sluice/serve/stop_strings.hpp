// SPDX-License-Identifier: Apache-2.0
// StopStrings: ends an answer before a stop string, even if the string is split among pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Filters an answer's text piece by piece, and holds back any suffix that may begin a stop string. Drops a stop string
/// and the text after it, or with `include` only the text after it. If one piece completes several stop strings, the
/// one that begins first counts.
class StopStrings {
 public:
  /// Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops = {}, bool include = false)
      : stops_(std::move(stops)), include_(include) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  }

  /// Adds `piece` and returns the text that can be sent now.
  [[nodiscard]] std::string push(std::string_view piece) {
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
  /// Returns the text held back, for an answer that ends without a stop string.
  [[nodiscard]] std::string finish() { return std::exchange(held_, {}); }
  /// Returns whether a stop string has ended the answer.
  [[nodiscard]] bool hit() const { return hit_; }

 private:
  /// Returns the length of the longest suffix of the held text with which `stop` begins.
  [[nodiscard]] std::size_t begun(const std::string& stop) const {
    for (std::size_t bytes = std::min(stop.size() - 1, held_.size()); bytes > 0; --bytes)
      if (std::string_view(held_).substr(held_.size() - bytes) == std::string_view(stop).substr(0, bytes)) return bytes;
    return 0;
  }

  std::vector<std::string> stops_;
  bool include_ = false;
  std::string held_;
  bool hit_ = false;
};

} // namespace sluice
