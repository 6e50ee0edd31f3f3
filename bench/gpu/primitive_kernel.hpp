// SPDX-License-Identifier: Apache-2.0
// PrimitiveKernel: runs every member of the Cta in a case whose output a host can compute. The emulator cannot check
// whether the PTX behind them does the same (kernels/cuda_cta.cuh), so this is the first test on a GPU.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/shared_array.hpp"

#include <cstdint>

namespace gpu_bench {

enum class Primitive : std::uint8_t {
  places,
  sync,
  sync_warp,
  shuffle,
  shuffle_xor,
  shuffle_up,
  ballot,
  any,
  atomic_add,
  atomic_add_wide,
  atomic_max,
  fence,
  inclusive_scan,
  packets,
  copy_async,
  load_matrices,
  load_matrices_transposed,
  mma_bf16,
  mma_f16,
  bulk,
  arithmetic,
  elements,
};

struct PrimitiveParams {
  Primitive what = Primitive::places;
  const std::uint32_t* in = nullptr; ///< `words` of them, 16-byte aligned
  std::uint32_t* out = nullptr;      ///< [blocks][words]
  std::uint32_t* global = nullptr;   ///< [8], zeros: what blocks share
  int blocks = 1;

  static constexpr int words = 1024;
};

/// One kernel for all members: speed does not matter here, and nvcc parses the headers once.
struct PrimitiveKernel {
  using Params = PrimitiveParams;
  static constexpr int threads = 128, ctas_per_sm = 1, words = Params::words;
  using Word = sluice::kernels::Packet<std::uint32_t>;

  struct Shared {
    sluice::kernels::SharedArray<Word, words / 4> packets;
    sluice::kernels::SharedArray<Word, words / 4> others;
    sluice::kernels::ScanRoom<std::uint64_t, threads> room;
    sluice::kernels::Mbarrier arrived;
    std::uint32_t counter, most;
    unsigned long long wide;
  };

  static sluice::kernels::Grid grid(const Params& params) { return {params.blocks, 1}; }

  /// A value that depends on the block, which the block writes in `fence`.
  SLUICE_HOST_DEVICE static constexpr std::uint32_t share(int block) {
    return 2654435761U * static_cast<std::uint32_t>(block + 1);
  }

