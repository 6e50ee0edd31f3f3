// SPDX-License-Identifier: Apache-2.0
// Tensors of Numbers, which a reference on the host can recompute, and a result's distance from such a reference.
#pragma once

#include "bench_device.hpp"
#include "drawn.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace gpu_bench {

using sluice::ElementType;
using sluice::kernels::Bf16;
using sluice::kernels::Element;
using sluice::kernels::ElementOf;
using sluice::kernels::F16;
using sluice::kernels::narrow;
using sluice::kernels::widen;

/// `count` Numbers in the device's memory.
template <Element T = Bf16>
[[nodiscard]] Device::Memory filled(Device& device, const Numbers& numbers, std::uint64_t count) {
  Device::Memory memory = device.memory(count * sizeof(T));
  device.fill(reinterpret_cast<T*>(memory.data()), count, numbers);
  return memory;
}
template <class T>
[[nodiscard]] Device::Memory uploaded(Device& device, std::span<const T> values) {
  Device::Memory memory = device.memory(values.size_bytes());
  device.up(memory.data(), values.data(), values.size_bytes());
  return memory;
}
template <class T>
[[nodiscard]] Device::Memory uploaded(Device& device, const std::vector<T>& values) {
  return uploaded(device, std::span<const T>{values});
}
/// Memory that holds NaNs until a kernel writes it.
[[nodiscard]] inline Device::Memory poisoned(Device& device, std::uint64_t bytes) {
  Device::Memory memory = device.memory(bytes);
  device.poison(memory);
  return memory;
}
template <class T>
[[nodiscard]] std::vector<T> downloaded(Device& device, const Device::Memory& memory, std::uint64_t from,
                                        std::size_t count) {
  std::vector<T> values(count);
  device.down(values.data(), memory.data() + from * sizeof(T), count * sizeof(T));
  return values;
}

/// |result - exact| / |exact| over the added pairs, and their number.
class RelativeError {
 public:
  void add(double result, double exact) {
    off_ += (result - exact) * (result - exact);
    all_ += exact * exact;
    ++count_;
  }
  [[nodiscard]] double value() const { return off_ == 0 ? 0 : std::sqrt(off_ / all_); }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  double off_ = 0, all_ = 0;
  std::int64_t count_ = 0;
};

/// The largest relative error allowed, as in the kernels' tests. For f32 the limit is larger than the emulator's, since
/// a GPU's `ex2.approx` is off by 2 ulp.
template <Element T>
inline constexpr double error_limit = std::is_same_v<T, float> ? 2e-6
                                      : std::is_same_v<T, F16> ? 1e-3
                                                               : 4e-3;

[[nodiscard]] constexpr const char* name_of(ElementType element) {
  return element == ElementType::f32 ? "f32" : element == ElementType::f16 ? "f16" : "bf16";
}
/// Calls `f.template operator()<element>()` for each element type.
template <class F>
void each_element(F&& f) {
  f.template operator()<ElementType::f32>();
  f.template operator()<ElementType::f16>();
  f.template operator()<ElementType::bf16>();
}

} // namespace gpu_bench
