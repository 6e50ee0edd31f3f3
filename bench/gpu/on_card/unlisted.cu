// SPDX-License-Identifier: Apache-2.0
// Kernels that tests launch in addition to the configurations compiled for models.
#include "kernels/attention/paged_attention.hpp"
#include "kernels/launch.cuh"
#include "kernels/rows/activation.hpp"

namespace sluice::kernels {

template <ElementType element, ActivationKind kind, bool gated>
using Unlisted = Activation<ActivationConfig{element, kind, gated}>;
template <int warps>
using ThreeStages = PagedAttention<PagedAttentionConfig{ElementType::bf16, 64, warps, 3}>;

template Status OnGpu::prepare<Unlisted<ElementType::f32, ActivationKind::gelu_tanh, true>>();
template Status OnGpu::prepare<Unlisted<ElementType::f16, ActivationKind::gelu_tanh, true>>();
template Status OnGpu::prepare<Unlisted<ElementType::bf16, ActivationKind::gelu_tanh, true>>();
template Status OnGpu::prepare<Unlisted<ElementType::f32, ActivationKind::silu, false>>();
template Status OnGpu::launch<Unlisted<ElementType::f32, ActivationKind::gelu_tanh, true>>(const ActivationParams&,
                                                                                           CUstream_st*);
template Status OnGpu::launch<Unlisted<ElementType::f16, ActivationKind::gelu_tanh, true>>(const ActivationParams&,
                                                                                           CUstream_st*);
template Status OnGpu::launch<Unlisted<ElementType::bf16, ActivationKind::gelu_tanh, true>>(const ActivationParams&,
                                                                                            CUstream_st*);
template Status OnGpu::launch<Unlisted<ElementType::f32, ActivationKind::silu, false>>(const ActivationParams&,
                                                                                       CUstream_st*);

template Status OnGpu::prepare<ThreeStages<1>>();
template Status OnGpu::prepare<ThreeStages<4>>();
template Status OnGpu::launch<ThreeStages<1>>(const PagedAttentionParams&, CUstream_st*);
template Status OnGpu::launch<ThreeStages<4>>(const PagedAttentionParams&, CUstream_st*);

} // namespace sluice::kernels
