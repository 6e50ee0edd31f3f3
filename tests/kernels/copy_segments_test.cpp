// SPDX-License-Identifier: Apache-2.0
// CopySegments: copies every byte of every segment and no other, by packets and by bulk copies.
#include "emulate/launch.hpp"
#include "kernels/copy/copy_segments.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

using Plain = CopySegments<CopySegmentsConfig{}>;
using Bulk = CopySegments<CopySegmentsConfig{.bulk = true}>;

#if !defined(SLUICE_ON_CARD) // a GPU has one architecture
/// A thread block of an architecture without bulk copies.
template <int threads_>
struct OlderCta : private emulate::HostCta<threads_> {
  using Host = emulate::HostCta<threads_>;
  explicit OlderCta(const Host& host) : Host(host) {}
  using Host::any;
  using Host::atomic_add;
  using Host::atomic_max;
  using Host::ballot;
  using Host::block_x;
  using Host::block_y;
  using Host::blocks_x;
  using Host::blocks_y;
  using Host::fence;
  using Host::inclusive_scan;
  using Host::lane;
  using Host::shuffle;
  using Host::shuffle_up;
  using Host::shuffle_xor;
  using Host::sync;
  using Host::sync_warp;
  using Host::thread;
  using Host::threads;
  using Host::warp;
};
/// The configuration for bulk copies there.
struct BulkOnOlder : Bulk {
  template <class C>
  static void run(const C& cta, Shared& shared, const Params& params) {
    Bulk::run(OlderCta<threads>{cta}, shared, params);
  }
};
static_assert(HopperCta<emulate::HostCta<Bulk::threads>>);
static_assert(Cta<OlderCta<Bulk::threads>> && !AsyncCopyCta<OlderCta<Bulk::threads>>);
#endif
static_assert(Kernel<Plain> && Kernel<Bulk>);

/// Memory that bulk copies accept: a multiple of 16.
struct alignas(16) Line {
  std::uint64_t of[2];
  friend bool operator==(const Line&, const Line&) = default;
};
std::vector<Line> random_lines(std::mt19937_64& random, std::size_t count) {
  std::vector<Line> lines(count);
  for (Line& line : lines) line = {{random(), random()}};
  return lines;
}

template <class K>
void run(const CopySegmentsParams& params, std::uint64_t seed) {
  const emulate::Report report = emulate::launch<K>(K::grid(params), params, seed);
  CHECK_MESSAGE(report.ok(), report.text());
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("a list of segments of any length is copied, from anywhere to anywhere", K,
                          lists_of_segments) {
  constexpr std::int64_t piece = K::piece_bytes / 16; // in lines
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<std::int64_t> lengths{1, 3, 0, piece, piece + 1, 2, 7 * piece - 2, 64, piece - 1, 5};
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const std::vector<Line> from = random_lines(random, static_cast<std::size_t>(total));
    std::vector<Line> to = random_lines(random, static_cast<std::size_t>(total) + lengths.size());
    std::vector<Line> wanted = to;

    std::vector<CopySegment> segments(lengths.size());
    std::vector<std::size_t> starts(lengths.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      starts[i] = at;
      at += static_cast<std::size_t>(lengths[i]);
    }
    at = 0;
    for (const std::size_t i : order) { // in another order there, with an unused line between them
      segments[i] = {from.data() + starts[i], to.data() + at, lengths[i] * 16};
      for (std::size_t line = 0; line < static_cast<std::size_t>(lengths[i]); ++line)
        wanted[at + line] = from[starts[i] + line];
      at += static_cast<std::size_t>(lengths[i]) + 1;
    }
    CopySegmentsParams params;
    params.segments = segments.data();
    params.count = static_cast<int>(segments.size());
    params.ctas = seed == 1 ? 1 : seed == 2 ? 3 : seed == 3 ? 10 : 40;
    const std::vector<Line> before = to;
    run<K>(params, seed);
    CHECK(to == wanted);

    to = before; // the same list, passed with the launch
    params.segments = nullptr;
    std::copy(segments.begin(), segments.end(), params.launched);
    run<K>(params, seed + 10);
    CHECK(to == wanted);
  }
}

TEST_CASE_TEMPLATE_INVOKE(lists_of_segments, Plain, Bulk);
#if !defined(SLUICE_ON_CARD)
TEST_CASE_TEMPLATE_INVOKE(lists_of_segments, BulkOnOlder);
#endif

TEST_CASE_TEMPLATE("a table of blocks is gathered, scattered, and copied from one pool to another", K, Plain, Bulk) {
  constexpr std::size_t block = 40; // lines
  constexpr std::size_t stride = 48;
  std::mt19937_64 random(9);
  const std::vector<int> device{7, 2, 9, 0, 4};
  const std::vector<int> host{1, 8, 3, 11, 5};
  const std::vector<Line> pool = random_lines(random, 10 * block);
  const std::vector<Line> staging = random_lines(random, device.size() * block);

  CopySegmentsParams params;
  params.bytes = block * 16;
  params.count = static_cast<int>(device.size());
  params.ctas = 2;

  std::vector<Line> gathered = staging;
  params.from = pool.data();
  params.to = gathered.data();
  params.from_stride = params.to_stride = block * 16;
  params.from_index = device.data();
  run<K>(params, 1);
  for (std::size_t i = 0; i < device.size(); ++i)
    for (std::size_t line = 0; line < block; ++line)
      CHECK(gathered[i * block + line] == pool[static_cast<std::size_t>(device[i]) * block + line]);

  std::vector<Line> scattered = pool;
  std::vector<Line> wanted = pool;
  params.from = staging.data();
  params.to = scattered.data();
  params.from_index = nullptr;
  params.to_index = device.data();
  run<K>(params, 2);
  for (std::size_t i = 0; i < device.size(); ++i)
    for (std::size_t line = 0; line < block; ++line)
      wanted[static_cast<std::size_t>(device[i]) * block + line] = staging[i * block + line];
  CHECK(scattered == wanted);

  const std::vector<Line> before = random_lines(random, 12 * stride);
  std::vector<Line> swapped = before;
  wanted = before;
  params.from = pool.data();
  params.to = swapped.data();
  params.from_index = device.data();
  params.to_index = host.data();
  params.to_stride = stride * 16;
  run<K>(params, 3);
  for (std::size_t i = 0; i < device.size(); ++i)
    for (std::size_t line = 0; line < block; ++line)
      wanted[static_cast<std::size_t>(host[i]) * stride + line] =
          pool[static_cast<std::size_t>(device[i]) * block + line];
  CHECK(swapped == wanted);
}

TEST_CASE_TEMPLATE("several blocks share a long segment if segments are few, and no block is launched without work", K,
                   Plain, Bulk) {
  std::vector<Line> memory(1);
  CopySegmentsParams params;
  params.from = params.to = memory.data();
  params.ctas = 16;
  CHECK(K::grid(params).x == 0);
  params.count = 100;
  params.bytes = 64 << 10;
  CHECK(K::grid(params).x == 16);
  CHECK(K::grid(params).y == 1);
  params.count = 3;
  params.bytes = 4 << 20;
  CHECK(K::grid(params).x == 3);
  CHECK(K::grid(params).y == 5);
  params.bytes = 16;
  CHECK(K::grid(params).y == 1);
}
