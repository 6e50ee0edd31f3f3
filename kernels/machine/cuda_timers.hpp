// SPDX-License-Identifier: Apache-2.0
// cuda_batch_timer, cuda_copy_timer: a GPU measured by the runner and the copies that a machine on it has. The target
// sluice::cuda has them; no header of CUDA is needed to call them.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/batch_timer.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/measure_copies.hpp"
#include "sluice/world/machine/measure_runner.hpp"

#include <memory>

namespace sluice {

/// Times what a runner launches. `weights`: what `cuda_weights` returned. It reserves memory of the GPU of its own, and
/// gives it back when it goes. Errors: those of `open_cuda`, there are no kernels for the model, and too little memory.
/// Of a GPU that fails later the times mean nothing: `cuda_status` says so.
[[nodiscard]] Expected<std::unique_ptr<BatchTimer>> cuda_batch_timer(const ModelWeights& weights,
                                                                     const MachineSetup& setup, const TimerRoom& room);

/// Times copies between the GPU's memory and pinned memory of the host: `arena` of each, each way.
[[nodiscard]] Expected<std::unique_ptr<CopyTimer>> cuda_copy_timer(Bytes arena);

/// Ok, or what the driver says of work that a GPU was given and failed at.
[[nodiscard]] Status cuda_status();

} // namespace sluice
