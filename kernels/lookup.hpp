// SPDX-License-Identifier: Apache-2.0
// find_kernel: finds the compiled kernel of a configuration known at run time.
#pragma once

#include "sluice/core/expected.hpp"

#include "kernels/cta.hpp"
#include "kernels/describe.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

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

/// Launches kernels on a GPU. kernels/lookup.cuh defines the two functions, and the build instantiates them in nvcc's
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
