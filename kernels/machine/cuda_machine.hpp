// SPDX-License-Identifier: Apache-2.0
// make_cuda_machine: a model on a GPU, computed by this project's kernels; what a caller checks and times before.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cuda/gather.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/local/rates.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/token_requests.hpp"
#include "sluice/world/real/token_world.hpp"
#include "sluice/world/stream/measure_runner.hpp"

#include <memory>
#include <optional>
#include <string>

namespace sluice {

// make_cuda_machine: a model on a GPU, computed by this project's kernels. The target sluice::cuda provides it; callers
// need no CUDA header.
class CudaMemory; // world/cuda/cudart/cuda_memory.hpp

/// A GPU, for one machine at a time. A machine that ends leaves its memory reserved and its weights in it: the next
/// machine takes this memory, and reuses the weights if they are its own (DeviceWeights).
struct CudaDevice {
  std::shared_ptr<CudaMemory> memory;
  std::string name;      ///< "NVIDIA H100 80GB HBM3"
  Bytes all{0}, free{0}; ///< free before the first machine
  GatherMeasured gather; ///< small copies that a kernel makes; `took` is 0 if the thresholds were given
};

/// Opens the first GPU that the driver shows. In some tens of milliseconds it measures up to which size a kernel makes
/// many copies across the link faster than copy engines do, unless `gather` gives these sizes. Errors: no driver, one
/// older than this program's runtime, no GPU, or too little of either memory for the measurement.
[[nodiscard]] Expected<CudaDevice> open_cuda(const std::optional<GatherBelow>& gather = std::nullopt);

/// Ok, or the GPU's first error; after an error no machine can use this CudaDevice.
[[nodiscard]] Status check_cuda(const CudaDevice& device);

/// The weights in a CUDA machine's form: pinned, and all of type `element`, as are its kernels, K and V. Errors: no
/// kernels are compiled for this model, it exceeds a limit of theirs, or the system refuses this much pinned memory.
[[nodiscard]] Expected<ModelWeights> cuda_weights(const ModelWeights& weights, ElementType element);

/// The GPU memory that a machine takes. `weights`, here and below: the result of `cuda_weights`; here its sizes are
/// enough (`retyped`), and no CUDA is needed. `unasked` is zero: the code that divides the memory knows how much is
/// free.
[[nodiscard]] MemoryNeeds cuda_needs(const ModelWeights& weights, const MachineSetup& setup);

/// Measures the GPU's rates with a model: a layer with one row and with many, and copies of pinned memory. It takes
/// half a second, and GPU memory for two layers and their buffers, which is free again when this returns. To make room
/// it frees the memory that earlier machines left reserved. Errors: a machine lives on the device, there is too little
/// memory.
[[nodiscard]] Expected<LocalRates> cuda_rates(const CudaDevice& device, const ModelWeights& weights,
                                              const MachineSetup& setup);

/// Makes the machine, which keeps the GPU. `setup.device_memory` covers all GPU memory that the machine takes. Errors:
/// another machine lives on the device, the GPU has less memory, those of `Machine::make`, and features that a kernel
/// needs and this GPU lacks.
///
/// A later driver error ends all requests, with the driver's message as their reason.
[[nodiscard]] Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const CudaDevice& device, ModelWeights weights,
                                                                      const MachineSetup& setup,
                                                                      TokenListener listener = {});
/// All these steps in one call.
[[nodiscard]] Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const ModelWeights& weights, ElementType element,
                                                                      const MachineSetup& setup,
                                                                      TokenListener listener = {});

} // namespace sluice

// check_model, prepare_kernels: whether there are kernels for a model, and whether this GPU can run them.
namespace sluice::kernels {

/// The first reason why the kernels cannot compute the model.
[[nodiscard]] Status check_model(const DecoderConfig& config, ElementType element);

/// Prepares the kernels that a runner launches, so that missing features of this GPU are found here and not at the
/// first launch.
[[nodiscard]] Status prepare_kernels(const DecoderConfig& config, ElementType element);

} // namespace sluice::kernels

// cuda_batch_timer, cuda_copy_timer: time a GPU with the runner and the copies of a machine on it. The target
// sluice::cuda provides them; callers need no CUDA header.
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
