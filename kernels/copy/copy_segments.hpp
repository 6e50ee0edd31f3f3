// SPDX-License-Identifier: Apache-2.0
// CopySegments: copies many small runs of memory, between any addresses, in one launch.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/aligned.hpp"
#include "kernels/cta.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::kernels {

struct CopySegmentsConfig {
  /// Uses bulk copies through shared memory if the architecture has them (9.0). On 8.x it makes plain copies of the
  /// same bytes, but each block still takes the 64 KiB of buffers, so fewer fit an SM: look up `false` there.
  bool bulk = false;
  friend bool operator==(const CopySegmentsConfig&, const CopySegmentsConfig&) = default;
};

/// One run of bytes. Both ends 16-byte aligned, the length a multiple of 16.
struct CopySegment {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;
};

/// The segments: a list in memory; or, without one, a table of blocks of one size: then segment i is `bytes` from
/// `from` + from_index[i] * from_stride to `to` + to_index[i] * to_stride. Without its index a side is contiguous: a
/// gather has `from_index` alone, a scatter `to_index` alone, and a swap between two pools both. Without `from` as
/// well, the list is `launched`: it is passed with the launch, in the device's constant memory.
///
/// Memory is the device's, or mapped host memory (by its device address). No segment overlaps another one's target, and
/// no other work writes the sources while the kernel runs. List and indices should be in device memory, since a thread
/// block waits for an entry before it can read the segment. A short list is best `launched`: then the host may free it
/// at once.
struct CopySegmentsParams {
  static constexpr int most_launched = 64; ///< 1.5 KiB of the 4 KiB of a launch's parameters

  const CopySegment* segments = nullptr; ///< [count], or nothing: the table
  const void* from = nullptr;
  void* to = nullptr;
  const int* from_index = nullptr; ///< [count], or nothing: 0, 1, 2, ...
  const int* to_index = nullptr;   ///< [count], or nothing: 0, 1, 2, ...
  std::int64_t from_stride = 0;    ///< bytes, a multiple of 16
  std::int64_t to_stride = 0;      ///< bytes, a multiple of 16
  std::int64_t bytes = 0;          ///< of a segment of the table; of a list the longest, or 0 if unknown
  int count = 0;
  int ctas = 1; ///< blocks that share the work: a few saturate a link and leave the other SMs to the model
  CopySegment launched[static_cast<std::size_t>(most_launched)]; ///< the first `count`
};

/// DuplexKV's batched launch (SuperInfer, figure 11: layer, block and segment of the paged KV cache): launching a copy
/// of 32 to 64 KiB on a copy engine costs more than moving it, so one kernel copies all segments of a direction. Copy
/// engines remain better for a few long runs, and use no SM.
///
/// Block x takes segments x, x + blocks, ...; with fewer segments than blocks, blocks y share a segment, and each takes
/// every blocks_y-th piece of it.
///
/// - Plain: each thread has `in_flight` loads of 16 bytes under way before it stores.
/// - Bulk: one thread moves pieces through `stages` buffers of shared memory; `ahead` + 1 loads are under way while
///   earlier pieces are stored. Registers and the other threads are free, and each copy is one instruction. Only the
///   async proxy accesses the buffers, so no fence is needed: a store is issued after the thread has seen its piece
///   arrive.
template <CopySegmentsConfig config>
struct CopySegments {
  using Params = CopySegmentsParams;
  using Word = Packet<std::uint32_t>;
  static constexpr int threads = config.bulk ? 128 : 256; // without bulk copies all 128 are needed
  static constexpr int ctas_per_sm = config.bulk ? 3 : 4;
  static constexpr int in_flight = 8;
  static constexpr int stages = 4;
  static constexpr int ahead = 2;
  /// Bytes of one segment that a block moves at once.
  static constexpr int piece_bytes = threads * in_flight * static_cast<int>(sizeof(Word));

