// SPDX-License-Identifier: Apache-2.0
// shows_invariance: tests on a device whether a Product's rows keep their bits, for one matrix.
#pragma once

#include "sluice/core/expected.hpp"

#include "kernels/products/product.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace sluice::kernels {

/// The tested matrix, and its use.
struct ProductShape {
  int outputs = 0;
  int inputs = 0;
  ElementType element = ElementType::bf16;
  bool biased = false;
  bool accumulate = false;
  bool wide = false;
  std::int64_t x_stride = 0; ///< 0: `inputs`
  std::int64_t y_stride = 0; ///< 0: `outputs`
  int most_rows = 8192;      ///< of a call: the largest step's rows

  [[nodiscard]] static ProductShape of(const ProductCall& call) {
    return {call.outputs,  call.inputs,   call.element, call.bias != nullptr, call.accumulate, call.wide,
            call.x_stride, call.y_stride, call.rows};
  }
  /// The same with default strides filled in.
  [[nodiscard]] ProductShape whole() const {
    ProductShape all = *this;
    if (all.x_stride == 0) all.x_stride = inputs;
    if (all.y_stride == 0) all.y_stride = outputs;
    return all;
  }
  /// Whether both are the same matrix in a checkpoint.
  [[nodiscard]] bool same_matrix(const ProductShape& other) const {
    return outputs == other.outputs && inputs == other.inputs && element == other.element;
  }
  /// Whether both are the same matrix in the same use, whatever the strides.
  [[nodiscard]] bool same_product(const ProductShape& other) const {
    return same_matrix(other) && biased == other.biased && accumulate == other.accumulate && wide == other.wide;
  }
};

/// The device memory of a check: CUDA's (shows_invariance.cuh), or a test's.
///
/// - `holding(bytes)`: owned memory with these bytes, at a multiple of 256.
/// - `copy(to, from, bytes, stream)`, in the stream's order; `read(into, from, stream)`, which waits for the stream.
template <class M, class Stream>
concept CheckMemory = requires(M& memory, Stream stream, std::byte* to, const std::byte* from,
                               std::span<const std::byte> bytes, std::span<std::byte> into) {
  { memory.holding(bytes)->get() } -> std::convertible_to<std::byte*>;
  { memory.copy(to, from, std::size_t{}, stream) } -> std::same_as<Status>;
  { memory.read(into, from, stream) } -> std::same_as<Status>;
};

namespace detail {

/// Offset of a check's matrices in their memory: a multiple of 16 and no more, the least alignment that a product may
/// get.
inline constexpr std::size_t check_begin = 16;

/// Numbers below 1 of many magnitudes, so that f32 sums of their products round and show their order.
[[nodiscard]] inline std::vector<std::byte> check_numbers(std::int64_t count, ElementType element, std::uint64_t seed) {
  constexpr std::size_t period = 65521; // a prime: rows of a matrix differ
  std::mt19937_64 random(seed);
  const int mantissa = element == ElementType::f32 ? 23 : element == ElementType::f16 ? 10 : 7;
  const auto one = static_cast<std::uint32_t>(element == ElementType::f16 ? 15 : 127);
  const auto size = static_cast<std::size_t>(bytes_of(element));
  std::vector<std::byte> some(period * size);
  for (std::size_t i = 0; i < period; ++i) {
    const auto drawn = static_cast<std::uint32_t>(random());
    const std::uint32_t bits = (drawn & 1U) << (8 * size - 1) | (one - 1 - (drawn >> 1 & 7U)) << mantissa |
                               (drawn >> 4 & ((1U << mantissa) - 1));
    std::memcpy(some.data() + i * size, &bits, size);
  }
  std::vector<std::byte> all(check_begin + static_cast<std::size_t>(count) * size);
  for (std::size_t at = check_begin; at < all.size(); at += some.size())
    std::memcpy(all.data() + at, some.data(), std::min(some.size(), all.size() - at));
  return all;
}

} // namespace detail

