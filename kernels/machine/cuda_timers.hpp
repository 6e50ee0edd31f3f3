// SPDX-License-Identifier: Apache-2.0
// cuda_batch_timer, cuda_copy_timer: time a GPU with the runner and the copies of a machine on it. The target
// sluice::cuda provides them; callers need no CUDA header.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/batch_timer.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/stream/measure_copies.hpp"
#include "sluice/world/stream/measure_runner.hpp"

#include <memory>

namespace sluice {

/// Times a runner's launches. `weights`: the result of `cuda_weights`. It reserves its own GPU memory, which its
/// destructor frees. Errors: those of `open_cuda`, missing kernels for the model, and too little memory. If the GPU
/// fails later, the times mean nothing, and `cuda_status` returns the error.
[[nodiscard]] Expected<std::unique_ptr<BatchTimer>> cuda_batch_timer(const ModelWeights& weights,
                                                                     const MachineSetup& setup, const TimerRoom& room);

/// Times copies between the GPU's memory and pinned host memory, in both directions; `arena`: size of each memory.
[[nodiscard]] Expected<std::unique_ptr<CopyTimer>> cuda_copy_timer(Bytes arena);

/// Ok, or the driver's error for work that failed on the GPU.
[[nodiscard]] Status cuda_status();

} // namespace sluice
