// SPDX-License-Identifier: Apache-2.0
// shows_invariance: asks a card whether a Product's rows keep their bits, for one shape.
#pragma once

#include "sluice/core/expected.hpp"

#include "kernels/element.hpp"
#include "kernels/launch.cuh"
#include "kernels/products/product.hpp"
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace sluice::kernels {

/// The matrix of which rows are compared, and how it is used.
struct ProductShape {
  int outputs = 0;
  int inputs = 0;
  ElementType element = ElementType::bf16;
  bool biased = false;
  bool accumulate = false;
  bool wide = false;
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

namespace detail {

struct FreeDevice {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceBytes = std::unique_ptr<std::byte, FreeDevice>;

/// Device memory with these numbers, each of which is between -1 and 1 in the element's type.
[[nodiscard]] inline Expected<DeviceBytes> device_numbers(std::int64_t count, ElementType element, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * bytes_of(element)));
  for (std::int64_t i = 0; i < count; ++i) {
    const float number = uniform(random);
    std::uint32_t bits = std::bit_cast<std::uint32_t>(number);
    if (element == ElementType::f16) bits = __half_as_ushort(__float2half_rn(number));
    if (element == ElementType::bf16) bits = __bfloat16_as_ushort(__float2bfloat16_rn(number));
    std::memcpy(bytes.data() + i * bytes_of(element), &bits, static_cast<std::size_t>(bytes_of(element)));
  }
  void* memory = nullptr;
  if (const Status got = status_of(cudaMalloc(&memory, bytes.size()), "memory for a product's check"); !got.ok())
    return got.error();
  DeviceBytes owned{static_cast<std::byte*>(memory)};
  if (const Status copied = status_of(cudaMemcpy(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                                      "numbers for a product's check");
      !copied.ok())
    return copied.error();
  return Expected<DeviceBytes>{std::move(owned)};
}

} // namespace detail

/// Runs one shape on 64 rows, and again on 1, 2 and 7 of them, from the first on and from others, and with the weights
/// in two places. True where every row has the bits that it has among the 64. Waits for the stream; for start-up and
/// checks, not for serving.
template <Product P>
  requires std::same_as<typename P::Stream, cudaStream_t>
[[nodiscard]] Expected<bool> shows_invariance(P& product, const ProductShape& shape, cudaStream_t stream) {
  constexpr int most = 64;
  const int bytes = bytes_of(shape.element);
  const ElementType result = shape.wide ? ElementType::f32 : shape.element;
  const std::int64_t row_bytes = std::int64_t{shape.outputs} * bytes_of(result);
  Expected<detail::DeviceBytes> x = detail::device_numbers(std::int64_t{most} * shape.inputs, shape.element, 1);
  Expected<detail::DeviceBytes> w =
      detail::device_numbers(std::int64_t{shape.outputs} * shape.inputs, shape.element, 2);
  Expected<detail::DeviceBytes> bias = detail::device_numbers(shape.outputs, shape.element, 3);
  Expected<detail::DeviceBytes> before = detail::device_numbers(std::int64_t{most} * shape.outputs, result, 4);
  Expected<detail::DeviceBytes> y = detail::device_numbers(std::int64_t{most} * shape.outputs, result, 4);
  for (const auto* memory : {&x, &w, &bias, &before, &y})
    if (!*memory) return memory->error();

  /// Rows `first` .. `first + rows - 1`, as if there were no others.
  const auto run = [&](int first, int rows, int split) -> Expected<std::vector<std::byte>> {
    ProductCall call;
    call.x = x->get() + std::int64_t{first} * shape.inputs * bytes;
    call.w = {w->get(), w->get() + std::int64_t{split} * shape.inputs * bytes, split};
    call.bias = shape.biased ? bias->get() : nullptr;
    call.y = y->get();
    call.x_stride = shape.inputs;
    call.y_stride = shape.outputs;
    call.rows = rows;
    call.outputs = shape.outputs;
    call.inputs = shape.inputs;
    call.element = shape.element;
    call.accumulate = shape.accumulate;
    call.wide = shape.wide;
    const auto size = static_cast<std::size_t>(rows * row_bytes);
    std::vector<std::byte> results(size);
    if (const Status set = status_of(
            cudaMemcpyAsync(y->get(), before->get() + first * row_bytes, size, cudaMemcpyDeviceToDevice, stream),
            "a product's check");
        !set.ok())
      return set.error();
    if (const Status done = product(stream, call); !done.ok()) return done.error();
    if (const Status got = status_of(cudaMemcpyAsync(results.data(), y->get(), size, cudaMemcpyDeviceToHost, stream),
                                     "a product's check");
        !got.ok())
      return got.error();
    if (const Status ended = status_of(cudaStreamSynchronize(stream), "a product's check"); !ended.ok())
      return ended.error();
    return results;
  };

  const Expected<std::vector<std::byte>> all = run(0, most, shape.outputs);
  if (!all) return all.error();
  struct Part {
    int first, rows, split;
  };
  const int half = shape.outputs / 16 * 8;
  for (const Part part :
       {Part{0, 1, shape.outputs}, Part{0, 2, shape.outputs}, Part{0, 7, shape.outputs}, Part{63, 1, shape.outputs},
        Part{31, 2, shape.outputs}, Part{3, 61, shape.outputs}, Part{0, most, half}, Part{5, 7, half}}) {
    const Expected<std::vector<std::byte>> some = run(part.first, part.rows, part.split);
    if (!some) return some.error();
    if (std::memcmp(some->data(), all->data() + part.first * row_bytes, some->size()) != 0) return false;
  }
  return true;
}

} // namespace sluice::kernels
