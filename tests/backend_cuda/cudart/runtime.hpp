// SPDX-License-Identifier: Apache-2.0
// EmulatedRuntime: what the functions of CUDA's runtime do in the test that is linked with runtime.cpp, and not with
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

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
  bool has_cublas_lt = true;
  bool batches = true;              ///< else the driver knows no batches of copies
  bool graphs = true;               ///< else the driver refuses to capture launches
  std::int64_t graphs_at_most = -1; ///< so many, and then no memory for more; -1: as many as are asked for
  std::int64_t fails_at = -1;       ///< the number of the call from which on the context is lost; -1: none
  // What came of it:
  std::int64_t calls = 0; ///< that could fail
  std::int64_t batched = 0;
  std::int64_t multiplied = 0; ///< products by the library
  std::int64_t gathered = 0;   ///< copies by a kernel: counted by who launches it
  std::int64_t events = 0;     ///< that there are
  std::int64_t graphs_alive = 0, instantiated = 0, replayed = 0;
  std::int64_t allocations = 0;
};

/// The device of the one there is, and which of its streams a handle is: for what launches kernels.
emulate::Device& runtime_device();
int stream_number(CUstream_st* stream);
/// A function of the host, in a stream.
void give(CUstream_st* stream, std::function<void()> work);
/// For what stands in for a call of the runtime: counts it, and says whether the context is lost.
bool runtime_lost();

/// The one there is, as after `restart_runtime`.
EmulatedRuntime& emulated_runtime();
/// A device with nothing on it, whose order is drawn from `seed`.
void restart_runtime(std::uint64_t seed);

} // namespace sluice::testing
