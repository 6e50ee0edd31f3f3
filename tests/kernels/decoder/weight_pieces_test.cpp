// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder/runner_room.hpp"
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// The rows that the products of `pieces` read, in their order.
std::vector<const std::byte*> rows_of(const WeightPieces& pieces, std::int64_t row_bytes) {
  std::vector<const std::byte*> rows;
  for (int product = 0; product < pieces.products(); ++product) {
    const ProductWeights w = pieces.weights(product);
    for (int row = 0; row < pieces.outputs(product); ++row) {
      const void* const from = row < w.split ? w.head : w.tail;
      rows.push_back(static_cast<const std::byte*>(from) + (row < w.split ? row : row - w.split) * row_bytes);
    }
  }
  return rows;
}

} // namespace

TEST_CASE(
    "WeightPieces reads the rows of its matrices in order, wherever an image is cut, in one product if possible") {
  LayerLayout layout;
  layout.add(LayerTensor::query, 4, 16, ElementType::f32);
  layout.add(LayerTensor::key, 3, 16, ElementType::f32);
  layout.add(LayerTensor::value, 3, 16, ElementType::f32);
  const std::vector<std::byte> image(static_cast<std::size_t>(layout.bytes.count())), other(image.size());
  for (std::int64_t cut = 0; cut <= layout.bytes.count(); cut += 64) {
    const LayerWeights layer(layout, image.data(), other.data(), cut);
    WeightPieces pieces;
    std::vector<const std::byte*> expected;
    for (const Matrix* matrix : {&layer.query, &layer.key, &layer.value}) {
      pieces.add(*matrix);
      for (std::int64_t row = 0; row < matrix->rows; ++row) expected.push_back(matrix->row(row));
    }
    CHECK(pieces.products() == 1); // an image lies in two places at most
    CHECK(pieces.outputs() == 10);
    CHECK(rows_of(pieces, 64) == expected);
  }
}

TEST_CASE("WeightPieces combines separate matrices in pairs") {
  const std::vector<std::byte> a(128), b(192), c(64);
  const auto whole = [](const std::vector<std::byte>& memory) {
    return Matrix::whole(memory.data(), static_cast<std::int64_t>(memory.size()) / 64, 16, ElementType::f32);
  };
  WeightPieces pieces;
  std::vector<const std::byte*> expected;
  for (const auto* memory : {&a, &b, &c}) {
    pieces.add(whole(*memory));
    for (std::size_t at = 0; at < memory->size(); at += 64) expected.push_back(memory->data() + at);
  }
  CHECK(pieces.products() == 2);
  CHECK(rows_of(pieces, 64) == expected);
  CHECK(WeightPieces{}.products() == 0);
}
