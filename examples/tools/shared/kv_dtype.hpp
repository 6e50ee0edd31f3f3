// SPDX-License-Identifier: Apache-2.0
// --kv-dtype: the type that K and V are kept in.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"

#include <string>
#include <utility>

inline constexpr const char* kv_dtype_help =
    "the type of KV: auto (what the checkpoint says, else its data type), fp8, bf16, fp16 or f32";

/// Bytes of one element; 0 for auto.
inline sluice::Expected<int> read_kv_dtype(const std::string& name) {
  for (const auto& [type, bytes] : {std::pair{"auto", 0}, {"fp8", 1}, {"bf16", 2}, {"fp16", 2}, {"f32", 4}})
    if (name == type) return bytes;
  return sluice::Error{sluice::ErrorCode::bad_input, "--kv-dtype", "it is '" + sluice::excerpt(name) + "'",
                       "auto, fp8, bf16, fp16 or f32"};
}
