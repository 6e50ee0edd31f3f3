// SPDX-License-Identifier: Apache-2.0
// find_kernel, with a small family of this test's and the emulator's launcher.
#include "sluice/model/decoder/config.hpp"

#include "kernels/emulated.hpp"
#include <doctest/doctest.h>

#include <vector>

namespace {

struct ScaleConfig {
  sluice::ElementType element = sluice::ElementType::bf16;
  int threads = 64;
  bool twice = false;
  sluice::NormKind norm = sluice::NormKind::rms;
  friend bool operator==(const ScaleConfig&, const ScaleConfig&) = default;
};

struct ScaleParams {
  const float* from;
  float* to;
  int count;
};

template <ScaleConfig config>
struct Scale {
  using Params = ScaleParams;
  struct Shared {
    sluice::kernels::SharedArray<float, config.threads> values;
  };
  static constexpr int threads = config.threads, ctas_per_sm = 3;
  static sluice::kernels::Grid grid(const Params& params) {
    return {sluice::kernels::pieces(params.count, threads), 1};
  }
  template <class C>
  static void run(const C& cta, Shared& shared, const Params& params) {
    const int i = cta.block_x() * threads + cta.thread();
    if (i < params.count) shared.values[cta.thread()] = params.from[i];
    cta.sync();
    if (i < params.count) params.to[i] = shared.values[cta.thread()] * (config.twice ? 2.0F : 1.0F);
  }
};

} // namespace

namespace sluice::kernels {

template <>
struct KernelFamily<ScaleConfig> {
  template <ScaleConfig config>
  using Kernel = Scale<config>;
  using Params = ScaleParams;
  static constexpr std::string_view name = "Scale";
  static constexpr std::string_view header = "scale.hpp";
  static constexpr std::array members = std::to_array<std::string_view>({"element", "threads", "twice", "norm"});
  static constexpr std::array configs{ScaleConfig{.element = ElementType::f32, .threads = 64},
                                      ScaleConfig{.element = ElementType::f32, .threads = 128, .twice = true}};
};

} // namespace sluice::kernels

using namespace sluice;
using kernel_tests::Emulated;

TEST_CASE("a listed configuration is found, with its kernel's parameters, and runs") {
  const ScaleConfig wanted{.element = ElementType::f32, .threads = 128, .twice = true};
  const auto kernel = kernels::find_kernel<Emulated>(wanted);
  REQUIRE(kernel.has_value());
  CHECK(kernel->config == wanted);
  CHECK(kernel->threads == 128);
  CHECK(kernel->ctas_per_sm == 3);
  CHECK(kernel->shared_bytes == 512);

  std::vector<float> from(200), to(200, 0.0F);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  const ScaleParams params{from.data(), to.data(), 200};
  CHECK(kernel->grid(params).x == 2);
  const emulate::Report report = kernel->launch(params, 1);
  CHECK(report.ok());
  for (std::size_t i = 0; i < from.size(); ++i) CHECK(to[i] == 2 * from[i]);
}

TEST_CASE("the table has every listed configuration once, in the list's order") {
  const auto table = kernels::kernel_table<ScaleConfig, Emulated>();
  REQUIRE(table.size() == 2);
  CHECK(table[0].config.threads == 64);
  CHECK(table[1].config.threads == 128);
}

TEST_CASE("an unlisted configuration is reported in one line, with the line that would list it") {
  const auto missing =
      kernels::find_kernel<Emulated>(ScaleConfig{.element = ElementType::f16, .threads = 96, .norm = NormKind::layer});
  REQUIRE(!missing.has_value());
  CHECK(missing.error().code == ErrorCode::unsupported);
  const std::string text = ".element = ElementType::f16, .threads = 96, .twice = false, .norm = NormKind::layer";
  CHECK(missing.error().line() == "kernels: no Scale is compiled with " + text +
                                      "; expected the line `sluice_kernel(scale.hpp Scale \"" + text +
                                      "\")` in kernels/configs.cmake");
}

TEST_CASE("a number without an enumerator is shown as a number") {
  const std::string text = kernels::describe(ScaleConfig{.element = static_cast<ElementType>(9)});
  CHECK(text.find(".element = ElementType{9},") == 0);
}