  template <sluice::kernels::TensorCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    namespace k = sluice::kernels;
    const int thread = cta.thread(), lane = cta.lane(), warp = cta.warp();
    std::uint32_t* const out = params.out + cta.block_x() * words;
    const std::uint32_t* const in = params.in;
    auto* const mine = reinterpret_cast<std::uint32_t*>(&shared.packets);
    switch (params.what) {
    case Primitive::places:
      out[thread] = static_cast<std::uint32_t>(thread << 16 | lane << 8 | warp);
      out[threads + thread] =
          static_cast<std::uint32_t>(cta.block_x() << 20 | cta.block_y() << 16 | cta.blocks_x() << 4 | cta.blocks_y());
      break;
    case Primitive::sync: {
      std::uint32_t value = in[thread];
      for (int round = 0; round < 8; ++round) { // a thread that reads too early finds another round's value
        mine[thread] = value;
        cta.sync();
        value = mine[(thread * 37 + 1) % threads] + 1;
        cta.sync();
      }
      out[thread] = value;
      break;
    }
    case Primitive::sync_warp: {
      const std::uint32_t lanes = lane < 16 ? 0xffffU : 0xffff0000U;
      std::uint32_t value = in[thread];
      for (int round = 0; round < 8; ++round) {
        mine[thread] = value;
        cta.sync_warp(lanes);
        value = mine[warp * 32 + (lane & 16) + (lane * 5 + 1) % 16] + 1;
        cta.sync_warp(lanes);
      }
      cta.sync_warp();
      out[thread] = value;
      break;
    }
    case Primitive::shuffle:
      out[thread] = cta.shuffle(in[thread], (lane * 7 + 3) % 32);
      out[threads + thread] = static_cast<std::uint32_t>(cta.shuffle(static_cast<float>(thread), 31 - lane));
      if (lane < 8) out[2 * threads + thread] = cta.shuffle(in[thread], 7 - lane, 0xffU);
      {
        const std::uint64_t wide = static_cast<std::uint64_t>(in[thread]) << 32U | static_cast<std::uint32_t>(thread);
        const std::uint64_t got = cta.shuffle(wide, (lane + 1) % 32);
        out[3 * threads + thread] = static_cast<std::uint32_t>(got >> 32U) ^ static_cast<std::uint32_t>(got);
      }
      break;
    case Primitive::shuffle_xor:
      for (int bit = 0; bit < 5; ++bit) out[bit * threads + thread] = cta.shuffle_xor(in[thread], 1 << bit);
      if (lane < 16) out[5 * threads + thread] = cta.shuffle_xor(in[thread], 8, 0xffffU);
      break;
    case Primitive::shuffle_up:
      for (int bit = 0; bit < 5; ++bit) out[bit * threads + thread] = cta.shuffle_up(in[thread], 1 << bit);
      break;
    case Primitive::ballot:
      out[thread] = cta.ballot((in[thread] & 1U) != 0);
      if (lane >= 8 && lane < 24) out[threads + thread] = cta.ballot((in[thread] & 2U) != 0, 0x00ffff00U);
      out[2 * threads + thread] = static_cast<std::uint32_t>(k::lowest_bit(in[thread] & in[(thread + 1) % threads]));
      break;
    case Primitive::any:
      out[thread] = cta.any(warp == 2 && lane == 19) ? 1 : 0;
      if (lane < 4) out[threads + thread] = cta.any(lane == warp, 0xfU) ? 1 : 0;
      break;
    case Primitive::atomic_add: // each old value occurs once, which the host checks
      if (thread == 0) shared.counter = 0;
      cta.sync();
      out[thread] = static_cast<std::uint32_t>(cta.atomic_add(reinterpret_cast<int*>(&shared.counter), 1));
      out[threads + thread] = static_cast<std::uint32_t>(cta.atomic_add(reinterpret_cast<int*>(params.global), 1));
      break;
    case Primitive::atomic_add_wide:
      if (thread == 0) shared.wide = 1ULL << 40U;
      cta.sync();
      out[thread] = static_cast<std::uint32_t>(cta.atomic_add(&shared.wide, 1ULL) >> 40U);
      cta.atomic_add(&shared.wide, static_cast<unsigned long long>(in[thread]));
      cta.sync();
      if (thread == 0) {
        out[threads] = static_cast<std::uint32_t>(shared.wide);
        out[threads + 1] = static_cast<std::uint32_t>(shared.wide >> 32U);
      }
      break;
    case Primitive::atomic_max:
      if (thread == 0) shared.most = 0;
      cta.sync();
      cta.atomic_max(reinterpret_cast<int*>(&shared.most), static_cast<int>(in[thread] & 0x7fffffffU));
      cta.atomic_max(reinterpret_cast<int*>(params.global), static_cast<int>(in[thread] >> 1U));
      cta.sync();
      out[thread] = shared.most;
      out[threads + thread] = *params.global;
      break;
    case Primitive::fence: { // the last block to arrive sees what all have written
      if (thread < 4)
        params.out[cta.block_x() * words + 8 + thread] = share(cta.block_x()) + static_cast<std::uint32_t>(thread);
      cta.fence();
      cta.sync();
      if (thread == 0)
        shared.counter = static_cast<std::uint32_t>(cta.atomic_add(reinterpret_cast<int*>(params.global), 1));
      cta.sync();
      if (shared.counter + 1 == static_cast<std::uint32_t>(cta.blocks_x()) && thread == 0) {
        cta.fence();
        std::uint32_t sum = 0;
        for (int block = 0; block < cta.blocks_x(); ++block)
          for (int i = 0; i < 4; ++i) sum += static_cast<volatile std::uint32_t*>(params.out)[block * words + 8 + i];
        params.global[1] = sum;
        params.global[2] += 1;
      }
      break;
    }
    case Primitive::inclusive_scan: {
      const std::uint64_t once = cta.inclusive_scan(static_cast<std::uint64_t>(in[thread]), shared.room);
      cta.sync();
      const std::uint64_t twice = cta.inclusive_scan(once & 0xffffU, shared.room);
      out[thread] = static_cast<std::uint32_t>(once);
      out[threads + thread] = static_cast<std::uint32_t>(once >> 32U);
      out[2 * threads + thread] = static_cast<std::uint32_t>(twice);
      break;
    }
    case Primitive::packets: {
      const auto packet = k::load_packet(in + thread * 4);
      k::store_packet(out + thread * 4, packet);
      const auto again = k::load_written_packet(out + thread * 4);
      out[4 * threads + thread] = again.of[thread % 4];
      break;
    }
    case Primitive::copy_async: {
      Word* const to = &shared.packets[0];
      for (int piece = 0; piece < 2; ++piece) { // the second half's odd packets are zeros
        for (int i = thread; i < words / 8; i += threads)
          cta.copy_async(to + piece * (words / 8) + i, in + (piece * (words / 8) + i) * 4, piece == 0 || i % 2 == 0);
        cta.commit();
      }
      cta.template wait<1>();
      cta.sync();
      for (int i = thread; i < words / 2; i += threads) out[i] = mine[words / 2 - 1 - i]; // others' packets
      cta.template wait<0>();
      cta.sync();
      for (int i = thread; i < words / 2; i += threads) out[words / 2 + i] = mine[words / 2 + i];
      break;
    }
    case Primitive::load_matrices:
    case Primitive::load_matrices_transposed: { // a warp has 16 rows of 16 numbers of 16 bits
      for (int i = thread; i < words / 2; i += threads) mine[i] = in[i];
      cta.sync();
      const auto* const row = reinterpret_cast<const std::uint16_t*>(mine + warp * 128) +
                              (lane % 8 + lane / 16 * 8) * 16 + lane / 8 % 2 * 8;
      std::uint32_t into[4];
      if (params.what == Primitive::load_matrices)
        cta.load_matrices(into, row);
      else
        cta.load_matrices_transposed(into, row);
      for (int i = 0; i < 4; ++i) out[i * threads + thread] = into[i];
      break;
    }
    case Primitive::mma_bf16:
      multiply<k::Bf16>(cta, in, out);
      break;
    case Primitive::mma_f16:
      multiply<k::F16>(cta, in, out);
      break;
    case Primitive::bulk:
      bulk(cta, shared, in, out);
      break;
    case Primitive::arithmetic: {
      const float a = static_cast<float>(static_cast<int>(in[thread] >> 8U)) * 0x1p-12F - 1024.0F;
      const float b = static_cast<float>(static_cast<int>(in[thread + threads] >> 8U)) * 0x1p-12F - 1024.0F;
      const float c = static_cast<float>(static_cast<int>(in[thread + 2 * threads] >> 8U)) * 0x1p-12F - 1024.0F;
      out[thread] = bits(k::fused(a, b, c));
      out[threads + thread] = bits(k::times(a, b) + c);
      out[2 * threads + thread] =
          bits(static_cast<float>(k::times(static_cast<double>(a), static_cast<double>(b)) + static_cast<double>(c)));
      out[3 * threads + thread] = bits(k::exp2_fast(a * 0.0625F));
      out[4 * threads + thread] = bits(k::larger(a, b));
      break;
    }
    case Primitive::elements: // all numbers of 16 bits, a block for 256 of them; and rounding to them
      for (int i = thread; i < 256; i += threads) {
        const auto one = static_cast<std::uint16_t>(cta.block_x() * 256 + i);
        out[i] = bits(k::widen(k::Bf16{one}));
        out[256 + i] = bits(k::widen(k::F16{one}));
        const float number = as_float(in[i] ^ static_cast<std::uint32_t>(cta.block_x()) * 0x01010101U);
        out[512 + i] = k::narrow<k::Bf16>(number).bits;
        out[768 + i] = k::narrow<k::F16>(number).bits;
      }
      break;
    }
  }

