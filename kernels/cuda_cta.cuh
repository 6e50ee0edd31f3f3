// SPDX-License-Identifier: Apache-2.0
// CudaCta: a GPU's thread block. It models every concept of kernels/cta.hpp that the target architecture supports.
#pragma once

#include "kernels/cta.hpp"
#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::kernels {

template <int threads_>
struct CudaCta {
  static constexpr int threads = threads_;

  SLUICE_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }
  SLUICE_DEVICE int lane() const { return static_cast<int>(threadIdx.x & 31U); }
  SLUICE_DEVICE int warp() const { return static_cast<int>(threadIdx.x >> 5U); }
  SLUICE_DEVICE int block_x() const { return static_cast<int>(blockIdx.x); }
  SLUICE_DEVICE int block_y() const { return static_cast<int>(blockIdx.y); }
  SLUICE_DEVICE int blocks_x() const { return static_cast<int>(gridDim.x); }
  SLUICE_DEVICE int blocks_y() const { return static_cast<int>(gridDim.y); }

  SLUICE_DEVICE void sync() const { __syncthreads(); }
  SLUICE_DEVICE void sync_warp(std::uint32_t lanes = full_warp) const { __syncwarp(lanes); }
  SLUICE_DEVICE void fence() const { __threadfence(); }

  template <class T>
  SLUICE_DEVICE T shuffle(T value, int from, std::uint32_t lanes = full_warp) const {
    return __shfl_sync(lanes, value, from);
  }
  template <class T>
  SLUICE_DEVICE T shuffle_xor(T value, int with, std::uint32_t lanes = full_warp) const {
    return __shfl_xor_sync(lanes, value, with);
  }
  template <class T>
  SLUICE_DEVICE T shuffle_up(T value, int by, std::uint32_t lanes = full_warp) const {
    return __shfl_up_sync(lanes, value, static_cast<unsigned>(by));
  }
  SLUICE_DEVICE std::uint32_t ballot(bool vote, std::uint32_t lanes = full_warp) const {
    return __ballot_sync(lanes, vote);
  }
  SLUICE_DEVICE bool any(bool vote, std::uint32_t lanes = full_warp) const { return __any_sync(lanes, vote) != 0; }

  template <class T>
  SLUICE_DEVICE T atomic_add(T* at, T value) const {
    return atomicAdd(at, value);
  }
  template <class T>
  SLUICE_DEVICE T atomic_max(T* at, T value) const {
    return atomicMax(at, value);
  }

  /// Defined in kernels/cuda_scan.cuh, for the units whose kernels call it, since nvcc takes three times as long for
  /// CUB's headers as for all others together.
  template <class T>
  SLUICE_DEVICE T inclusive_scan(T value, ScanRoom<T, threads>& room) const;

  SLUICE_DEVICE void copy_async(void* to, const void* from, bool wanted) const {
    const auto address = shared_address(to);
    const int bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
  }
  SLUICE_DEVICE void commit() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int left>
  SLUICE_DEVICE void wait() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
  }

  SLUICE_DEVICE void load_matrices(std::uint32_t (&into)[4], const void* row) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
  SLUICE_DEVICE void load_matrices_transposed(std::uint32_t (&into)[4], const void* row) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
  template <Element T>
    requires(sizeof(T) == 2)
  SLUICE_DEVICE void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) const {
    if constexpr (std::is_same_v<T, Bf16>) {
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                   "{%0,%1,%2,%3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                   "{%0,%1,%2,%3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
  }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  SLUICE_DEVICE void barrier_init(Mbarrier& barrier, int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
  }
  SLUICE_DEVICE void fence_barrier_init() const { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  SLUICE_DEVICE void barrier_expect(Mbarrier& barrier, int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
                 : "memory");
  }
  SLUICE_DEVICE void barrier_wait(Mbarrier& barrier, int phase) const {
    std::uint32_t completed = 0;
    while (completed == 0) {
      asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                   : "=r"(completed)
                   : "r"(shared_address(&barrier)), "r"(phase)
                   : "memory");
    }
  }
  SLUICE_DEVICE void bulk_load(void* to, const void* from, int bytes, Mbarrier& barrier) const {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(&barrier))
                 : "memory");
  }
  SLUICE_DEVICE void bulk_store(void* to, const void* from, int bytes) const {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                 "r"(bytes)
                 : "memory");
  }
  SLUICE_DEVICE void bulk_commit() const { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
  template <int left>
  SLUICE_DEVICE void bulk_wait_read() const {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
  }
  template <int left>
  SLUICE_DEVICE void bulk_wait() const {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(left) : "memory");
  }
  SLUICE_DEVICE void fence_async() const { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif

 private:
  SLUICE_DEVICE static std::uint32_t shared_address(const void* at) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
  }
};

/// The only `__global__` function, instantiated for each kernel.
template <Kernel K>
__global__ void __launch_bounds__(K::threads, K::ctas_per_sm)
    run_kernel(const __grid_constant__ typename K::Params params) {
  extern __shared__ __align__(128) unsigned char shared[];
  K::run(CudaCta<K::threads>{}, *reinterpret_cast<typename K::Shared*>(shared), params);
}

} // namespace sluice::kernels
