// SPDX-License-Identifier: Apache-2.0
#include "emulate/streams.hpp"
#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;
using emulate::Device;

namespace {

/// Adds one to each number; a block handles 32 of them.
struct AddOne {
  static constexpr int threads = 32, ctas_per_sm = 1;
  struct Params {
    int* numbers;
  };
  struct Shared {};
  template <Cta C>
  static void run(const C& cta, Shared&, const Params& params) {
    params.numbers[cta.block_x() * threads + cta.thread()] += 1;
  }
};

enum class Forgets { nothing, arrival, last_writer, write_back };

/// Layers of numbers go through a ring of slots: fetched on one stream, incremented on another, written back on a
/// third. Returns the number of wrong layers.
int wrong_layers(Forgets forgets, std::uint64_t seed) {
  constexpr std::size_t layers = 8, slots = 3, size = 128;
  enum : int { compute, in, out };
  std::vector<std::vector<int>> host(layers, std::vector<int>(size)), slot(slots, std::vector<int>(size));
  for (std::size_t l = 0; l < layers; ++l) std::iota(host[l].begin(), host[l].end(), static_cast<int>(l) * 1000);
  Device device(3, seed);
  std::vector<Device::Ticket> written(slots);
  for (std::size_t l = 0; l < layers; ++l) {
    int* const here = slot[l % slots].data();
    if (written[l % slots] && forgets != Forgets::write_back) device.wait(in, written[l % slots]);
    device.copy(in, here, host[l].data(), size * sizeof(int));
    const auto arrived = device.record(in);
    if (forgets != Forgets::arrival) device.wait(compute, arrived);
    device.launch<AddOne>(compute, {static_cast<int>(size) / 32, 1}, {here});
    const auto computed = device.record(compute);
    if (forgets != Forgets::last_writer) device.wait(out, computed);
    device.copy(out, host[l].data(), here, size * sizeof(int));
    written[l % slots] = device.record(out);
    device.run_some(static_cast<int>(seed % 5));
  }
  device.finish();
  CHECK(device.report().ok());
  int wrong = 0;
  for (std::size_t l = 0; l < layers; ++l) {
    bool right = true;
    for (std::size_t i = 0; i < size; ++i) right = right && host[l][i] == static_cast<int>(l * 1000 + i) + 1;
    wrong += right ? 0 : 1;
  }
  return wrong;
}

int wrong_of_seeds(Forgets forgets) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) wrong += wrong_layers(forgets, seed);
  return wrong;
}

} // namespace

TEST_CASE("events order streams, and nothing else does") { CHECK(wrong_of_seeds(Forgets::nothing) == 0); }

// For ThreadSanitizer each of these is a race, and it reports them.
TEST_CASE("a missing event gives wrong numbers" * doctest::skip(emulate::watched_for_races)) {
  CHECK(wrong_of_seeds(Forgets::arrival) > 0);
  CHECK(wrong_of_seeds(Forgets::last_writer) > 0);
  CHECK(wrong_of_seeds(Forgets::write_back) > 0);
}

TEST_CASE("streams run in an order drawn from the seed") {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<int> order[2];
    for (std::vector<int>& one : order) {
      Device device(3, seed);
      one.resize(9);
      int at = 0;
      for (int i = 0; i < 9; ++i)
        device.launch(
            i % 3, [&one, &at, i] { one[static_cast<std::size_t>(i)] = __atomic_fetch_add(&at, 1, __ATOMIC_RELAXED); });
      device.finish();
      CHECK(at == 9);
    }
    CHECK(order[0] == order[1]);
    orders.insert(order[0]);
  }
  CHECK(orders.size() > 10);
}

TEST_CASE("the host sees the results that it has waited for") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    int numbers[2] = {};
    Device device(2, seed);
    device.launch(0, [&numbers] { numbers[0] = 1; });
    const auto first = device.record(0);
    device.launch(1, [&numbers] { numbers[1] = 1; });
    device.synchronize(first);
    CHECK(numbers[0] == 1);
    CHECK(device.query(first));
    device.finish();
    CHECK(numbers[1] == 1);
  }
}
