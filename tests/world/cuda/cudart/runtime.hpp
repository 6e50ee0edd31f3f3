// SPDX-License-Identifier: Apache-2.0
// EmulatedRuntime: controls the functions of CUDA's runtime in tests that are linked with runtime.cpp instead of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

struct CUstream_st;

namespace sluice::emulate {
class Device;
}

namespace sluice::testing {

/// One device of the kernels' emulator behind CUDA's function names: streams run when the host queries or waits; copies
/// are made in pieces, a batch's in any order. A test sets the faults.
struct EmulatedRuntime {
  int driver_version = 13000;
  int devices = 1;
  std::size_t free_bytes = std::size_t{1} << 30; ///< of the device's and of pinned memory
  bool has_cublas_lt = true;
  bool batches = true;              ///< false: the driver refuses batches of copies
  bool graphs = true;               ///< false: the driver refuses to capture launches
  std::int64_t graphs_at_most = -1; ///< this many, then no memory for more; -1: no limit
  std::int64_t fails_at = -1;       ///< number of the call from which on the context is lost; -1: none
  // Counters:
  std::int64_t calls = 0; ///< calls that can fail
  std::int64_t batched = 0;
  std::int64_t copied = 0;             ///< bytes
  std::int64_t multiplied = 0;         ///< products by the library
  std::int64_t gathered = 0;           ///< copies by a kernel, counted by its launcher
  std::int64_t events = 0;             ///< alive
  std::int64_t timed = 0, untimed = 0; ///< events recorded
  std::int64_t graphs_alive = 0, instantiated = 0, replayed = 0;
  std::int64_t allocations = 0;
};

/// The runtime's device, and which of its streams a handle is: for launching kernels.
emulate::Device& runtime_device();
int stream_number(CUstream_st* stream);
/// Enqueues a host function in a stream.
void give(CUstream_st* stream, std::function<void()> work);
/// For stand-ins of runtime calls: counts the call, and returns whether the context is lost.
bool runtime_lost();

/// Resets the runtime, as after `restart_runtime`.
EmulatedRuntime& emulated_runtime();
/// A fresh device, whose order is drawn from `seed`.
void restart_runtime(std::uint64_t seed);

} // namespace sluice::testing
