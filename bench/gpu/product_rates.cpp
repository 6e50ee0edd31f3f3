// SPDX-License-Identifier: Apache-2.0
// TileProduct and GroupedProduct at a model's sizes: with few rows, bytes of weights compared with a device copy's;
// with many, operations compared with cuBLAS's.
#include "bench.hpp"
#include "kernels/products/product.hpp"

#include <algorithm>
#include <cmath>

namespace gpu_bench {
namespace {

using namespace sluice;
using namespace sluice::kernels;

using Memory = Device::Memory;
const Numbers inputs_of{31}, weights_of{32, 0.05F};

template <Element T>
double exact(std::uint64_t row, std::uint64_t output, int inputs) {
  double sum = 0;
  const auto width = static_cast<std::uint64_t>(inputs);
  for (std::uint64_t k = 0; k < width; ++k)
    sum += inputs_of.at<T>(row * width + k) * weights_of.at<T>(output * width + k);
  return sum;
}

/// Checks some numbers of y, including the first and the last row and output. `weights(row)`: first output of the row's
/// weights.
template <Element T, class Weights>
Refcheck some(Bench& bench, const Memory& y, int rows, int outputs, int inputs, Weights&& first_output) {
  RelativeError error;
  for (int i = 0; i < 9; ++i) {
    const int row = static_cast<int>(std::int64_t{rows - 1} * i / 8);
    const auto got =
        downloaded<T>(bench.device, y, static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(outputs),
                      static_cast<std::size_t>(outputs));
    for (int j = 0; j < 9; ++j) {
      const int output = static_cast<int>(std::int64_t{outputs - 1} * j / 8);
      error.add(
          static_cast<double>(widen(got[static_cast<std::size_t>(output)])),
          exact<T>(static_cast<std::uint64_t>(row), first_output(row) + static_cast<std::uint64_t>(output), inputs));
    }
    for (const T one : got) // unwritten numbers are poison
      if (std::isnan(widen(one))) throw Failed("row " + std::to_string(row) + " has numbers that are none");
  }
  return {error.value(), error_limit<T>, error.count()};
}

/// Few rows are bound by reading weights; many rows of 16-bit elements run on tensor cores. There is no ceiling for
/// f32.
template <ElementType element>
const char* ceiling(bool few) {
  if (few) return "ceilings/device copy";
  return element == ElementType::f32 ? "" : "ceilings/cublas";
}

template <int tile_rows, ElementType element = ElementType::bf16>
void product(Bench& bench, const std::string& name, int rows, int outputs, int inputs) {
  using T = ElementOf<element>;
  const bool few = rows <= 64;
  bench.row(name,
            std::to_string(rows) + " x " + std::to_string(outputs) + " x " + std::to_string(inputs) + ", tiles of " +
                std::to_string(tile_rows) + " rows, " + name_of(element),
            [&](Row& row) {
              constexpr TileProductConfig config{element, tile_rows};
              const auto weights = static_cast<std::uint64_t>(outputs) * static_cast<std::uint64_t>(inputs);
              const Memory x = filled<T>(bench.device, inputs_of,
                                         static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(inputs));
              const Memory y = poisoned(bench.device, static_cast<std::uint64_t>(rows) *
                                                          static_cast<std::uint64_t>(outputs) * sizeof(T));
              const int sets = few ? bench.sets(static_cast<double>(weights * sizeof(T))) : 1;
              const int all_tiles = pieces(rows, 128) * pieces(outputs, 128) * 128 * 128; // in one launch
              const ProductSegments segments{.inputs = segment_inputs(outputs, inputs, bench.size(512, 64)),
                                             .numbers = std::max(bench.size(32 << 18, 1 << 20), all_tiles),
                                             .most_arrivals = 1024};
              const Memory partials = poisoned(bench.device, static_cast<std::uint64_t>(segments.numbers) * 4);
              const Memory arrivals =
                  uploaded(bench.device, std::vector<int>(static_cast<std::size_t>(segments.most_arrivals), 0));
              std::vector<Memory> ws;
              for (int i = 0; i < sets; ++i) ws.push_back(filled<T>(bench.device, weights_of, weights));
              const auto call = [&](int set) {
                ProductCall made;
                made.x = x.data();
                made.w = ProductWeights::whole(ws[static_cast<std::size_t>(set)].data(), outputs);
                made.y = y.data();
                made.x_stride = inputs;
                made.y_stride = outputs;
                made.rows = rows;
                made.outputs = outputs;
                made.inputs = inputs;
                made.element = element;
                made.segments = segments;
                made.segments.partials = reinterpret_cast<float*>(partials.data());
                made.segments.arrivals = reinterpret_cast<int*>(arrivals.data());
                return made;
              };
              bench.device.launch<config>(call(0));
              bench.device.finish();
              row.checks = true;
              row.check = some<T>(bench, y, rows, outputs, inputs, [](int) { return std::uint64_t{0}; });
              row.samples = bench.device.time(bench.repetitions, few && !bench.tiny ? Bench::calls : 1,
                                              [&](int i) { bench.device.launch<config>(call(i % sets)); });
              row.unit = few ? "GB/s" : "TFLOP/s";
              row.amount =
                  few ? static_cast<double>(weights * sizeof(T)) * 1e-9 : 2e-12 * rows * static_cast<double>(weights);
              row.against = ceiling<element>(few);
            });
}

/// Rows in the order of their experts, equally many for each.
template <int tile_rows, ElementType element = ElementType::bf16>
void grouped(Bench& bench, const std::string& name, int of_each, int outputs, int inputs) {
  using T = ElementOf<element>;
  constexpr int experts = 8;
  const int rows = of_each * experts;
  const bool few = of_each <= 64;
  bench.row(name,
            std::to_string(experts) + " experts, " + std::to_string(of_each) + " x " + std::to_string(outputs) + " x " +
                std::to_string(inputs) + " each, tiles of " + std::to_string(tile_rows) + " rows, " + name_of(element),
            [&](Row& row) {
              constexpr GroupedProductConfig config{element, tile_rows};
              const auto weights = static_cast<std::uint64_t>(outputs) * static_cast<std::uint64_t>(inputs);
              const Memory x = filled<T>(bench.device, inputs_of,
                                         static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(inputs));
              const Memory y = poisoned(bench.device, static_cast<std::uint64_t>(rows) *
                                                          static_cast<std::uint64_t>(outputs) * sizeof(T));
              const Memory w = filled<T>(bench.device, weights_of, weights * experts);
              std::vector<ProductWeights> places;
              std::vector<int> offsets{0};
              for (std::uint64_t e = 0; e < experts; ++e) {
                places.push_back(ProductWeights::whole(w.data() + e * weights * sizeof(T), outputs));
                offsets.push_back(offsets.back() + of_each);
              }
              const Memory place = uploaded(bench.device, places), offset = uploaded(bench.device, offsets);
              GroupedProductParams params;
              params.x = x.data();
              params.weights = reinterpret_cast<const ProductWeights*>(place.data());
              params.offsets = reinterpret_cast<const int*>(offset.data());
              params.y = y.data();
              params.x_stride = inputs;
              params.y_stride = outputs;
              params.rows = rows;
              params.experts = experts;
              params.outputs = outputs;
              params.inputs = inputs;
              params.element = element;
              bench.device.launch<config>(params);
              bench.device.finish();
              row.checks = true;
              row.check = some<T>(bench, y, rows, outputs, inputs, [&](int one) {
                return static_cast<std::uint64_t>(one / of_each) * static_cast<std::uint64_t>(outputs);
              });
              row.samples = bench.device.time(bench.repetitions, 1, [&](int) { bench.device.launch<config>(params); });
              row.unit = few ? "GB/s" : "TFLOP/s";
              row.amount = few ? static_cast<double>(weights * experts * sizeof(T)) * 1e-9
                               : 2e-12 * rows * static_cast<double>(weights);
              row.against = ceiling<element>(few);
            });
}

} // namespace

void product_rates(Bench& bench) {
  const int outputs = bench.size(4096, 136), inputs = bench.size(4096, 136);
  product<16>(bench, "product, 1 row", 1, outputs, inputs);
  product<16>(bench, "product, 16 rows", bench.size(16, 5), outputs, inputs);
  product<64>(bench, "product, 64 rows", bench.size(64, 18), outputs, inputs);
  product<64>(bench, "product, 256 rows", bench.size(256, 66), outputs, inputs);
  product<128>(bench, "product, 4096 rows", bench.size(4096, 140), outputs, inputs);
  product<16>(bench, "product, 16 rows of an MLP", bench.size(16, 5), bench.size(28672, 200), inputs);
  grouped<16>(bench, "grouped product, 8 rows each", bench.size(8, 3), outputs, inputs);
  grouped<128>(bench, "grouped product, 1024 rows each", bench.size(1024, 70), outputs, inputs);
}

void product_configurations(Bench& bench) {
  const char *products = "product, each configuration", *groups = "grouped product, each configuration";
  if constexpr (Device::real) {
    const int outputs = bench.size(4096, 136), inputs = bench.size(4096, 136);
    each_element([&]<ElementType element>() {
      product<16, element>(bench, products, bench.size(16, 5), outputs, inputs);
      product<64, element>(bench, products, bench.size(128, 70), outputs, inputs);
      product<128, element>(bench, products, bench.size(2048, 140), outputs, inputs);
      grouped<16, element>(bench, groups, bench.size(16, 3), outputs, inputs);
      grouped<64, element>(bench, groups, bench.size(128, 66), outputs, inputs);
      grouped<128, element>(bench, groups, bench.size(512, 70), outputs, inputs);
    });
  } else {
    bench.skip(products, 9, "the tests of the kernels run it on the emulator");
    bench.skip(groups, 9, "the tests of the kernels run it on the emulator");
  }
}

} // namespace gpu_bench
