// SPDX-License-Identifier: Apache-2.0
// aligned: whether memory can be accessed in packets of 16 bytes, for the assertions of a kernel's grid().
#pragma once

#include <cstdint>

namespace sluice::kernels {

/// Whether each of these addresses is a multiple of 16 (null is). Runs on the host, so it cannot check addresses in a
/// table in device memory.
template <class... At>
[[nodiscard]] inline bool aligned(const At*... at) {
  return ((reinterpret_cast<std::uintptr_t>(at) % 16 == 0) && ...);
}

} // namespace sluice::kernels
