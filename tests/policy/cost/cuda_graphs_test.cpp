// SPDX-License-Identifier: Apache-2.0
// CudaGraphs: captured sizes, padding, and what a graph saves.
#include "sluice/policy/cost/served_tables.hpp"

#include <doctest/doctest.h>

using namespace sluice;

TEST_CASE("the default sizes are those that vLLM 0.19 lists") {
  // cudagraph_capture_sizes of a server with max_num_seqs 256: 1, 2, 4, 8, 16, ..., 248, 256, 272, ..., 512.
  const std::vector<std::int64_t> sizes = CudaGraphs::default_sizes(256);
  CHECK(sizes.size() == 3 + 31 + 17);
  CHECK(std::vector<std::int64_t>(sizes.begin(), sizes.begin() + 6) == std::vector<std::int64_t>{1, 2, 4, 8, 16, 24});
  CHECK(sizes[33] == 248);
  CHECK(sizes[34] == 256);
  CHECK(sizes[35] == 272);
  CHECK(sizes.back() == 512);
  CHECK(CudaGraphs::default_sizes(128).back() == 256);
  CHECK(CudaGraphs::default_sizes(8) == std::vector<std::int64_t>{1, 2, 4, 8, 16});
  CHECK(CudaGraphs::default_sizes(1) == std::vector<std::int64_t>{1, 2});
  CHECK(CudaGraphs::default_sizes(100000).back() == 512);
}

TEST_CASE("a batch is padded to the next size, and runs without graphs beyond the largest") {
  const CudaGraphs graphs({1, 2, 4, 8}, {});
  CHECK(graphs.padded(1) == 1);
  CHECK(graphs.padded(3) == 4);
  CHECK(graphs.padded(5) == 8);
  CHECK(graphs.padded(8) == 8);
  CHECK(graphs.padded(9) == 9);
  CHECK(graphs.replays(8));
  CHECK_FALSE(graphs.replays(9));
}

TEST_CASE("a graph saves as much per launch, or as measured at its size") {
  const CudaGraphs counted({1, 2, 4, 8}, {Seconds{2e-6}, {}, {}});
  CHECK(counted.saved(3, true, 288, 320) == doctest::Approx(640e-6)); // one graph: attention too
  CHECK(counted.saved(3, false, 288, 320) == doctest::Approx(576e-6));
  CHECK(counted.saved(9, true, 288, 320) == 0);
  const CudaGraphs measured({1, 2, 4, 8}, {Seconds{2e-6}, MeasuredLine{{{1, 1e-3}, {8, 3e-3}}}, {}});
  CHECK(measured.saved(5, true, 288, 320) == doctest::Approx(3e-3));
  CHECK(measured.saved(1, true, 288, 320) == doctest::Approx(1e-3));
  CHECK(measured.saved(5, false, 288, 320) == doctest::Approx(576e-6));
}
