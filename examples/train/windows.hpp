// SPDX-License-Identifier: Apache-2.0
// Windows: the part of the tokens that each training step uses.
#pragma once

#include "sluice/core/random.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace training {

/// Windows of `length` tokens plus the next one. Each token of the stream occurs once per epoch, except a remainder at
/// both ends. Every epoch cuts at other places and uses its windows in another order, both determined by the seed.
///
/// Rejected: a random place for each window, which leaves a third of the text out of an epoch and repeats another
/// third.
class Windows {
 public:
  /// Keeps a reference to `tokens`, of which there must be more than 2 `length`.
  Windows(std::span<const std::uint16_t> tokens, std::size_t length, std::uint64_t seed)
      : tokens_(tokens), length_(length), random_(seed) {}

  std::span<const std::uint16_t> next() {
    if (at_ == begins_.size()) shuffle();
    return tokens_.subspan(begins_[at_++], length_ + 1);
  }

 private:
  void shuffle() {
    begins_.clear();
    at_ = 0;
    for (std::size_t begin = random_.below(length_); begin + length_ < tokens_.size(); begin += length_)
      begins_.push_back(begin);
    for (std::size_t i = begins_.size(); i > 1; --i) std::swap(begins_[i - 1], begins_[random_.below(i)]);
  }

  std::span<const std::uint16_t> tokens_;
  std::size_t length_;
  sluice::Random random_;
  std::vector<std::size_t> begins_;
  std::size_t at_ = 0;
};

} // namespace training
