// SPDX-License-Identifier: Apache-2.0
// Rotary and Learned: how a decoder encodes a token's position.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/eigen/stored.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// RoPE (Su et al., "RoFormer", 2021) in Hugging Face's order: number i of a head rotates with number i + half.
class Rotary {
 public:
  Rotary(const DecoderConfig& config, const Matrix& /*table*/) : half_(config.shape.head_dim / 2) {
    SLUICE_ASSERT(config.shape.head_dim % 2 == 0, "a head of pairs");
    for (int pair = 0; pair < half_; ++pair) frequencies_.push_back(rotary_frequency(config, pair));
  }

  /// Floats that `begin` needs for this many rows.
  [[nodiscard]] std::int64_t floats(std::int64_t rows) const { return rows * 2 * half_; }
  /// Cosines and sines of the angles, computed in double: a float's angle is off by 1 % of a turn at position 10^6.
  void begin(std::span<const std::int32_t> positions, float* room) {
    room_ = room;
    for (const std::int32_t position : positions) {
      for (int pair = 0; pair < half_; ++pair) {
        const double angle = position * frequencies_[static_cast<std::size_t>(pair)];
        room[pair] = static_cast<float>(std::cos(angle));
        room[half_ + pair] = static_cast<float>(std::sin(angle));
      }
      room += 2 * half_;
    }
  }
  void embed(std::int32_t /*position*/, float* /*hidden*/) const {}
  /// Rotates one head of the row.
  void turn(int row, float* head) const {
    const float* cosines = room_ + std::int64_t{row} * 2 * half_;
    const float* sines = cosines + half_;
    for (int i = 0; i < half_; ++i) {
      const float low = head[i];
      const float high = head[half_ + i];
      head[i] = low * cosines[i] - high * sines[i];
      head[half_ + i] = high * cosines[i] + low * sines[i];
    }
  }

 private:
  int half_;
  std::vector<double> frequencies_;
  const float* room_ = nullptr;
};

/// Adds a row of a table to the embedding (OPT: from row 2 on).
class Learned {
 public:
  Learned(const DecoderConfig& config, const Matrix& table)
      : offset_(config.position_offset), table_(table), row_(static_cast<std::size_t>(table.columns)) {}

  [[nodiscard]] std::int64_t floats(std::int64_t /*rows*/) const { return 0; }
  void begin(std::span<const std::int32_t> /*positions*/, float* /*room*/) {}
  void embed(std::int32_t position, float* hidden) {
    SLUICE_ASSERT(position >= 0 && position + offset_ < table_.rows, "a position that the table has");
    widen(table_.row(position + offset_), table_.type, table_.columns, row_.data());
    for (std::size_t i = 0; i < row_.size(); ++i) hidden[i] += row_[i];
  }
  void turn(int /*row*/, float* /*head*/) const {}

 private:
  int offset_;
  Matrix table_;
  std::vector<float> row_;
};

} // namespace sluice
