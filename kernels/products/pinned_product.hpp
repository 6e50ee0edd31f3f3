// SPDX-License-Identifier: Apache-2.0
// PinnedProduct: a library's products with one algorithm for each matrix, whatever the rows.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/matmul_library.hpp"
#include "kernels/products/product.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace sluice::kernels {

/// Products by an algorithm that is chosen once for each matrix, for `rows` rows, among those that neither split nor
/// reduce a sum, and is then kept, so that only the number of tiles changes with the number of rows. A matrix is
/// identified by its use: its sizes, the added terms, and the strides of x and y. Addresses are assumed to be multiples
/// of 16 and no more.
///
/// The library does not document whether rows then keep their bits (a kernel may treat the last tile differently), so
/// the class does not guarantee it: `invariant` is false, `shows_invariance` tests it on a GPU, and `Invariant` uses
/// this class for the shapes that passed.
///
/// Weights in two places are two calls with the matrix's one algorithm, which needs results of 16-byte alignment: a
/// split at outputs that are no multiple of 8 is refused. Another algorithm would silently give other bits.
template <MatmulLibrary L>
class PinnedProduct {
 public:
  using Stream = typename L::Stream;
  static constexpr bool invariant = false;

  /// `rows`: number of rows for which algorithms are chosen, as in a usual step; at least 1.
  PinnedProduct(L library, int rows) : library_(std::move(library)), rows_(rows) {}

  Status operator()(Stream stream, const ProductCall& call) {
    if (call.rows == 0) return {};
    if (Status offered = library_offers(call); !offered.ok()) return offered;
    const Key key{call.outputs,    call.inputs, call.element,  call.bias != nullptr,
                  call.accumulate, call.wide,   call.x_stride, call.y_stride};
    auto at = pinned_.find(key);
    if (at == pinned_.end()) {
      Expected<Algorithm> algorithm = choose(call);
      if (!algorithm) return algorithm.error();
      at = pinned_.emplace(key, *algorithm).first;
    }
    const CallParts parts = parts_of(call);
    for (const ProductCall& part : parts) { // all of them before the first is enqueued
      for (const std::uint32_t aligned : alignments_of(part)) {
        if (aligned < alignment)
          return Error{ErrorCode::bad_input, name_of(part),
                       "a matrix at a multiple of " + std::to_string(aligned) + " bytes",
                       "multiples of 16: a split at a multiple of 8 outputs"};
      }
    }
    for (const ProductCall& part : parts)
      if (LibraryAnswer said = library_.run(part, at->second, stream); !said.status.ok()) return said.status;
    return {};
  }
  [[nodiscard]] Bytes workspace() const { return library_.workspace(); }

 private:
  using Algorithm = typename L::Algorithm;
  static constexpr std::uint32_t alignment = 16;

  struct Key {
    int outputs, inputs;
    ElementType element;
    bool biased, accumulate, wide;
    std::int64_t x_stride, y_stride;
    auto operator<=>(const Key&) const = default;
  };

  [[nodiscard]] Expected<Algorithm> choose(ProductCall call) const {
    call.rows = rows_;
    call.w = ProductWeights::whole(call.w.head != nullptr ? call.w.head : call.w.tail, call.outputs);
    Expected<std::vector<Algorithm>> found = library_.algorithms(call, {alignment, alignment, alignment}, true);
    if (!found) return found.error();
    return found->front();
  }

  L library_;
  int rows_;
  std::map<Key, Algorithm> pinned_;
};

} // namespace sluice::kernels
