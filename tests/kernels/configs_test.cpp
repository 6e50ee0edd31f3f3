// SPDX-License-Identifier: Apache-2.0
// kernels/configs.cmake as the build read it: what the list must contain, and that its printed text is the code that is
// compiled.
#include "kernels/families.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

using namespace sluice;
using namespace sluice::kernels;

namespace kernel_tests {

/// A launcher that launches nothing: a test that only reads the list instantiates no kernel code.
struct Unlaunched {
  template <class Params>
  struct Calls {};
  template <Kernel K>
  static constexpr Calls<typename K::Params> calls() {
    return {};
  }
};

template <class Test, class... Config>
void for_each_family(ConfigTypes<Config...>, const Test& test) {
  (test.template operator()<Config>(), ...);
}

/// Whether a family that has element types has this configuration in each of them.
template <class Config>
bool has_every_element(Config config) {
  if constexpr (requires { config.element; }) {
    const auto& all = KernelFamily<Config>::configs;
    for (const ElementType element : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
      config.element = element;
      if (std::find(all.begin(), all.end(), config) == all.end()) return false;
    }
  }
  return true;
}

} // namespace kernel_tests

using kernel_tests::Unlaunched;

TEST_CASE("every listed configuration is found, and one of its blocks fits an SM of 80 and of 90") {
  std::size_t found = 0;
  kernel_tests::for_each_family(AllConfigs{}, [&]<class Config>() {
    for (const Config& config : KernelFamily<Config>::configs) {
      CAPTURE(line_of(config));
      const auto kernel = find_kernel<Unlaunched>(config);
      REQUIRE(kernel.has_value());
      CHECK(kernel->threads > 0);
      CHECK(kernel->threads <= 1024);
      CHECK(kernel->shared_bytes <= 163 << 10); // of a block, at compute capability 8.0
      CHECK(kernel->threads * kernel->ctas_per_sm <= 2048);
      ++found;
    }
  });
  CHECK(found >= 100);
}

TEST_CASE("all kernels but five fit the 99 KiB that 8.6, 8.9 and 12.0 give a block (docs/kernels.md, Small cards)") {
  std::set<std::string> beyond, known;
  kernel_tests::for_each_family(AllConfigs{}, [&]<class Config>() {
    for (const Config& config : KernelFamily<Config>::configs)
      if (find_kernel<Unlaunched>(config)->shared_bytes > 99 << 10) beyond.insert(line_of(config));
  });
  for (const ElementType element : {ElementType::f32, ElementType::f16, ElementType::bf16})
    for (const int head_dim : {128, 192, 256})
      if (head_dim == 256 || element == ElementType::f32)
        known.insert(line_of(PagedAttentionConfig{element, head_dim, 4, 2}));
  CHECK(beyond == known);
}

TEST_CASE("no two configurations of a family have the same text, and a text names every member") {
  kernel_tests::for_each_family(AllConfigs{}, [&]<class Config>() {
    std::set<std::string> texts;
    for (const Config& config : KernelFamily<Config>::configs) {
      const std::string text = describe(config);
      CHECK_MESSAGE(texts.insert(text).second, text);
      for (const std::string_view member : KernelFamily<Config>::members)
        CHECK(text.find("." + std::string{member} + " = ") != std::string::npos);
      CHECK(text.find('{') == std::string::npos); // a number that no enumerator has
    }
  });
}

TEST_CASE("every configuration listed in one element is listed in f32, f16 and bf16") {
  kernel_tests::for_each_family(AllConfigs{}, []<class Config>() {
    for (const Config& config : KernelFamily<Config>::configs) {
      CAPTURE(line_of(config));
      CHECK(kernel_tests::has_every_element(config));
    }
  });
}

TEST_CASE("attention has the head sizes 64, 80, 96, 128, 192 and 256") {
  for (const int head_dim : {64, 80, 96, 128, 192, 256}) {
    CHECK(find_kernel<Unlaunched>(RopeAndStoreConfig{.head_dim = head_dim}).has_value());
    CHECK(find_kernel<Unlaunched>(PagedAttentionConfig{.head_dim = head_dim, .warps = 1}).has_value());
    CHECK(find_kernel<Unlaunched>(PagedAttentionConfig{.head_dim = head_dim, .warps = 4}).has_value());
    CHECK(find_kernel<Unlaunched>(MergeSegmentsConfig{.head_dim = head_dim}).has_value());
  }
}

TEST_CASE("the line that a missing head size would need") {
  const auto missing = find_kernel<Unlaunched>(RopeAndStoreConfig{.element = ElementType::f16, .head_dim = 160});
  REQUIRE(!missing.has_value());
  CHECK(missing.error().line() ==
        "kernels: no RopeAndStore is compiled with .element = ElementType::f16, .head_dim = 160; expected the line "
        "`sluice_kernel(rows/rope_and_store.hpp RopeAndStore \".element = ElementType::f16, .head_dim = 160\")` in "
        "kernels/configs.cmake");
}
