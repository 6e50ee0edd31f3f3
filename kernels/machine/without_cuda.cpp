// SPDX-License-Identifier: Apache-2.0
// The functions of cuda_machine.hpp and cuda_machine.hpp that need CUDA, for builds without it: each returns an error.
#include "kernels/machine/cuda_machine.hpp"

namespace sluice {

namespace {

Error without_cuda() {
  return {ErrorCode::unsupported, "cuda", "this program was built without CUDA",
          "a build with -DSLUICE_KERNELS=ON (the preset `cuda`), which needs nvcc"};
}

} // namespace

Expected<CudaDevice> open_cuda(const std::optional<GatherBelow>& /*gather*/) { return without_cuda(); }
Expected<ModelWeights> cuda_weights(const ModelWeights& /*weights*/, ElementType /*element*/) { return without_cuda(); }
Status check_cuda(const CudaDevice& /*device*/) { return without_cuda(); }
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

Expected<std::unique_ptr<BatchTimer>> cuda_batch_timer(const ModelWeights& /*weights*/, const MachineSetup& /*setup*/,
                                                       const TimerRoom& /*room*/) {
  return without_cuda();
}
Expected<std::unique_ptr<CopyTimer>> cuda_copy_timer(Bytes /*arena*/) { return without_cuda(); }
Status cuda_status() { return without_cuda(); }

} // namespace sluice
