// SPDX-License-Identifier: Apache-2.0
// OnGpu's functions, for the units that the build generates from kernels/configs.cmake; each instantiates some of them.
#pragma once

#include "kernels/launch.cuh"
#include "kernels/lookup.hpp"

namespace sluice::kernels {

template <Kernel K>
Status OnGpu::prepare() {
  const Expected<Launcher<K>> launcher = Launcher<K>::make();
  return launcher ? Status{} : launcher.error();
}

template <Kernel K>
Status OnGpu::launch(const typename K::Params& params, CUstream_st* stream) {
  return Launcher<K>::launch(K::grid(params), params, stream);
}

} // namespace sluice::kernels
