// SPDX-License-Identifier: Apache-2.0
// kernel_shape: a text of the dimensions that determine a model's kernel times; the number of layers is not one of
// them.
#pragma once

#include "sluice/model/shape.hpp"

#include <fmt/format.h>

#include <string>

namespace compared {

inline std::string kernel_shape(const sluice::ModelShape& m) {
  std::string text = fmt::format("hidden size {}, {} heads of {}, {} KV heads, MLP {}, vocabulary {}", m.hidden,
                                 m.heads, m.head_dim, m.kv_heads, m.mlp, m.vocabulary);
  if (m.experts > 0) text += fmt::format(", {} experts", m.experts);
  return text;
}

} // namespace compared
