// SPDX-License-Identifier: Apache-2.0
// Windows: which part of the tokens a training step sees.
#pragma once

#include "sluice/core/random.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace training {

/// Windows of `length` tokens and the one after them, each token of the stream once in an epoch but for a rest at both
/// ends. Every epoch cuts elsewhere and takes its windows in another order; which ones depends on the seed alone.
///
/// Rejected: a random place for each window, which leaves a third of the text out of an epoch and sees another third
/// twice.
class Windows {
 public:
  /// Refers to `tokens`, of which there are more than 2 `length`.
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
