// SPDX-License-Identifier: Apache-2.0
// find_kernel: finds the compiled kernel of a configuration known at run time.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"

#include "kernels/cta.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace sluice::kernels {

// describe_members: the initialiser of an aggregate of numbers and enumerators, as text.

namespace detail {

/// The compiler's spelling of a value: "sluice::ElementType::bf16", or "(sluice::ElementType)9" if it has no name.
template <auto value>
constexpr std::string_view raw_value_text() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const auto begin = text.find("value = ") + 8;
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

/// The same, as written within sluice::kernels; empty if it has no name.
template <auto value>
std::string enumerator_text() {
  const std::string_view raw = raw_value_text<value>();
  if (raw.front() == '(' && raw.back() >= '0' && raw.back() <= '9') return {};
  std::string text{raw};
  for (const std::string_view space : {"sluice::", "kernels::"})
    if (text.starts_with(space)) text.erase(0, space.size());
  return text;
}

/// How many enumerators, from 0 on, are searched for a value's name.
inline constexpr int most_enumerators = 16;

template <class E, int... i>
std::string enum_text(E value, std::integer_sequence<int, i...>) {
  std::string text;
  static_cast<void>(((value == static_cast<E>(i) && !(text = enumerator_text<static_cast<E>(i)>()).empty()) || ...));
  using Number = std::underlying_type_t<E>;
  return text.empty() ? type_name<E>() + "{" + std::to_string(static_cast<Number>(value)) + "}" : text;
}

template <class T>
std::string value_text(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return enum_text(value, std::make_integer_sequence<int, most_enumerators>{});
  else if constexpr (std::same_as<T, bool>)
    return value ? "true" : "false";
  else
    return std::to_string(value);
}

struct Anything {
  template <class T>
  operator T() const; // NOLINT(google-explicit-constructor): stands for any member's initialiser
};
template <class T, std::size_t... i>
constexpr bool takes(std::index_sequence<i...>) {
  return requires { T{(static_cast<void>(i), Anything{})...}; };
}

/// The members' texts. Structured bindings need a fixed number of names: for a configuration with more members, add a
/// line here.
template <std::size_t n, class T>
std::array<std::string, n> member_texts([[maybe_unused]] const T& of) {
  static_assert(n == 0 ? std::is_empty_v<T>
                       : takes<T>(std::make_index_sequence<n>{}) && !takes<T>(std::make_index_sequence<n + 1>{}),
                "sluice: every line of kernels/configs.cmake names every member of its configuration, in order.");
  [[maybe_unused]] const auto texts = [](const auto&... member) {
    return std::array<std::string, n>{value_text(member)...};
  };
  if constexpr (n == 0) {
    return {};
  } else if constexpr (n == 1) {
    const auto& [a] = of;
    return texts(a);
  } else if constexpr (n == 2) {
    const auto& [a, b] = of;
    return texts(a, b);
  } else if constexpr (n == 3) {
    const auto& [a, b, c] = of;
    return texts(a, b, c);
  } else if constexpr (n == 4) {
    const auto& [a, b, c, d] = of;
    return texts(a, b, c, d);
  } else if constexpr (n == 5) {
    const auto& [a, b, c, d, e] = of;
    return texts(a, b, c, d, e);
  } else if constexpr (n == 6) {
    const auto& [a, b, c, d, e, f] = of;
    return texts(a, b, c, d, e, f);
  } else {
    static_assert(n == 7,
                  "sluice: a configuration has at most 7 members; member_texts is where an eighth would be read.");
    const auto& [a, b, c, d, e, f, g] = of;
    return texts(a, b, c, d, e, f, g);
  }
}

} // namespace detail

/// ".element = ElementType::bf16, .head_dim = 128": the initialiser that yields `of`. Rejected: a text in each
/// configuration, which must be kept in step with its members.
template <std::size_t n, class T>
[[nodiscard]] std::string describe_members(const T& of, const std::array<std::string_view, n>& names) {
  const std::array<std::string, n> texts = detail::member_texts<n>(of);
  std::string all;
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) all += ", ";
    all += "." + std::string{names[i]} + " = " + texts[i];
  }
  return all;
}

} // namespace sluice::kernels

struct CUstream_st; // a cudaStream_t points to one; declared here, so that looking up kernels needs no CUDA

