// SPDX-License-Identifier: Apache-2.0
// CudaCta's inclusive_scan, by CUB.
#pragma once

#include "kernels/cuda_cta.cuh"
#include <cub/block/block_scan.cuh>

namespace sluice::kernels {

template <int threads>
template <class T>
SLUICE_DEVICE T CudaCta<threads>::inclusive_scan(T value, ScanRoom<T, threads>& room) const {
  using Scan = cub::BlockScan<T, threads, cub::BLOCK_SCAN_WARP_SCANS>;
  static_assert(sizeof(typename Scan::TempStorage) <= sizeof(room), "ScanRoom holds CUB's storage");
  T sum;
  Scan(*reinterpret_cast<typename Scan::TempStorage*>(&room)).InclusiveSum(value, sum);
  return sum;
}

} // namespace sluice::kernels
