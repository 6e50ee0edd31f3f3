// SPDX-License-Identifier: Apache-2.0
// WeightPieces: matrices that are multiplied by the same rows, as the places that they lie in.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/weights.hpp"

#include "kernels/products/product_call.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// The rows of some matrices one below the other. What lies side by side in memory is one piece, so that query, key and
/// value of a layer's image are one product, and so are gate and up: one launch, and x is read once. A matrix of which
/// a share streams has two pieces, and a product takes two, its `head` and its `tail`.
///
/// No output's sum depends on which product it is computed by, so neither do the bits.
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

  /// How many products they are.
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
