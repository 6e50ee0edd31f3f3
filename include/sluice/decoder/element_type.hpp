// SPDX-License-Identifier: Apache-2.0
// ElementType: how a number of weights, activations or KV cache is stored.
#pragma once

#include <cstdint>

namespace sluice {

/// How a number is stored. All arithmetic is in f32.
enum class ElementType : std::uint8_t { f32, f16, bf16 };

[[nodiscard]] constexpr int bytes_of(ElementType type) { return type == ElementType::f32 ? 4 : 2; }

} // namespace sluice
