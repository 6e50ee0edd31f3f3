// SPDX-License-Identifier: Apache-2.0
// BlockMeanKeys for a GPU: the same header, compiled with nvcc.
#include "block_mean_keys.hpp"
#include "kernels/launch.cuh"

template class sluice::kernels::Launcher<example::BlockMeanKeys<example::BlockMeanKeysConfig{}>>;
