// SPDX-License-Identifier: Apache-2.0
// KeyHolders: which engines may hold a block, so that the others need not be asked.
#pragma once

#include "sluice/workload/content.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice {

/// The engines that were sent a request whose first block has a key: only they can find anything of a prompt that
/// begins with it. Asking a thousand engines for each request is a thousand cache misses; asking those few is few.
class KeyHolders {
 public:
  /// In the order in which they were added.
  [[nodiscard]] std::span<const std::uint32_t> of(BlockKey first) const {
    const auto at = holders_.find(static_cast<std::uint64_t>(first));
    return at == holders_.end() ? std::span<const std::uint32_t>{} : std::span<const std::uint32_t>{at->second};
  }
  /// The engine was sent a request that begins with this block.
  void add(BlockKey first, std::uint32_t engine) {
    std::vector<std::uint32_t>& engines = holders_[static_cast<std::uint64_t>(first)];
    if (std::find(engines.begin(), engines.end(), engine) != engines.end()) return;
    engines.push_back(engine);
    ++count_;
  }
  /// Whether so much has been added that it is time to `sweep`: each sweep removes half or doubles the time to the
  /// next.
  [[nodiscard]] bool full() const { return count_ >= limit_; }
  /// Keeps an engine with a key if `keeps(key, engine)`.
  template <class Keeps>
  void sweep(Keeps&& keeps) {
    count_ = 0;
    for (auto at = holders_.begin(); at != holders_.end();) {
      auto& [key, engines] = *at;
      std::erase_if(engines, [&, first = BlockKey{key}](std::uint32_t engine) { return !keeps(first, engine); });
      count_ += engines.size();
      at = engines.empty() ? holders_.erase(at) : std::next(at);
    }
    limit_ = std::max(least, 2 * count_);
  }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  static constexpr std::size_t least = 4096;

  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> holders_;
  std::size_t count_ = 0, limit_ = least;
};

} // namespace sluice
