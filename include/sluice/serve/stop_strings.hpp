// SPDX-License-Identifier: Apache-2.0
// StopStrings: ends an answer before a stop string, even if the string is split among pieces.
#pragma once

#include "sluice/core/compiled.hpp"

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
  explicit StopStrings(std::vector<std::string> stops = {}, bool include = false);

  /// Adds `piece` and returns the text that can be sent now.
  [[nodiscard]] std::string push(std::string_view piece);
  /// Returns the text held back, for an answer that ends without a stop string.
  [[nodiscard]] std::string finish() { return std::exchange(held_, {}); }
  /// Returns whether a stop string has ended the answer.
  [[nodiscard]] bool hit() const { return hit_; }

 private:
  /// Returns the length of the longest suffix of the held text with which `stop` begins.
  [[nodiscard]] std::size_t begun(const std::string& stop) const;

  std::vector<std::string> stops_;
  bool include_ = false;
  std::string held_;
  bool hit_ = false;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/stop_strings.inl.hpp"
#endif
