// SPDX-License-Identifier: Apache-2.0
// SessionNumbers: numbers the sessions that clients name, and counts their turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sluice {

/// Remembers `most` sessions. Beyond that, the API key with the most sessions loses its least recently used one, so a
/// key with many sessions never displaces another key's. A session that comes back later is a new one.
class SessionNumbers {
 public:
  /// RequestSpec's `session` and `turn`.
  struct Turn {
    std::uint32_t session = 0;
    std::int32_t turn = 0;
  };

  explicit SessionNumbers(std::size_t most = 65'536) : most_(most) {}

  /// The session `id` of clients with this salt has its next turn: clients with other keys have other sessions.
  [[nodiscard]] Turn next(std::uint64_t salt, std::string_view id) {
    std::string name = std::to_string(salt) + ' ' + std::string{id};
    const auto found = known_.find(name);
    if (found != known_.end()) {
      Recent& own = of_salt_.at(salt);
      own.splice(own.begin(), own, found->second);
      ++own.front().second.turn;
      return own.front().second;
    }
    if (known_.size() >= most_) forget_one();
    Recent& own = of_salt_[salt];
    own.emplace_front(name, Turn{++numbers_, 0});
    known_.emplace(std::move(name), own.begin());
    return own.front().second;
  }

 private:
  using Recent = std::list<std::pair<std::string, Turn>>; ///< the last used first

  void forget_one() {
    const auto most = std::max_element(of_salt_.begin(), of_salt_.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    known_.erase(most->second.back().first);
    most->second.pop_back();
  }

  std::size_t most_;
  std::uint32_t numbers_ = 0;
  std::map<std::uint64_t, Recent> of_salt_;
  std::unordered_map<std::string, Recent::iterator> known_;
};

} // namespace sluice
