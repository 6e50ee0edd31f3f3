// SPDX-License-Identifier: Apache-2.0
// StopStrings: ends an answer where a stop string begins, however it is cut into pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Passes an answer's text on piece by piece, and holds back what may be the beginning of a stop string. Nothing of a
/// stop string that came is ever passed on, and nothing after it; of several that are whole with one piece, the one
/// that begins first counts.
class StopStrings {
 public:
  /// Empty strings stop nothing.
  explicit StopStrings(std::vector<std::string> stops = {}) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  }

  /// What of the text so far can be passed on now.
  [[nodiscard]] std::string push(std::string_view piece) {
    if (hit_) return {};
    if (stops_.empty()) return std::string{piece};
    held_ += piece;
    std::size_t first = std::string::npos;
    for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
    if (first != std::string::npos) {
      hit_ = true;
      std::string text = held_.substr(0, first);
      held_.clear();
      return text;
    }
    std::size_t keep = 0;
    for (const std::string& stop : stops_) keep = std::max(keep, begun(stop));
    std::string text = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return text;
  }
  /// What was held back, where the answer ends otherwise.
  [[nodiscard]] std::string finish() { return std::exchange(held_, {}); }
  /// Whether a stop string has come: the answer has ended before it.
  [[nodiscard]] bool hit() const { return hit_; }

 private:
  /// Bytes at the end of what is held that begin `stop`.
  [[nodiscard]] std::size_t begun(const std::string& stop) const {
    for (std::size_t bytes = std::min(stop.size() - 1, held_.size()); bytes > 0; --bytes)
      if (std::string_view(held_).substr(held_.size() - bytes) == std::string_view(stop).substr(0, bytes)) return bytes;
    return 0;
  }

  std::vector<std::string> stops_;
  std::string held_;
  bool hit_ = false;
};

} // namespace sluice
