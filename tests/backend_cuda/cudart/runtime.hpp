// SPDX-License-Identifier: Apache-2.0
// EmulatedRuntime: what the functions of CUDA's runtime do in the test that is linked with runtime.cpp, and not with
// it.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace sluice::emulate {
class Device;
}

namespace sluice::testing {

/// One device of the kernels' emulator behind CUDA's function names: streams run when the host asks or waits, copies in
/// pieces, those of a batch in any order. A test sets what goes wrong.
struct EmulatedRuntime {
  int driver_version = 13000;
  int devices = 1;
  std::size_t free_bytes = std::size_t{1} << 30;
  bool batches = true;        ///< else the driver knows no batches of copies
  std::int64_t fails_at = -1; ///< the number of the call from which on the context is lost; -1: none
  // What came of it:
  std::int64_t calls = 0; ///< that could fail
  std::int64_t batched = 0;
  std::int64_t events = 0; ///< that there are
  std::int64_t allocations = 0;
};

/// The device of the one there is, and which of its streams a handle is: for what launches kernels.
emulate::Device& runtime_device();
int stream_number(CUstream_st* stream);

/// The one there is, as after `restart_runtime`.
EmulatedRuntime& emulated_runtime();
/// A device with nothing on it, whose order is drawn from `seed`.
void restart_runtime(std::uint64_t seed);

} // namespace sluice::testing
