// SPDX-License-Identifier: Apache-2.0
// TileProduct and GroupedProduct at a model's sizes: bytes of weights beside a device copy's where rows are few,
// operations beside cuBLAS's where they are many.
#include "bench.hpp"
#include "kernels/products/product_call.hpp"

namespace gpu_bench {
namespace {

using namespace sluice;
using namespace sluice::kernels;

using Memory = Device::Memory;
const Numbers inputs_of{31}, weights_of{32, 0.05F};

double exact(std::uint64_t row, std::uint64_t output, int inputs) {
  double sum = 0;
  const auto width = static_cast<std::uint64_t>(inputs);
  for (std::uint64_t k = 0; k < width; ++k) sum += inputs_of.at(row * width + k) * weights_of.at(output * width + k);
  return sum;
}

/// Some numbers of y, the first and the last row and output among them. `weights(row)`: whose weights are row's,
/// counted in outputs.
template <class Weights>
Refcheck some(Bench& bench, const Memory& y, int rows, int outputs, int inputs, Weights&& first_output) {
  RelativeError error;
  for (int i = 0; i < 9; ++i) {
    const int row = static_cast<int>(std::int64_t{rows - 1} * i / 8);
    const auto got =
        downloaded<Bf16>(bench.device, y, static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(outputs),
                         static_cast<std::size_t>(outputs));
    for (int j = 0; j < 9; ++j) {
      const int output = static_cast<int>(std::int64_t{outputs - 1} * j / 8);
      error.add(static_cast<double>(widen(got[static_cast<std::size_t>(output)])),
                exact(static_cast<std::uint64_t>(row), first_output(row) + static_cast<std::uint64_t>(output), inputs));
    }
    for (const Bf16 one : got) // what was not written is poison
      if ((one.bits & 0x7fffU) > 0x7f80U) throw Failed("row " + std::to_string(row) + " has numbers that are none");
  }
  return {error.value(), bf16_limit, error.count()};
}

template <int tile_rows>
void product(Bench& bench, const std::string& name, int rows, int outputs, int inputs) {
  const bool few = rows <= 64;
  bench.row(name,
            std::to_string(rows) + " x " + std::to_string(outputs) + " x " + std::to_string(inputs) + ", tiles of " +
                std::to_string(tile_rows) + " rows, bf16",
            [&](Row& row) {
              constexpr TileProductConfig config{ElementType::bf16, tile_rows};
              const auto weights = static_cast<std::uint64_t>(outputs) * static_cast<std::uint64_t>(inputs);
              const Memory x = filled(bench.device, inputs_of,
                                      static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(inputs));
              const Memory y =
                  poisoned(bench.device, static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(outputs) * 2);
              const int sets = few ? bench.sets(static_cast<double>(weights) * 2) : 1;
              std::vector<Memory> ws;
              for (int i = 0; i < sets; ++i) ws.push_back(filled(bench.device, weights_of, weights));
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
                made.element = ElementType::bf16;
                return made;
              };
              bench.device.launch<config>(call(0));
              bench.device.finish();
              row.checks = true;
              row.check = some(bench, y, rows, outputs, inputs, [](int) { return std::uint64_t{0}; });
              row.samples = bench.device.time(bench.repetitions, few && !bench.tiny ? Bench::calls : 1,
                                              [&](int i) { bench.device.launch<config>(call(i % sets)); });
              row.unit = few ? "GB/s" : "TFLOP/s";
              row.amount = few ? static_cast<double>(weights) * 2e-9 : 2e-12 * rows * static_cast<double>(weights);
              row.against = few ? "ceilings/device copy" : "ceilings/cublas, 4096 x 4096 x 4096";
            });
}

/// Rows in the order of their experts, as many of each.
template <int tile_rows>
void grouped(Bench& bench, const std::string& name, int of_each, int outputs, int inputs) {
  constexpr int experts = 8;
  const int rows = of_each * experts;
  const bool few = of_each <= 64;
  bench.row(name,
            std::to_string(experts) + " experts, " + std::to_string(of_each) + " x " + std::to_string(outputs) + " x " +
                std::to_string(inputs) + " each, tiles of " + std::to_string(tile_rows) + " rows, bf16",
            [&](Row& row) {
              constexpr GroupedProductConfig config{ElementType::bf16, tile_rows};
              const auto weights = static_cast<std::uint64_t>(outputs) * static_cast<std::uint64_t>(inputs);
              const Memory x = filled(bench.device, inputs_of,
                                      static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(inputs));
              const Memory y =
                  poisoned(bench.device, static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(outputs) * 2);
              const Memory w = filled(bench.device, weights_of, weights * experts);
              std::vector<ProductWeights> places;
              std::vector<int> offsets{0};
              for (std::uint64_t e = 0; e < experts; ++e) {
                places.push_back(ProductWeights::whole(w.data() + e * weights * 2, outputs));
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
              params.element = ElementType::bf16;
              bench.device.launch<config>(params);
              bench.device.finish();
              row.checks = true;
              row.check = some(bench, y, rows, outputs, inputs, [&](int one) {
                return static_cast<std::uint64_t>(one / of_each) * static_cast<std::uint64_t>(outputs);
              });
              row.samples = bench.device.time(bench.repetitions, 1, [&](int) { bench.device.launch<config>(params); });
              row.unit = few ? "GB/s" : "TFLOP/s";
              row.amount =
                  few ? static_cast<double>(weights) * experts * 2e-9 : 2e-12 * rows * static_cast<double>(weights);
              row.against = few ? "ceilings/device copy" : "ceilings/cublas, 4096 x 4096 x 4096";
            });
}

} // namespace

void product_rates(Bench& bench) {
  const int outputs = bench.size(4096, 136), inputs = bench.size(4096, 136);
  product<16>(bench, "product, 1 row", 1, outputs, inputs);
  product<16>(bench, "product, 16 rows", bench.size(16, 5), outputs, inputs);
  product<64>(bench, "product, 64 rows", bench.size(64, 18), outputs, inputs);
  product<128>(bench, "product, 4096 rows", bench.size(4096, 140), outputs, inputs);
  product<16>(bench, "product, 16 rows of an MLP", bench.size(16, 5), bench.size(28672, 200), inputs);
  grouped<16>(bench, "grouped product, 8 rows each", bench.size(8, 3), outputs, inputs);
  grouped<128>(bench, "grouped product, 1024 rows each", bench.size(1024, 70), outputs, inputs);
}

} // namespace gpu_bench