namespace sluice::kernels {

/// Traits of a family, by its configuration type. `kernels/families.hpp`, which the build generates from
/// kernels/configs.cmake, specialises them for each family:
///
/// - `Kernel<config>`: the family's template. `Params`: the parameters of all its kernels.
/// - `name`, `header`: as in a line of configs.cmake. `members`: the names of the configuration's members.
/// - `configs`: an array of the configurations that are compiled.
template <class Config>
struct KernelFamily;

template <class Config>
concept ListedConfig = requires {
  typename KernelFamily<Config>::Params;
  KernelFamily<Config>::configs.size();
};

/// A configuration as a line of configs.cmake initialises it: ".element = ElementType::bf16, .head_dim = 128".
template <ListedConfig Config>
[[nodiscard]] std::string describe(const Config& config) {
  return describe_members(config, KernelFamily<Config>::members);
}

/// The line that compiles a configuration.
template <ListedConfig Config>
[[nodiscard]] std::string line_of(const Config& config) {
  using Family = KernelFamily<Config>;
  return "sluice_kernel(" + std::string{Family::header} + " " + std::string{Family::name} + " \"" + describe(config) +
         "\")";
}

/// Launches kernels on a GPU. kernels/launch.cuh defines the two functions, and the build instantiates them in nvcc's
/// units, so users only need their declarations. (The emulator has its own: tests/kernels/emulated.hpp.)
struct OnGpu {
  template <class Params>
  struct Calls {
    Status (*prepare)(); ///< call it once on the current device before the first launch: it enables the shared memory
    Status (*launch)(const Params& params, CUstream_st* stream);
  };

  template <Kernel K>
  static Status prepare();
  template <Kernel K>
  static Status launch(const typename K::Params& params, CUstream_st* stream);

  template <Kernel K>
  static constexpr Calls<typename K::Params> calls() {
    return {&prepare<K>, &launch<K>};
  }
};

/// A compiled kernel: its functions, and its resources.
template <class Config, class Way = OnGpu>
struct KernelEntry : Way::template Calls<typename KernelFamily<Config>::Params> {
  using Params = typename KernelFamily<Config>::Params;

  Config config;
  int threads;     ///< of a block
  int ctas_per_sm; ///< blocks per SM for which the kernel's registers are limited
  /// Of a block. Compute capabilities 8.6, 8.9 and 12.0 have at most 99 KiB (101,376 bytes) per block. PagedAttention
  /// with four warps and f32 heads of 128 needs more, so `prepare` returns an error there.
  std::size_t shared_bytes;
  Grid (*grid)(const Params& params);
};

namespace detail {

template <class Config, class Way, std::size_t... i>
constexpr auto entries(std::index_sequence<i...>) {
  using Family = KernelFamily<Config>;
  const auto entry = []<class K>(std::type_identity<K>, const Config& config) {
    return KernelEntry<Config, Way>{{Way::template calls<K>()}, config,  K::threads, K::ctas_per_sm,
                                    sizeof(typename K::Shared), &K::grid};
  };
  return std::array<KernelEntry<Config, Way>, sizeof...(i)>{
      entry(std::type_identity<typename Family::template Kernel<Family::configs[i]>>{}, Family::configs[i])...};
}

} // namespace detail

/// Every compiled kernel of a family, in the order of configs.cmake.
template <class Config, class Way = OnGpu>
  requires ListedConfig<Config>
[[nodiscard]] std::span<const KernelEntry<Config, Way>> kernel_table() {
  static constexpr auto table =
      detail::entries<Config, Way>(std::make_index_sequence<KernelFamily<Config>::configs.size()>{});
  return table;
}

/// The kernel of a configuration, or an error with the missing configuration and the line to add to
/// kernels/configs.cmake.
/// `find_kernel(NormConfig{.element = ElementType::f16})`, with `kernels/families.hpp` included.
template <class Way = OnGpu, ListedConfig Config>
[[nodiscard]] Expected<KernelEntry<Config, Way>> find_kernel(const Config& config) {
  for (const KernelEntry<Config, Way>& entry : kernel_table<Config, Way>())
    if (entry.config == config) return entry;
  return Error{ErrorCode::unsupported, "kernels",
               "no " + std::string{KernelFamily<Config>::name} + " is compiled with " + describe(config),
               "the line `" + line_of(config) + "` in kernels/configs.cmake"};
}

} // namespace sluice::kernels