/// Runs one shape on `most_rows` rows, and again on fewer, from the first row on and up to the last: 1, 2 and 7, and
/// each power of two from 64 on with its two neighbours, where a library's tiles end; and with the weights in two
/// places. True if every row keeps its bits, false if one does not or the product refuses such a call. An error is the
/// device's.
///
/// Takes memory for x, W and twice y, and a second or so; waits for the stream. For start-up and checks, not for
/// serving. It tests only these row counts; tiled kernels should treat other counts in the same way.
template <Product P, CheckMemory<typename P::Stream> M>
[[nodiscard]] Expected<bool> shows_invariance(P& product, M& memory, const ProductShape& asked,
                                              typename P::Stream stream) {
  const ProductShape shape = asked.whole();
  const ElementType result = shape.wide ? ElementType::f32 : shape.element;
  const int most = shape.most_rows;
  if (most < 1 || shape.outputs < 1 || shape.inputs < 1 || shape.x_stride < shape.inputs ||
      shape.y_stride < shape.outputs) {
    return Error{ErrorCode::bad_input, "a product's check", "rows or sizes that no product has",
                 "at least one row, and strides of whole rows"};
  }
  const std::int64_t x_row = shape.x_stride * bytes_of(shape.element),
                     w_row = std::int64_t{shape.inputs} * bytes_of(shape.element);
  const std::int64_t y_row = shape.y_stride * bytes_of(result);
  auto x = memory.holding(detail::check_numbers(most * shape.x_stride, shape.element, 1));
  auto w = memory.holding(detail::check_numbers(std::int64_t{shape.outputs} * shape.inputs, shape.element, 2));
  auto bias = memory.holding(detail::check_numbers(shape.outputs, shape.element, 3));
  auto before = memory.holding(detail::check_numbers(most * shape.y_stride, result, 4));
  auto y = memory.holding(detail::check_numbers(most * shape.y_stride, result, 4));
  for (const auto* one : {&x, &w, &bias, &before, &y})
    if (!*one) return one->error();
  const auto begin = [](auto& of) { return of->get() + detail::check_begin; };

  bool refused = false;
  /// Rows `first` .. `first + rows - 1`, as if there were no others.
  const auto run = [&](int first, int rows, int split) -> Expected<std::vector<std::byte>> {
    ProductCall call;
    call.x = begin(x) + first * x_row;
    call.w = {begin(w), begin(w) + split * w_row, split};
    call.bias = shape.biased ? begin(bias) : nullptr;
    call.y = begin(y) + first * y_row;
    call.x_stride = shape.x_stride;
    call.y_stride = shape.y_stride;
    call.rows = rows;
    call.outputs = shape.outputs;
    call.inputs = shape.inputs;
    call.element = shape.element;
    call.accumulate = shape.accumulate;
    call.wide = shape.wide;
    std::vector<std::byte> results(static_cast<std::size_t>(rows * y_row));
    if (const Status set = memory.copy(begin(y) + first * y_row, begin(before) + first * y_row, results.size(), stream);
        !set.ok())
      return set.error();
    if (const Status done = product(stream, call); !done.ok()) {
      refused = done.error().code == ErrorCode::unsupported || done.error().code == ErrorCode::bad_input;
      return done.error();
    }
    if (const Status got = memory.read(results, begin(y) + first * y_row, stream); !got.ok()) return got.error();
    return results;
  };

  std::vector<int> counts{1, 2, 7};
  for (int tile = 64; tile <= most; tile *= 2) counts.insert(counts.end(), {tile - 1, tile, tile + 1});
  std::erase_if(counts, [most](int count) { return count > most; });
  struct Part {
    int first, rows, split;
  };
  std::vector<Part> parts;
  for (const int count : counts)
    for (const int first : {0, most - count}) parts.push_back({first, count, shape.outputs});
  if (most > 64) parts.push_back({31, 33, shape.outputs});
  if (const int half = shape.outputs / 16 * 8; half > 0)
    parts.insert(parts.end(), {{0, most, half}, {0, 1, half}, {most - 1, 1, half}, {0, most, 8}});

  const Expected<std::vector<std::byte>> all = run(0, most, shape.outputs);
  if (refused) return false;
  if (!all) return all.error();
  for (const Part& part : parts) {
    const Expected<std::vector<std::byte>> some = run(part.first, part.rows, part.split);
    if (refused) return false;
    if (!some) return some.error();
    if (std::memcmp(some->data(), all->data() + part.first * y_row, some->size()) != 0) return false;
  }
  return true;
}

} // namespace sluice::kernels
