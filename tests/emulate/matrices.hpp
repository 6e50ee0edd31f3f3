// SPDX-License-Identifier: Apache-2.0
// ldmatrix and mma.sync: the last lane of a warp to arrive computes for all lanes (PTX ISA 9.0, 9.7.14.5: matrix
// fragments).
#pragma once

#include "emulate/block.hpp"
#include "kernels/element.hpp"

#include <cstdint>
#include <cstring>

namespace sluice::emulate {

/// A lane of ldmatrix passes the row that it names, and receives the places of its own words: of matrix m the m-th, or,
/// for transposed matrices, the places 2 m and 2 m + 1 of its two halves.
struct MatrixPlaces {
  const char* at[8];
};

/// Eight rows of 16 bytes are read at once unless two of them share four banks: each such pair is a conflict.
EMULATE_UNSEEN inline std::uint64_t conflicts_of(const char* const (&rows)[32]) {
  std::uint64_t conflicts = 0;
  for (int matrix = 0; matrix < 4; ++matrix) {
    int in_banks[8] = {}, worst = 0;
    for (int row = 0; row < 8; ++row) {
      const auto banks = reinterpret_cast<std::uintptr_t>(rows[matrix * 8 + row]) / 16 % 8;
      if (++in_banks[banks] > worst) worst = in_banks[banks];
    }
    conflicts += static_cast<std::uint64_t>(worst - 1);
  }
  return conflicts;
}

inline void place_matrices(Block& block, MatrixPlaces* lanes, bool transposed, Where where) {
  const char* rows[32];
  for (int lane = 0; lane < 32; ++lane) {
    rows[lane] = lanes[lane].at[0];
    block.require_shared(rows[lane], 16, "a row of a matrix", where);
    block.require_aligned(rows[lane], 16, "a row of a matrix", where);
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      if (transposed) {
        for (int half = 0; half < 2; ++half)
          lanes[lane].at[matrix * 2 + half] = rows[matrix * 8 + lane % 4 * 2 + half] + lane / 4 * 2;
      } else {
        lanes[lane].at[matrix] = rows[matrix * 8 + lane / 4] + lane % 4 * 4;
      }
    }
  }
  Report& report = block.report();
  const std::uint64_t conflicts = conflicts_of(rows);
  report.matrices += 4;
  report.conflicts += conflicts;
  if (conflicts > report.most_conflicts) {
    report.most_conflicts = conflicts;
    report.most_conflicts_at = where;
  }
}

/// A lane's operands of mma.m16n8k16; `c` is also its result.
struct Operands {
  std::uint32_t a[4], b[2];
  float c[4];
};

/// c += a b for the warp, each sum in the order of k. Hardware's order and rounding inside a product of 16 terms are
/// its own, and documented nowhere.
template <kernels::Element T>
EMULATE_UNSEEN void multiply(Operands* lanes) {
  using Four = float __attribute__((vector_size(16)));
  float a[16][16];
  alignas(16) Four b[16][2], c[16][2];
  const auto number = [](std::uint32_t word, int half) {
    return kernels::widen(T{static_cast<std::uint16_t>(word >> (16 * half))});
  };
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, column = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) a[row + i % 2 * 8][column + i / 2 * 8 + half] = number(lanes[lane].a[i], half);
      for (int i = 0; i < 2; ++i) b[column + i * 8 + half][row / 4][row % 4] = number(lanes[lane].b[i], half);
      for (int i = 0; i < 2; ++i)
        c[row + i * 8][(column + half) / 4][(column + half) % 4] = lanes[lane].c[i * 2 + half];
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int columns = 0; columns < 2; ++columns) c[row][columns] += a[row][k] * b[k][columns];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, column = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) lanes[lane].c[i] = c[row + i / 2 * 8][(column + i % 2) / 4][(column + i % 2) % 4];
  }
}

} // namespace sluice::emulate