 private:
  SLUICE_DEVICE static std::uint32_t bits(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    return std::bit_cast<std::uint32_t>(x);
#endif
  }
  SLUICE_DEVICE static float as_float(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(x);
#else
    return std::bit_cast<float>(x);
#endif
  }

  /// Each warp: 16 x 16 by 16 x 8 of small whole numbers, in PTX's fragment layout, accumulated three times.
  template <class T, class C>
  SLUICE_DEVICE static void multiply(const C& cta, const std::uint32_t* in, std::uint32_t* out) {
    const int lane = cta.lane();
    const auto small = [&](int row, int column, bool right) {
      return static_cast<float>(static_cast<int>(in[cta.warp() * 64 + (right ? 32 : 0) + (row + column * 3) % 32] >>
                                                     ((row * 2 + column) % 8 * 3) &
                                                 7U) -
                                3);
    };
    const auto pair = [&](int row, int column, bool right) {
      return right ? sluice::kernels::pair_of<T>(small(row, column, true), small(row + 1, column, true))
                   : sluice::kernels::pair_of<T>(small(row, column, false), small(row, column + 1, false));
    };
    const int group = lane / 4, in_group = lane % 4;
    const std::uint32_t a[4] = {pair(group, in_group * 2, false), pair(group + 8, in_group * 2, false),
                                pair(group, in_group * 2 + 8, false), pair(group + 8, in_group * 2 + 8, false)};
    const std::uint32_t b0 = pair(in_group * 2, group, true), b1 = pair(in_group * 2 + 8, group, true);
    float c[4] = {};
    for (int round = 0; round < 3; ++round) cta.template mma<T>(c, a, b0, b1);
    for (int i = 0; i < 4; ++i) { // the sum of row i / 2 * 8 + group and column in_group * 2 + i % 2
      const int row = i / 2 * 8 + group, column = in_group * 2 + i % 2;
      out[cta.warp() * 128 + row * 8 + column] = static_cast<std::uint32_t>(static_cast<int>(c[i]));
    }
  }

