// SPDX-License-Identifier: Apache-2.0
// SessionNumbers: numbers the sessions that clients name, and counts their turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sluice {

/// Remembers the sessions used last, `most` of them. A session that comes back later than that is a new one.
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
      recent_.splice(recent_.begin(), recent_, found->second);
      ++found->second->second.turn;
      return found->second->second;
    }
    if (known_.size() >= most_) {
      known_.erase(recent_.back().first);
      recent_.pop_back();
    }
    recent_.emplace_front(name, Turn{++numbers_, 0});
    known_.emplace(std::move(name), recent_.begin());
    return recent_.front().second;
  }

 private:
  using Recent = std::list<std::pair<std::string, Turn>>;

  std::size_t most_;
  std::uint32_t numbers_ = 0;
  Recent recent_; ///< the last used first
  std::unordered_map<std::string, Recent::iterator> known_;
};

} // namespace sluice
