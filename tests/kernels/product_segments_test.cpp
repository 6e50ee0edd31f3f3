// SPDX-License-Identifier: Apache-2.0
// ProductSegments: the partition of a matrix, and the blocks that it gives a model's products.
#include "kernels/products/product.hpp"
#include "kernels/products/tile_product.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// The blocks of a product by the fastest tile, with segments and without.
std::pair<int, int> blocks_of(int rows, int outputs, int inputs) {
  alignas(16) static const float x[4] = {};
  ProductCall call;
  call.x = x;
  call.w = ProductWeights::whole(x, outputs);
  call.x_stride = inputs;
  call.y_stride = outputs;
  call.rows = rows;
  call.outputs = outputs;
  call.inputs = inputs;
  call.element = ElementType::bf16;
  const auto blocks = [&] {
    const auto of = [&]<int tile>() {
      const Grid grid = TileProduct<TileProductConfig{ElementType::bf16, tile}>::grid(call);
      return grid.x * grid.y;
    };
    const int tile = tile_rows_for(rows);
    return tile == 16   ? of.template operator()<16>()
           : tile == 64 ? of.template operator()<64>()
                        : of.template operator()<128>();
  };
  const int without = blocks();
  call.segments = {.inputs = segment_inputs(outputs, inputs), .numbers = 32 << 18, .most_arrivals = 1024};
  return {without, blocks()};
}

} // namespace

TEST_CASE("a matrix has the segments that 64 rows need to fill a GPU, whatever the rows") {
  CHECK(segment_inputs(4096, 4096) == 1024);
  CHECK(segment_inputs(4096, 14336) == 3584);
  CHECK(segment_inputs(28672, 4096) == 0); // its tiles alone are enough
  CHECK(segment_inputs(8, 4096) == 512);
  CHECK(segment_inputs(4096, 1000) == 0); // too short
  for (const int outputs : {1, 100, 1024, 6144, 10240, 128256}) {
    for (const int inputs : {8, 640, 4096, 5120, 8192, 28672}) {
      const int each = segment_inputs(outputs, inputs);
      CHECK(each % 64 == 0);
      if (each == 0) continue;
      CHECK(each >= 512);
      CHECK(each < inputs);
    }
  }
}

TEST_CASE("a product whose sums have no room for all rows is launched in parts that cover its rows once") {
  std::vector<std::byte> x(1 << 20), y(1 << 20);
  for (const int rows : {0, 1, 128, 129, 700}) {
    for (const int tiles : {0, 2, 3, 4, 1000}) {
      ProductCall call;
      call.x = x.data();
      call.y = y.data();
      call.x_stride = 320;
      call.y_stride = 205;
      call.rows = rows;
      call.outputs = 200; // two tiles
      call.inputs = 300;
      call.element = ElementType::bf16;
      call.wide = true;
      call.segments = {.inputs = tiles > 0 ? 128 : 0, .numbers = tiles << 14};
      int first = 0, launches = 0;
      each_launch(call, [&](const ProductCall& some) {
        CHECK(some.x == x.data() + first * 320 * 2);
        CHECK(some.y == y.data() + first * 205 * 4);
        if (tiles > 0) CHECK((some.rows + 127) / 128 * 2 <= tiles);
        first += some.rows;
        ++launches;
      });
      CHECK(first == rows);
      CHECK(launches ==
            (tiles == 0 || tiles == 1000 ? 1 : std::max(1, (rows + tiles / 2 * 128 - 1) / (tiles / 2 * 128))));
    }
  }
}

TEST_CASE("docs/kernels.md states the SMs that a layer of Llama-3-8B uses") {
  std::ifstream file("docs/kernels.md");
  REQUIRE(file.good());
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const int rows : {1, 16, 32, 33, 64, 128, 192, 256, 512}) {
    std::string line = "| " + std::to_string(rows);
    for (const auto& [outputs, inputs] : {std::pair{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}}) {
      const auto [before, after] = blocks_of(rows, outputs, inputs);
      line += " | " + std::to_string(std::min(before, 132)) + ", " + std::to_string(std::min(after, 132));
      CHECK(after >= 128); // most of an H100's SMs
    }
    CHECK_MESSAGE(page.find(line + " |") != std::string::npos, line);
  }
}
