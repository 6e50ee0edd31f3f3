// SPDX-License-Identifier: Apache-2.0
// Recent: the last so many of what happened.
#pragma once

#include <array>
#include <cstddef>

namespace sluice {

/// Keeps the last `most` of what is added, in one place of one size: who adds for a year takes no more memory.
template <class T, std::size_t most>
class Recent {
 public:
  void add(const T& one) {
    all_[next_] = one;
    next_ = (next_ + 1) % most;
    if (size_ < most) ++size_;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Oldest first.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < size_; ++i) visit(all_[(next_ + most - size_ + i) % most]);
  }

 private:
  std::array<T, most> all_{};
  std::size_t next_ = 0, size_ = 0;
};

} // namespace sluice
