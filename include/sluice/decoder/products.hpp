// SPDX-License-Identifier: Apache-2.0
// Products: by what a device multiplies that has the choice.
#pragma once

#include <cstdint>

namespace sluice {

/// Servers know the choice as batch-invariant (vLLM) or deterministic inference (SGLang).
enum class Products : std::uint8_t {
  invariant, ///< a row's bits are its own, whatever the batch: every system generates the same tokens
  fast       ///< by the library of the device's maker, whose rows may depend on how many there are
};

} // namespace sluice
