// SPDX-License-Identifier: Apache-2.0
// Segments: how a link's rate depends on the size of contiguous memory, compared with SuperInfer's figures for a GH200.
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/estimate.hpp"

#include <doctest/doctest.h>

using namespace sluice;

namespace {

/// Bytes a second with copies of `segment` bytes each.
double rate_of(const Device& device, double segment) {
  return segment / (segment / device.host_to_device.count() + device.segment_cost.count());
}

} // namespace

TEST_CASE("a segment's cost gives the 10 GB/s that copies of 32 to 64 KiB reach") {
  const Device device = gh200_144();
  CHECK(rate_of(device, 32 * 1024) < 10e9);
  CHECK(rate_of(device, 64 * 1024) > 10e9);
  // Derived from either end, for any peak.
  const auto cost = [&](double segment) { return segment / 10e9 - segment / device.host_to_device.count(); };
  CHECK(device.segment_cost.count() > cost(32 * 1024));
  CHECK(device.segment_cost.count() < cost(64 * 1024));
}

TEST_CASE("contiguous blocks reach more than merged segments and less than batched launches") {
  const Device device = gh200_144();
  for (const double mib : {2.0, 4.0}) { // a block of all layers, for SuperInfer's models
    const double rate = rate_of(device, mib * 1024 * 1024);
    CHECK(rate > 134e9); // the best with merged segments, whose size is not stated
    CHECK(rate < 239e9); // the worst with one batched launch
  }
  // Merged to a quarter of that size, the rates match its measurements.
  CHECK(rate_of(device, 0.6 * 1024 * 1024) > 80e9);
  CHECK(rate_of(device, 1.2 * 1024 * 1024) < 134e9);
}

TEST_CASE("the link of an iteration has that rate, by the number of contiguous layers") {
  const ModelShape shape = llama3_8b();
  const Device device = gh200_144();
  const LinkCost link = device_link(device);
  const auto block = static_cast<double>(shape.layer_block_bytes(Tokens{16}).count());
  for (const int together : {1, 4, 32}) {
    const Geometry geometry{shape.layers, shape.layer_block_bytes(Tokens{16}), Bytes{0}, Bytes{0}, together};
    const BlockLink blocks = block_link(link, geometry);
    CHECK(blocks.blocks_per_s * block == doctest::Approx(rate_of(device, block * together)));
    CHECK(blocks.out_blocks_per_s == doctest::Approx(blocks.blocks_per_s));
    CHECK(blocks.per_layer_s == 0);
    // Weights have no segment cost, and a half share of KV has half of it.
    CHECK(block_link(link, geometry, 0).blocks_per_s * block == doctest::Approx(device.host_to_device.count()));
    const double half = 1 / block_link(link, geometry, 0.5).blocks_per_s;
    CHECK(half == doctest::Approx(0.5 / blocks.blocks_per_s + 0.5 * block / device.host_to_device.count()));
  }
  // One launch for everything that a layer moves: the full rate, plus the cost once per layer.
  const LinkCost batched = device_link(a100_80());
  CHECK(batched.per_segment.count() == 0);
  CHECK(batched.per_layer == a100_80().segment_cost);
}
