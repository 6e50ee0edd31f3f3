// SPDX-License-Identifier: Apache-2.0
// WeightPieces: the memory pieces of matrices that are multiplied by the same rows.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/weights.hpp"

#include "kernels/products/product_call.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// The rows of some matrices, stacked. Matrices that are adjacent in memory are one piece, so that a layer's query, key
/// and value are one product, and so are gate and up: one launch, which reads x once. A matrix with a streamed share
/// has two pieces; one product takes two pieces, its `head` and its `tail`.
///
/// The sum of an output does not depend on which product computes it, so neither do its bits.
class WeightPieces {
 public:
  WeightPieces() = default;
  explicit WeightPieces(const Matrix& matrix) { add(matrix); }

  /// At most three matrices.
  void add(const Matrix& matrix) {
    SLUICE_ASSERT(inputs_ == 0 || inputs_ == matrix.columns, "matrices of as many columns");
    inputs_ = static_cast<int>(matrix.columns);
    row_bytes_ = matrix.row_bytes();
    add(matrix.head, std::min(matrix.split, matrix.rows));
    add(matrix.tail, matrix.rows - std::min(matrix.split, matrix.rows));
  }

  /// The number of products.
  [[nodiscard]] int products() const { return (count_ + 1) / 2; }
  [[nodiscard]] int inputs() const { return inputs_; }
  /// Of all products.
  [[nodiscard]] int outputs() const {
    int all = 0;
    for (int product = 0; product < products(); ++product) all += outputs(product);
    return all;
  }
  /// Rows of one product's matrix.
  [[nodiscard]] int outputs(int product) const { return piece(2 * product).rows + piece(2 * product + 1).rows; }
  [[nodiscard]] ProductWeights weights(int product) const {
    const Piece& head = piece(2 * product);
    return {head.at, piece(2 * product + 1).at, head.rows};
  }

 private:
  struct Piece {
    const std::byte* at = nullptr;
    int rows = 0;
  };
  [[nodiscard]] const Piece& piece(int at) const { return pieces_[static_cast<std::size_t>(at)]; }

  void add(const std::byte* at, std::int64_t rows) {
    if (rows == 0) return;
    if (count_ > 0) {
      Piece& last = pieces_[static_cast<std::size_t>(count_ - 1)];
      if (last.at + last.rows * row_bytes_ == at) {
        last.rows += static_cast<int>(rows);
        return;
      }
    }
    pieces_[static_cast<std::size_t>(count_++)] = {at, static_cast<int>(rows)};
  }

  std::array<Piece, 8> pieces_{}; // those behind `count_` are empty
  int count_ = 0;
  int inputs_ = 0;
  std::int64_t row_bytes_ = 0;
};

} // namespace sluice::kernels
