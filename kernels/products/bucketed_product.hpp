// SPDX-License-Identifier: Apache-2.0
// BucketedProduct: products by a library's fastest algorithm for each range of row counts. MatmulLibrary: the library.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/product.hpp"

#include <array>
#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice::kernels {

// MatmulLibrary: the operations of cuBLASLt that BucketedProduct uses. Tests replace it without a GPU.

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

// BucketedProduct: products with a library's fastest algorithm for each range of row counts. A row's bits may depend on
// the number of rows.

/// Products with the algorithm that the library recommends for the shape. Asking costs microseconds on the host, as
/// much as a launch, so answers are cached by the row count, rounded up to a power of two, and everything else that an
/// algorithm depends on. If an algorithm does not fit a row count of its bucket, that row count gets a separate answer.
///
/// Not invariant: for other row counts the library recommends other tiles and other splits of the sums.
template <MatmulLibrary L>
class BucketedProduct {
 public:
  using Stream = typename L::Stream;
  static constexpr bool invariant = false;

  explicit BucketedProduct(L library) : library_(std::move(library)) {}

  Status operator()(Stream stream, const ProductCall& call) {
    if (call.rows == 0) return {};
    if (Status offered = library_offers(call); !offered.ok()) return offered;
    for (const ProductCall& part : parts_of(call))
      if (Status done = multiply(stream, part); !done.ok()) return done;
    return {};
  }
  [[nodiscard]] Bytes workspace() const { return library_.workspace(); }

 private:
  using Algorithm = typename L::Algorithm;
  struct Key {
    int rows, outputs, inputs;
    bool own; ///< only for this row count
    ElementType element;
    bool biased, accumulate, wide;
    std::int64_t x_stride, y_stride;
    Alignments aligned;
    auto operator<=>(const Key&) const = default;
  };

  Status multiply(Stream stream, const ProductCall& call) {
    Key key{call.rows,       call.outputs, call.inputs,   true,          call.element,       call.bias != nullptr,
            call.accumulate, call.wide,    call.x_stride, call.y_stride, alignments_of(call)};
    if (const auto own = known_.find(key); own != known_.end()) return library_.run(call, own->second, stream).status;

    ProductCall bucket = call;
    bucket.rows = static_cast<int>(std::bit_ceil(static_cast<unsigned>(call.rows)));
    Key of_bucket = key;
    of_bucket.rows = bucket.rows;
    of_bucket.own = false;
    auto at = known_.find(of_bucket);
    if (at == known_.end()) {
      Expected<Algorithm> algorithm = ask(bucket, key.aligned);
      if (!algorithm) return algorithm.error();
      at = known_.emplace(of_bucket, *algorithm).first;
    }
    LibraryAnswer said = library_.run(call, at->second, stream);
    if (!said.refused) return said.status;

    Expected<Algorithm> algorithm = ask(call, key.aligned);
    if (!algorithm) return algorithm.error();
    known_.emplace(key, *algorithm);
    return library_.run(call, *algorithm, stream).status;
  }

  [[nodiscard]] Expected<Algorithm> ask(const ProductCall& call, const Alignments& aligned) const {
    Expected<std::vector<Algorithm>> found = library_.algorithms(call, aligned);
    if (!found) return found.error();
    return found->front();
  }

  L library_;
  std::map<Key, Algorithm> known_;
};

} // namespace sluice::kernels
