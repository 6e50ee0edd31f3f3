// SPDX-License-Identifier: Apache-2.0
// What cuda_machine.hpp declares, in a build without CUDA: each function says so.
#include "kernels/machine/cuda_machine.hpp"

namespace sluice {

namespace {

Error without_cuda() {
  return {ErrorCode::unsupported, "cuda", "this program was built without CUDA",
          "a build with -DSLUICE_KERNELS=ON (the preset `cuda`), which needs nvcc"};
}

} // namespace

Expected<CudaDevice> open_cuda() { return without_cuda(); }
Expected<ModelWeights> cuda_weights(const ModelWeights& /*weights*/, ElementType /*element*/) { return without_cuda(); }
MemoryNeeds cuda_needs(const ModelWeights& /*weights*/, const MachineSetup& /*setup*/) { return {}; }
Expected<LocalRates> cuda_rates(const CudaDevice& /*device*/, const ModelWeights& /*weights*/,
                                const MachineSetup& /*setup*/) {
  return without_cuda();
}
Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const CudaDevice& /*device*/, ModelWeights /*weights*/,
                                                        const MachineSetup& /*setup*/, TokenListener /*listener*/) {
  return without_cuda();
}
Expected<std::shared_ptr<TokenWorld>> make_cuda_machine(const ModelWeights& /*weights*/, ElementType /*element*/,
                                                        const MachineSetup& /*setup*/, TokenListener /*listener*/) {
  return without_cuda();
}

} // namespace sluice
