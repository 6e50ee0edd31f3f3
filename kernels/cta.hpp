// SPDX-License-Identifier: Apache-2.0
// Cta, AsyncCopyCta, TensorCta, HopperCta: the operations that a kernel may use on its thread block. Two models of
// each: a GPU's (kernels/cuda_cta.cuh) and the emulator's (tests/emulate/host_cta.hpp).
#pragma once

#include "kernels/shared_array.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::kernels {

/// The number of blocks in a grid.
struct Grid {
  int x = 1;
  int y = 1;
};

/// A cooperative thread array: CUDA's thread block, one-dimensional, of whole warps. Each call is one thread's.
///
/// - `thread`, `lane`, `warp`: 0 .. threads - 1, 0 .. 31, 0 .. threads / 32 - 1.
/// - `block_x`, `block_y`: in the grid, whose sizes are `blocks_x`, `blocks_y`.
/// - `sync`: `__syncthreads`. All threads of the block make the same call; writes before it are visible to all threads
///   after it.
/// - `sync_warp(lanes)`: the same for the lanes in the mask, which must be the calling ones.
/// - `shuffle`, `shuffle_xor`, `shuffle_up`, `ballot`, `any`: exchange registers among the lanes in the mask.
///   They order no memory.
/// - `atomic_add`, `atomic_max`: on shared or global memory, relaxed; only integers, since sums of floats would depend
///   on the order of threads. They return the old value.
/// - `fence`: `__threadfence`. This thread's earlier writes are visible to any thread that sees its later writes (with
///   `atomic_add` on a counter: "the last block to arrive does the rest").
/// - `inclusive_scan(value, room)`: the sum of the values of threads 0 .. thread(). All threads call; only integers.
template <class C>
concept Cta = requires(const C cta, std::uint32_t lanes, int* word, unsigned long long* wide,
                       ScanRoom<std::uint64_t, C::threads>& room) {
  requires(C::threads > 0) && (C::threads % warp_lanes == 0);
  { cta.thread() } -> std::same_as<int>;
  { cta.lane() } -> std::same_as<int>;
  { cta.warp() } -> std::same_as<int>;
  { cta.block_x() } -> std::same_as<int>;
  { cta.block_y() } -> std::same_as<int>;
  { cta.blocks_x() } -> std::same_as<int>;
  { cta.blocks_y() } -> std::same_as<int>;
  cta.sync();
  cta.sync_warp();
  cta.sync_warp(lanes);
  { cta.shuffle(1.0F, 0, lanes) } -> std::same_as<float>;
  { cta.shuffle_xor(1.0F, 1, lanes) } -> std::same_as<float>;
  { cta.shuffle_up(1.0F, 1, lanes) } -> std::same_as<float>;
  { cta.ballot(true, lanes) } -> std::same_as<std::uint32_t>;
  { cta.any(true, lanes) } -> std::same_as<bool>;
  { cta.atomic_add(word, 1) } -> std::same_as<int>;
  { cta.atomic_add(wide, 1ULL) } -> std::same_as<unsigned long long>;
  { cta.atomic_max(word, 1) } -> std::same_as<int>;
  cta.fence();
  { cta.inclusive_scan(std::uint64_t{}, room) } -> std::same_as<std::uint64_t>;
};

/// Asynchronous copies (`cp.async`, compute capability 8.0).
///
/// - `copy_async(to, from, wanted)`: 16 bytes from global to shared memory; zeros, without reading `from`, if it is not
///   `wanted`.
/// - `commit()`: this thread's copies since the last commit form a group, perhaps an empty one.
/// - `wait<left>()`: until at most `left` of this thread's groups are in progress. Other threads see their data after a
///   `sync()`.
template <class C>
concept AsyncCopyCta = Cta<C> && requires(const C cta, void* to, const void* from) {
  cta.copy_async(to, from, true);
  cta.commit();
  cta.template wait<0>();
};

/// Tensor cores (`ldmatrix`, `mma.sync`, compute capability 8.0). All lanes of a warp make each call.
///
/// - `load_matrices(into, row)`: four 8x8 matrices of 16-bit numbers from shared memory; lane i gives the
///   address of row i % 8 of matrix i / 8, 16-byte aligned. `load_matrices_transposed` transposes each.
/// - `mma<T>(c, a, b0, b1)`: c += a b of 16x16 by 16x8, fragments as PTX lays out `mma.m16n8k16` for f16 and
///   bf16 with f32 sums.
template <class C>
concept TensorCta = AsyncCopyCta<C> && requires(const C cta, std::uint32_t (&a)[4], float (&c)[4], const void* row) {
  cta.load_matrices(a, row);
  cta.load_matrices_transposed(a, row);
  cta.template mma<Bf16>(c, a, 0U, 0U);
  cta.template mma<F16>(c, a, 0U, 0U);
};

/// The barrier at which bulk copies arrive: 8 bytes of shared memory.
struct alignas(8) Mbarrier {
  std::uint64_t state;
};

/// Bulk copies (`cp.async.bulk`, compute capability 9.0), which use another proxy than a thread's own loads and stores.
///
/// - `barrier_init(barrier, arrivals)`: by one thread, followed by `fence_barrier_init()` and a `sync()`.
/// - `barrier_expect(barrier, bytes)`: this thread arrives and announces the number of bytes still to arrive.
/// - `bulk_load(to, from, bytes, barrier)`: to shared memory, multiples of 16; completes on the barrier.
/// - `barrier_wait(barrier, phase)`: until phase `phase` (0, 1, 0, ...) has completed.
/// - `bulk_store(to, from, bytes)`, `bulk_commit()`: from shared memory to global, and a group of such stores.
/// - `bulk_wait_read<left>()`: until at most `left` of this thread's groups still read shared memory;
///   `bulk_wait<left>()` until they are done.
/// - `fence_async()`: threads' own stores to shared memory before this fence are visible to bulk copies after it
///   (`fence.proxy.async`). Each writer fences its own stores, then a `sync()`, then one thread copies.
template <class C>
concept HopperCta = TensorCta<C> && requires(const C cta, Mbarrier& barrier, void* to, const void* from) {
  cta.barrier_init(barrier, 1);
  cta.fence_barrier_init();
  cta.barrier_expect(barrier, 16);
  cta.barrier_wait(barrier, 0);
  cta.bulk_load(to, from, 16, barrier);
  cta.bulk_store(to, from, 16);
  cta.bulk_commit();
  cta.template bulk_wait_read<0>();
  cta.template bulk_wait<0>();
  cta.fence_async();
};

/// The code of a block's threads: `template <class C> static void run(const C& cta, Shared& shared, const Params&
/// params)`, called once by each thread. `Shared` lies in shared memory, uninitialised. `Params` are copied to the
/// device.
template <class K>
concept BlockProgram = requires {
  { K::threads } -> std::convertible_to<int>;
  { K::ctas_per_sm } -> std::convertible_to<int>; ///< blocks that should fit one SM; the register limit follows from it
  requires K::threads % warp_lanes == 0;
  requires std::is_trivially_copyable_v<typename K::Params>;
  requires std::is_trivially_default_constructible_v<typename K::Shared>;
};

/// `grid(params)`, on the host: the blocks that these parameters need, none if there is no work. It asserts all
/// conditions that the host can check.
template <class K>
concept SaysItsGrid = requires(const typename K::Params& params) {
  { K::grid(params) } -> std::same_as<Grid>;
};

/// A kernel that can be launched with its parameters alone.
template <class K>
concept Kernel = BlockProgram<K> && SaysItsGrid<K>;

} // namespace sluice::kernels
