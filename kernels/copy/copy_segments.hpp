// SPDX-License-Identifier: Apache-2.0
// CopySegments: copies many small runs of memory, between any addresses, in one launch.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/cta.hpp"
#include "kernels/shared_array.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::kernels {

struct CopySegmentsConfig {
  friend bool operator==(const CopySegmentsConfig&, const CopySegmentsConfig&) = default;
};

/// `rows` runs of `bytes` each, whose starts are a stride apart. Addresses, bytes and strides are multiples of 16. A
/// segment of several rows has less than 2 GiB.
struct CopySegment {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0; ///< of a row
  std::int64_t rows = 1;
  std::int64_t from_stride = 0, to_stride = 0; ///< without meaning if there is one row
};

/// The segments: a list in memory; or, without one, `launched`, a short list that is passed with the launch, in the
/// device's constant memory, so that the host may free its own at once.
///
/// Memory is the device's, or mapped host memory (by its device address). No segment overlaps another one's target, and
/// no other work writes the sources while the kernel runs. A list in memory should be in the device's, since a thread
/// block waits for an entry before it can read the segment.
struct CopySegmentsParams {
  static constexpr int most_launched = 64; ///< 3 KiB of the 4 KiB of a launch's parameters

  const CopySegment* segments = nullptr; ///< [count], or nothing
  std::int64_t longest = 0;              ///< bytes of the longest segment, all rows together; 0: unknown
  int count = 0;
  int ctas = 1; ///< blocks that share the work: a few saturate a link and leave the other SMs to the model
  CopySegment launched[static_cast<std::size_t>(most_launched)]; ///< the first `count`
};

/// DuplexKV's batched launch (SuperInfer, figure 11: layer, block and segment of the paged KV cache): launching a copy
/// of 32 to 64 KiB on a copy engine costs more than moving it, so one kernel copies all segments of a direction. Copy
/// engines remain better for a few long runs, and use no SM.
///
/// Block x takes segments x, x + blocks, ...; with fewer segments than blocks, blocks y share a segment, and each takes
/// every blocks_y-th piece of it. Each thread has `in_flight` loads of 16 bytes under way before it stores. Rejected:
/// bulk copies through shared memory (compute capability 9.0). They save registers, but no time where the link is the
/// bottleneck, and not every architecture has them for host memory.
template <CopySegmentsConfig config = CopySegmentsConfig{}>
struct CopySegments {
  using Params = CopySegmentsParams;
  using Word = Packet<std::uint32_t>;
  static constexpr int threads = 256, ctas_per_sm = 4;
  static constexpr int in_flight = 8;
  /// Bytes of one segment that a block moves at once.
  static constexpr int piece_bytes = threads * in_flight * static_cast<int>(sizeof(Word));

  struct Shared {};

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.count >= 0 && params.ctas > 0, "segments, and at least one block to copy them");
    SLUICE_ASSERT(params.segments != nullptr || params.count <= Params::most_launched,
                  "a launch has room for no more segments");
    const int x = std::min(params.count, params.ctas);
    if (x == 0) return {0, 1};
    const std::int64_t most = params.longest > 0 ? (params.longest + piece_bytes - 1) / piece_bytes : params.ctas;
    return {x, static_cast<int>(std::clamp<std::int64_t>(params.ctas / x, 1, std::min<std::int64_t>(most, 65535)))};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& /*shared*/, const Params& params) {
    for (int i = cta.block_x(); i < params.count; i += cta.blocks_x()) {
      const CopySegment segment = params.segments != nullptr ? params.segments[i] : params.launched[i];
      const std::int64_t all = segment.rows * segment.bytes, step = std::int64_t{cta.blocks_y()} * piece_bytes;
      for (std::int64_t at = std::int64_t{cta.block_y()} * piece_bytes; at < all; at += step)
        copy(cta, segment, at, all);
    }
  }

 private:
  /// A piece, from byte `at` on of the `all` bytes of the segment's rows, one behind the other.
  template <Cta C>
  SLUICE_DEVICE static void copy(const C& cta, const CopySegment& segment, std::int64_t at, std::int64_t all) {
    Word held[static_cast<std::size_t>(in_flight)];
    SLUICE_UNROLL
    for (int i = 0; i < in_flight; ++i)
      if (const std::int64_t byte = byte_of(cta, at, i); byte < all)
        held[i] = load_packet(packet(static_cast<const std::byte*>(segment.from), segment, segment.from_stride, byte));
    SLUICE_UNROLL
    for (int i = 0; i < in_flight; ++i)
      if (const std::int64_t byte = byte_of(cta, at, i); byte < all)
        store_packet(packet(static_cast<std::byte*>(segment.to), segment, segment.to_stride, byte), held[i]);
  }
  template <Cta C>
  SLUICE_DEVICE static std::int64_t byte_of(const C& cta, std::int64_t at, int i) {
    return at + (i * threads + cta.thread()) * static_cast<int>(sizeof(Word));
  }
  template <class Byte>
  SLUICE_DEVICE static auto packet(Byte* start, const CopySegment& segment, std::int64_t stride, std::int64_t byte) {
    using Number = std::conditional_t<std::is_const_v<Byte>, const std::uint32_t, std::uint32_t>;
    if (segment.rows == 1) return reinterpret_cast<Number*>(start + byte);
    const int row = static_cast<int>(byte) / static_cast<int>(segment.bytes); // 32 bits divide much faster than 64
    return reinterpret_cast<Number*>(start + row * stride + (byte - row * segment.bytes));
  }
};

} // namespace sluice::kernels