  /// Two phases of one barrier: bulk loads bring pieces, threads add one, bulk stores write the result.
  template <class C>
  SLUICE_DEVICE static void bulk(const C& cta, Shared& shared, const std::uint32_t* in, std::uint32_t* out) {
    if constexpr (sluice::kernels::HopperCta<C>) {
      const int thread = cta.thread();
      auto* const mine = reinterpret_cast<std::uint32_t*>(&shared.packets);
      auto* const theirs = reinterpret_cast<std::uint32_t*>(&shared.others);
      if (thread == 0) {
        cta.barrier_init(shared.arrived, 1);
        cta.fence_barrier_init();
      }
      cta.sync();
      for (int phase = 0; phase < 2; ++phase) {
        constexpr int half = words / 2;
        if (thread == 0) {
          cta.barrier_expect(shared.arrived, half * 4);
          cta.bulk_load(mine, in + phase * half, half * 2, shared.arrived);
          cta.bulk_load(mine + half / 2, in + phase * half + half / 2, half * 2, shared.arrived);
        }
        cta.barrier_wait(shared.arrived, phase);
        for (int i = thread; i < half; i += threads) theirs[i] = mine[half - 1 - i] + 1;
        cta.fence_async();
        cta.sync();
        if (thread == 0) {
          cta.bulk_store(out + phase * half, theirs, half * 4);
          cta.bulk_commit();
          if (phase == 0)
            cta.template bulk_wait_read<0>();
          else
            cta.template bulk_wait<0>();
        }
        cta.sync();
      }
    }
  }
};

} // namespace gpu_bench
