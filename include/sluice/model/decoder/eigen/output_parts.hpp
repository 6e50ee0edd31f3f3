// SPDX-License-Identifier: Apache-2.0
// OutputParts: the outputs of one or more matrices, cut into parts for threads.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace sluice {

/// Matrices that are applied in one job, with outputs in parts of about 128 KiB of weights: reads long enough for
/// prefetching, and parts short enough that threads end together. Parts start at multiples of 16 outputs, so that no
/// two threads write to one cache line.
class OutputParts {
 public:
  struct Part {
    int matrix = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
  };

  void add(const Matrix& matrix) {
    SLUICE_ASSERT(count_ < most, "more matrices than a job has");
    const std::int64_t fit = part_bytes / std::max<std::int64_t>(1, matrix.row_bytes());
    const std::int64_t outputs = std::clamp<std::int64_t>(fit / 16 * 16, 16, 96);
    const int parts = static_cast<int>((matrix.rows + outputs - 1) / outputs);
    spans_[static_cast<std::size_t>(count_++)] = {parts, outputs, matrix.rows};
    parts_ += parts;
  }
  [[nodiscard]] int count() const { return parts_; }
  [[nodiscard]] Part part(int number) const {
    int matrix = 0;
    while (number >= spans_[static_cast<std::size_t>(matrix)].parts)
      number -= spans_[static_cast<std::size_t>(matrix++)].parts;
    const Span& span = spans_[static_cast<std::size_t>(matrix)];
    return {matrix, number * span.outputs, std::min(span.rows, (number + 1) * span.outputs)};
  }

 private:
  struct Span {
    int parts = 0;
    std::int64_t outputs = 0; ///< of each part but the last
    std::int64_t rows = 0;
  };
  static constexpr int most = 3;
  static constexpr std::int64_t part_bytes = 128 << 10;

  std::array<Span, most> spans_{};
  int count_ = 0;
  int parts_ = 0;
};

} // namespace sluice