  struct Buffers {
    SharedArray<SharedArray<Word, piece_bytes / 16>, stages> pieces;
    SharedArray<Mbarrier, stages> arrived;
  };
  struct None {};
  using Shared = std::conditional_t<config.bulk, Buffers, None>;

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.count >= 0 && params.ctas > 0, "segments, and at least one block to copy them");
    SLUICE_ASSERT(params.bytes % 16 == 0 && params.from_stride % 16 == 0 && params.to_stride % 16 == 0 &&
                      aligned(params.from, params.to),
                  "segments of whole packets of 16 bytes, aligned");
    SLUICE_ASSERT(params.segments != nullptr || params.from != nullptr || params.count <= Params::most_launched,
                  "a launch has room for no more segments");
    const int x = std::min(params.count, params.ctas);
    if (x == 0) return {0, 1};
    const std::int64_t most = params.bytes > 0 ? (params.bytes + piece_bytes - 1) / piece_bytes : params.ctas;
    return {x, static_cast<int>(std::clamp<std::int64_t>(params.ctas / x, 1, std::min<std::int64_t>(most, 65535)))};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    if constexpr (config.bulk && HopperCta<C>)
      by_bulk_copies(cta, shared, params);
    else
      by_packets(cta, params);
  }

 private:
  struct Piece {
    const std::byte* from;
    std::byte* to;
    int bytes;
  };
  /// A block's position in its segments.
  struct Walk {
    CopySegment now;
    std::int64_t at;
    int next;
  };

  template <Cta C>
  SLUICE_DEVICE static Walk start(const C& cta) {
    return {{nullptr, nullptr, 0}, 0, cta.block_x()};
  }
  /// The next piece of this block, if there is one.
  template <Cta C>
  SLUICE_DEVICE static bool advance(const C& cta, const Params& params, Walk& walk, Piece& piece) {
    while (walk.at >= walk.now.bytes) {
      if (walk.next >= params.count) return false;
      walk.now = segment(params, walk.next);
      walk.next += cta.blocks_x();
      walk.at = static_cast<std::int64_t>(cta.block_y()) * piece_bytes;
    }
    const std::int64_t left = walk.now.bytes - walk.at;
    piece = {static_cast<const std::byte*>(walk.now.from) + walk.at, static_cast<std::byte*>(walk.now.to) + walk.at,
             left < piece_bytes ? static_cast<int>(left) : piece_bytes};
    walk.at += static_cast<std::int64_t>(cta.blocks_y()) * piece_bytes;
    return true;
  }
  SLUICE_DEVICE static CopySegment segment(const Params& params, int i) {
    if (params.segments != nullptr) return params.segments[i];
    if (params.from == nullptr) return params.launched[i];
    const std::int64_t from = params.from_index != nullptr ? params.from_index[i] : i;
    const std::int64_t to = params.to_index != nullptr ? params.to_index[i] : i;
    return {static_cast<const std::byte*>(params.from) + from * params.from_stride,
            static_cast<std::byte*>(params.to) + to * params.to_stride, params.bytes};
  }

  template <Cta C>
  SLUICE_DEVICE static void by_packets(const C& cta, const Params& params) {
    Walk walk = start(cta);
    Piece piece{};
    while (advance(cta, params, walk, piece)) {
      const auto* const from = reinterpret_cast<const std::uint32_t*>(piece.from);
      auto* const to = reinterpret_cast<std::uint32_t*>(piece.to);
      const int packets = piece.bytes / static_cast<int>(sizeof(Word));
      Word held[static_cast<std::size_t>(in_flight)];
      SLUICE_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        const int at = i * threads + cta.thread();
        if (at < packets) held[i] = load_packet(from + at * Word::size);
      }
      SLUICE_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        const int at = i * threads + cta.thread();
        if (at < packets) store_packet(to + at * Word::size, held[i]);
      }
    }
  }

  template <HopperCta C>
  SLUICE_DEVICE static void by_bulk_copies(const C& cta, Shared& shared, const Params& params) {
    if (cta.thread() == 0) {
      for (int stage = 0; stage < stages; ++stage) cta.barrier_init(shared.arrived[stage], 1);
      cta.fence_barrier_init();
    }
    cta.sync();
    if (cta.thread() != 0) return;

    const auto load = [&](int number, const Piece& piece) {
      Mbarrier& arrived = shared.arrived[number % stages];
      cta.barrier_expect(arrived, piece.bytes);
      cta.bulk_load(&shared.pieces[number % stages], piece.from, piece.bytes, arrived);
    };
    Walk loads = start(cta);
    Walk stores = loads;
    Piece piece{};
    for (int number = 0; number < ahead && advance(cta, params, loads, piece); ++number) load(number, piece);
    for (int number = 0; advance(cta, params, stores, piece); ++number) {
      if (Piece later{}; advance(cta, params, loads, later)) {
        // Piece number + ahead - stages was the last to be stored from its buffer, stages - ahead pieces before this
        // one.
        cta.template bulk_wait_read<stages - ahead - 1>();
        load(number + ahead, later);
      }
      cta.barrier_wait(shared.arrived[number % stages], number / stages % 2);
      cta.bulk_store(piece.to, &shared.pieces[number % stages], piece.bytes);
      cta.bulk_commit();
    }
    cta.template bulk_wait<0>();
  }
};

} // namespace sluice::kernels
