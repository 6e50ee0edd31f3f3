// SPDX-License-Identifier: Apache-2.0
// BucketedProduct: products with a library's fastest algorithm for each range of row counts. A row's bits may depend on
// the number of rows.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/matmul_library.hpp"
#include "kernels/products/product.hpp"

#include <bit>
#include <compare>
#include <cstdint>
#include <map>
#include <utility>

namespace sluice::kernels {

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
