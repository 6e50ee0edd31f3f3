// SPDX-License-Identifier: Apache-2.0
// View: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE void OutputLengths::learn(Tokens output) {
  if (past_.size() == window) {
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), past_[oldest_]));
    past_[oldest_] = output.count();
    oldest_ = (oldest_ + 1) % window;
  } else {
    past_.push_back(output.count());
  }
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), output.count()), output.count());
}

} // namespace sluice
