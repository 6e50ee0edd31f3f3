// SPDX-License-Identifier: Apache-2.0
// Adds a projection to the residual stream: hidden += W x, for attention's output and an MLP's.
#pragma once

#include "sluice/model/decoder/eigen/activations.hpp"
#include "sluice/model/decoder/eigen/output_parts.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"
#include "sluice/model/decoder/thread_pool.hpp"

#include <cstdint>

namespace sluice {

/// hidden[to[r]] += factors[r] * (W x[r] + bias); `to` defaults to row r, `factors` to 1. Uses `projected`.
inline void add_projection(ThreadPool& pool, Activations& activations, const Matrix& w, const float* bias,
                           const ActivationRows& x, const int* to = nullptr, const float* factors = nullptr) {
  OutputParts parts;
  parts.add(w);
  pool.run(parts.count(), [&](int number, int /*thread*/) {
    const OutputParts::Part part = parts.part(number);
    project(x, w, part.first, part.last, activations.projected, activations.hidden_stride);
    for (int r = 0; r < x.count; ++r) {
      float* result = activations.projected + r * activations.hidden_stride;
      add_bias(bias, part.first, part.last, result);
      float* hidden = activations.hidden + (to != nullptr ? to[r] : r) * activations.hidden_stride;
      if (factors == nullptr) {
        for (std::int64_t i = part.first; i < part.last; ++i) hidden[i] += result[i];
      } else {
        for (std::int64_t i = part.first; i < part.last; ++i) hidden[i] += factors[r] * result[i];
      }
    }
  });
}

} // namespace sluice
