// SPDX-License-Identifier: Apache-2.0
// WeightFormat: how a weight matrix is stored, and the bytes that follow.
#pragma once

#include <cstdint>

namespace sluice {

/// How the elements of a matrix are stored: their bits, and the scales that come with them. Scales that engines keep
/// beside the weights count; scales of activations do not (a few bytes per matrix).
struct WeightFormat {
  int element_bits = 16;
  int scale_bits = 0;    ///< of one scale; 0: no scales
  int zero_bits = 0;     ///< of one zero point, beside each scale
  int block_rows = 1;    ///< outputs that share a scale; 0: all
  int block_columns = 0; ///< inputs that share a scale; 0: all
  int matrix_bits = 0;   ///< once per matrix: NVFP4's second scale
  int column_bits = 0;   ///< once per input: GPTQ's group index

  friend constexpr bool operator==(const WeightFormat&, const WeightFormat&) = default;

  /// Bytes of a matrix of `rows` outputs and `columns` inputs.
  [[nodiscard]] constexpr std::int64_t bytes(std::int64_t rows, std::int64_t columns) const {
    const auto parts = [](std::int64_t size, int block) { return block == 0 ? 1 : (size + block - 1) / block; };
    const std::int64_t blocks = parts(rows, block_rows) * parts(columns, block_columns);
    const std::int64_t bits =
        rows * columns * element_bits + blocks * (scale_bits + zero_bits) + matrix_bits + columns * column_bits;
    return (bits + 7) / 8;
  }
};

/// Elements without scales, of `bytes` bytes each.
constexpr WeightFormat plain_weights(int bytes) { return {.element_bits = 8 * bytes}; }
/// FP8 with one f32 scale per matrix.
constexpr WeightFormat fp8_weights() { return {.element_bits = 8, .scale_bits = 32, .block_rows = 0}; }
/// FP8 with one scale of `scale_bits` bits per block (DeepSeek-V3: 128 x 128, f32).
constexpr WeightFormat fp8_block_weights(int rows, int columns, int scale_bits = 32) {
  return {.element_bits = 8, .scale_bits = scale_bits, .block_rows = rows, .block_columns = columns};
}
/// NVFP4: 4 bits, an FP8 scale per `group` inputs and an f32 scale per matrix.
constexpr WeightFormat nvfp4_weights(int group) {
  return {.element_bits = 4, .scale_bits = 8, .block_columns = group, .matrix_bits = 32};
}
/// The OCP microscaling formats: MXFP4 (4 bits) and MXFP8 (8), an E8M0 scale per 32 inputs.
constexpr WeightFormat mx_weights(int bits) { return {.element_bits = bits, .scale_bits = 8, .block_columns = 32}; }

} // namespace sluice
