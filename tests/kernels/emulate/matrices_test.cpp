// SPDX-License-Identifier: Apache-2.0
#include "emulate/launch.hpp"
#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// c[16][8] = a[16][16] b, where b is stored by columns, or by rows and transposed while loading. Rows of both are
/// `stride` numbers apart: 8 or more.
template <class T, int stride, bool transposed>
struct Product {
  static constexpr int threads = 32, ctas_per_sm = 1;
  struct Params {
    const T *a, *b; // [16][16]; [8][16] by columns, [16][8] by rows
    float* c;
  };
  struct Shared {
    alignas(16) SharedArray<T, 16 * stride> a, b;
  };

  template <TensorCta C>
  static void run(const C& cta, Shared& shared, const Params& params) {
    const int lane = cta.lane(), b_columns = transposed ? 8 : 16;
    for (int i = lane; i < 16 * stride; i += 32) shared.b[i] = T{};
    cta.sync_warp();
    for (int i = lane; i < 256; i += 32) shared.a[i / 16 * stride + i % 16] = params.a[i];
    for (int i = lane; i < 128; i += 32) shared.b[i / b_columns * stride + i % b_columns] = params.b[i];
    cta.sync_warp();
    std::uint32_t a[4], b[4];
    cta.load_matrices(a, &shared.a[lane % 16 * stride + lane / 16 * 8]);
    if (transposed)
      cta.load_matrices_transposed(b, &shared.b[lane % 16 * stride]);
    else
      cta.load_matrices(b, &shared.b[lane % 8 * stride + lane / 8 % 2 * 8]);
    float c[4] = {};
    cta.template mma<T>(c, a, b[0], b[1]);
    for (int i = 0; i < 4; ++i) params.c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
  }
};

template <class T, int stride, bool transposed>
void check_product() {
  std::mt19937 random(7);
  std::vector<T> a(256), b(128);
  for (T& one : a) one = narrow<T>(static_cast<float>(random() % 17) - 8);
  for (T& one : b) one = narrow<T>(static_cast<float>(random() % 17) - 8);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<float> c(128);
    const auto report = emulate::launch<Product<T, stride, transposed>>({1, 1}, {a.data(), b.data(), c.data()}, seed,
                                                                        {.conflicts = 168});
    REQUIRE(report.ok());
    CHECK(report.matrices == 8);
    CHECK(report.conflicts == (stride == 64 ? 56 : 0));
    for (std::size_t i = 0; i < 128; ++i) {
      float sum = 0; // exact: small whole numbers
      for (std::size_t k = 0; k < 16; ++k)
        sum += widen(a[i / 8 * 16 + k]) * widen(b[transposed ? k * 8 + i % 8 : i % 8 * 16 + k]);
      CHECK(c[i] == sum);
    }
  }
}

} // namespace

TEST_CASE("fragments have PTX's places, and bank conflicts are counted") {
  check_product<Bf16, 24, false>(); // rows 48 bytes apart: eight in different banks
  check_product<F16, 24, true>();
  check_product<Bf16, 64, true>(); // 128 bytes: all eight in the same
  check_product<F16, 64, false>();
}

TEST_CASE("a launch checks the stated number of bank conflicts") {
  std::vector<Bf16> a(256), b(128);
  std::vector<float> c(128);
  const auto report =
      emulate::launch<Product<Bf16, 64, false>>({1, 1}, {a.data(), b.data(), c.data()}, 1, {.conflicts = 55});
  REQUIRE(report.errors.size() == 1);
  CHECK(report.errors[0].find("matrices_test.cpp:") == 0);
  CHECK(report.errors[0].find("56 bank conflicts in 8 matrices, 55 stated") != std::string::npos);
}
