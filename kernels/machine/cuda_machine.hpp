// SPDX-License-Identifier: Apache-2.0
// make_cuda_machine: a model on a GPU, by this project's kernels. The target sluice::cuda has it; no header of CUDA is
// needed to call it.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cuda/gather.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/local/rates.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/token_requests.hpp"
#include "sluice/world/machine/token_world.hpp"

#include <memory>
#include <optional>
#include <string>

namespace sluice {

class CudaMemory; // world/cuda/cudart/cuda_memory.hpp

/// A GPU whose memory is not reserved yet.
struct CudaDevice {
  std::shared_ptr<CudaMemory> memory;
  std::string name; ///< "NVIDIA H100 80GB HBM3"
  Bytes all{0}, free{0};
  GatherMeasured gather; ///< small copies that a kernel makes; `took` is 0 where the thresholds were stated
};

/// The first GPU that the driver shows. Errors, a line each: no driver, one older than this program's runtime, no GPU;
/// too little of either memory to measure, in some tens of milliseconds, up to which size a kernel makes many copies
/// across the link sooner than copy engines do. `gather` states that instead.
[[nodiscard]] Expected<CudaDevice> open_cuda(const std::optional<GatherBelow>& gather = std::nullopt);

/// The weights as a CUDA machine takes them: pinned, all of `element`, which is that of its kernels, K and V too.
/// Errors: no kernels are compiled for this model, or a limit of theirs is exceeded; the system refuses so much pinned
/// memory.
[[nodiscard]] Expected<ModelWeights> cuda_weights(const ModelWeights& weights, ElementType element);

/// What a machine takes of the GPU's memory. `weights` here and below: what `cuda_weights` returned; here the sizes are
/// enough (`retyped`), and no CUDA is needed. `unasked` is zero: who divides the memory knows how much of it is free.
[[nodiscard]] MemoryNeeds cuda_needs(const ModelWeights& weights, const MachineSetup& setup);

/// What the first GPU reaches with a model: a layer by one row and by many, and copies of pinned memory. Half a second,
/// and room for two layers and what lies beside them on the GPU, which is free again when this returns. Error: there is
/// no such room.
[[nodiscard]] Expected<LocalRates> cuda_rates(const ModelWeights& weights, const MachineSetup& setup);

/// The machine, which keeps the GPU. `setup.device_memory` holds all that the machine takes of it. Errors: the GPU has
/// not so much, what `Machine::make` says, and what a kernel needs that this GPU has not.
///
/// An error of the driver that comes to light later ends all requests, with the driver's sentence as their reason.
[[nodiscard]] Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const CudaDevice& device, ModelWeights weights,
                                                                      const MachineSetup& setup,
                                                                      TokenListener listener = {});
/// All of it in one call.
[[nodiscard]] Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const ModelWeights& weights, ElementType element,
                                                                      const MachineSetup& setup,
                                                                      TokenListener listener = {});

} // namespace sluice
