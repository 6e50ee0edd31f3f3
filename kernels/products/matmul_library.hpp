// SPDX-License-Identifier: Apache-2.0
// MatmulLibrary: the operations of cuBLASLt that BucketedProduct uses. Tests replace it without a GPU.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/product_call.hpp"

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::kernels {

/// "cuBLASLt, bf16, 7 x 4096 of 4096": rows x outputs of inputs.
[[nodiscard]] inline std::string name_of(const ProductCall& call) {
  const char* const element = call.element == ElementType::f32   ? "f32"
                              : call.element == ElementType::f16 ? "f16"
                                                                 : "bf16";
  return std::string{"cuBLASLt, "} + element + ", " + std::to_string(call.rows) + " x " + std::to_string(call.outputs) +
         " of " + std::to_string(call.inputs);
}

/// Whether the library supports such a product.
[[nodiscard]] inline Status library_offers(const ProductCall& call) {
  if (call.bias == nullptr || !call.wide || call.element == ElementType::f32) return {};
  return Error{ErrorCode::unsupported, name_of(call), "a bias of 16 bits beside results of 32",
               "a product without bias, or results of the element's type"};
}

/// Up to two calls; none if there are no outputs.
class CallParts {
 public:
  void add(const ProductCall& call) { parts_[count_++] = call; }
  [[nodiscard]] const ProductCall* begin() const { return parts_.data(); }
  [[nodiscard]] const ProductCall* end() const { return parts_.data() + count_; }

 private:
  std::array<ProductCall, 2> parts_{};
  std::size_t count_ = 0;
};

/// Splits a call whose weights are in two places into calls with weights in one place each.
[[nodiscard]] inline CallParts parts_of(const ProductCall& call) {
  const int split = call.w.split < call.outputs ? call.w.split : call.outputs;
  const int bytes = bytes_of(call.element);
  CallParts parts;
  if (split > 0) {
    ProductCall head = call;
    head.w = ProductWeights::whole(call.w.head, split);
    head.outputs = split;
    parts.add(head);
  }
  if (split < call.outputs) {
    ProductCall tail = call;
    tail.w = ProductWeights::whole(call.w.tail, call.outputs - split);
    tail.outputs = call.outputs - split;
    tail.y = static_cast<std::byte*>(call.y) + std::int64_t{split} * (call.wide ? 4 : bytes);
    if (call.bias != nullptr) tail.bias = static_cast<const std::byte*>(call.bias) + std::int64_t{split} * bytes;
    parts.add(tail);
  }
  return parts;
}

/// The alignments of the addresses of W, x and y.
using Alignments = std::array<std::uint32_t, 3>;

/// The largest powers of two, up to 256, beyond which no algorithm requires alignment. For a call whose weights are in
/// one place.
[[nodiscard]] inline Alignments alignments_of(const ProductCall& call) {
  const auto of = [](const void* at) {
    return 1U << std::countr_zero(reinterpret_cast<std::uintptr_t>(at) | std::uintptr_t{256});
  };
  return {of(call.w.head), of(call.x), of(call.y)};
}

/// The library's result for a call.
struct LibraryAnswer {
  bool refused = false; ///< the algorithm does not support this call, and nothing was enqueued; another algorithm may
  Status status;
};

/// A library that multiplies by one of many algorithms, each good for some calls. Calls have their weights in one
/// place.
///
/// - `algorithms(call, aligned)`: at least one algorithm for the call with these alignments, the fastest by the
///   library's estimate first.
/// - `run(call, algorithm, stream)`: enqueues the call.
/// - `workspace()`: device memory that calls use, constant.
template <class L>
concept MatmulLibrary = requires(const L library, const ProductCall& call, const Alignments& aligned,
                                 const typename L::Algorithm& algorithm, typename L::Stream stream) {
  requires std::copyable<typename L::Algorithm>;
  { library.algorithms(call, aligned) } -> std::same_as<Expected<std::vector<typename L::Algorithm>>>;
  { library.run(call, algorithm, stream) } -> std::same_as<LibraryAnswer>;
  { library.workspace() } -> std::same_as<Bytes>;
};

} // namespace sluice::kernels
