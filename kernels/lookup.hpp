// SPDX-License-Identifier: Apache-2.0
// find_kernel: the kernel of a configuration that is known at run time, among those that the build compiled.
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

struct CUstream_st; // a cudaStream_t points to one; declared, so that who looks kernels up needs no CUDA

namespace sluice::kernels {

/// What the build knows of a family, by the type of its configuration. `kernels/families.hpp`, which the build writes
/// from kernels/configs.cmake, has a specialisation for each family:
///
/// - `Kernel<config>`: the family's template. `Params`: of all its kernels.
/// - `name`, `header`: as a line of configs.cmake says them. `members`: the names of the configuration's members.
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

/// A way to launch a kernel: on a GPU. The two functions are defined in kernels/lookup.cuh and instantiated by the
/// build, a unit of nvcc's for each configuration; who looks them up only declares them. (Another way is the
/// emulator's: tests/kernels/emulated.hpp.)
struct OnGpu {
  template <class Params>
  struct Calls {
    Status (*prepare)(); ///< on the current device, once, before the first launch: allows the shared memory
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

/// A compiled kernel: how it is launched, and what it takes of an SM.
template <class Config, class Way = OnGpu>
struct KernelEntry : Way::template Calls<typename KernelFamily<Config>::Params> {
  using Params = typename KernelFamily<Config>::Params;

  Config config;
  int threads;     ///< of a block
  int ctas_per_sm; ///< that the kernel's registers are limited for
  /// Of a block. Compute capabilities 8.6, 8.9 and 12.0 have 99 KiB (101,376 bytes) for one, and lack what needs more:
  /// PagedAttention by four warps and RebuildAndDecode of f32 heads of 128, of which `prepare` says so.
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

/// The kernel of a configuration, or one line: which is missing, and the line of kernels/configs.cmake that brings it.
/// Found is what is compiled, whether it suits the card or not: CopySegments with `bulk` is for compute capability 9.0,
/// and copies by packets below it, with 64 KiB of shared memory that it does not use.
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
