// SPDX-License-Identifier: Apache-2.0
// BenchDevice: the device interface of this folder's programs; Device: the model for which the program is built.
#pragma once

#include "sluice/core/expected.hpp"

#include <cstddef>
#include <stdexcept>

namespace gpu_bench {

/// Fails a row after a device error or a wrong result. Only these measuring programs throw it, not the library.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(const sluice::Status& status) {
  if (!status.ok()) throw Failed(status.error().line());
}

} // namespace gpu_bench

/// Two types model it, chosen at compile time so that one source serves both: a GPU through the CUDA runtime, with the
/// kernels that nvcc compiled, and the emulator, which instantiates them. Both have
///
/// - `name()`; `real`: whether its times are a device's; `cache_bytes()`: size of its L2 cache
/// - `memory(bytes)`, `pinned(bytes)`: owning, with `data()` and `size()`, of exactly that size
/// - `up`, `down` (`to`, `from`, `bytes`): done when they return. `poison(memory)`: every byte 0xff.
///   `fill(to, count, numbers)`: Numbers, from number 0 on
/// - `launch<config>(params)`: the kernel of a listed configuration; `launch_kernel<K>(params)`: one that is not listed
/// - `finish()`: waits, and throws any error; `alive()`: whether the device is still usable after an error
/// - `time(repetitions, calls, enqueue)`: seconds of each repetition per call; `enqueue(i)` enqueues call i of a
///   repetition, 0 .. calls - 1, which a device repeats as a graph, several times if they are short
/// - `repeat(repetitions, calls, enqueue)`: the same without a graph, `enqueue()` for a whole repetition;
///   `repeat_both(other, repetitions, one, two)`: two at once; `be_brief()`: from here on no warm-up and no more calls
///   than asked for
/// - `copy`, `copy_batch`: enqueued, one or many
/// - `MachineLink(device, bytes)`: memory of both kinds, `host()` and `device()`, and `repeat(repetitions, copies,
/// to_device)`:
///   seconds of the copies as a machine's link makes them
#if defined(SLUICE_BENCH_EMULATED)
#include "emulated_bench.hpp"
namespace gpu_bench {
using Device = EmulatedBench;
}
#else
#include "cuda_bench.hpp"
namespace gpu_bench {
using Device = CudaBench;
}
#endif
