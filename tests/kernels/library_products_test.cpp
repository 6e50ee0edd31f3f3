// SPDX-License-Identifier: Apache-2.0
// BucketedProduct, PinnedProduct, shows_invariance and Invariant, with the test's own library and device.
#include "kernels/products/bucketed_product.hpp"
#include "kernels/products/invariant.hpp"
#include "kernels/products/pinned_product.hpp"
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// The questions that a library received, and its answers.
struct Book {
  struct Asked {
    int rows, outputs;
    Alignments aligned;
    bool one_sum;
  };
  struct Ran {
    ProductCall call;
    int algorithm;
  };
  std::vector<Asked> asked;
  std::vector<Ran> ran;
  int refused_rows = -1; ///< by the algorithm of a bucket
  bool fails = false;
};

struct Library {
  using Stream = int;
  using Algorithm = int; ///< the rows that it was selected for
  Book* book;

  Expected<std::vector<int>> algorithms(const ProductCall& call, const Alignments& aligned, bool one_sum) const {
    book->asked.push_back({call.rows, call.outputs, aligned, one_sum});
    return std::vector<int>{call.rows, -1};
  }
  LibraryAnswer run(const ProductCall& call, int algorithm, int) const {
    book->ran.push_back({call, algorithm});
    if (book->fails) return {false, Error{ErrorCode::out_of_memory, "library", "no memory", ""}};
    if (call.rows == book->refused_rows && algorithm != call.rows)
      return {true, Error{ErrorCode::unsupported, "library", "not this algorithm", ""}};
    return {};
  }
  Bytes workspace() const { return Bytes{7}; }
};
static_assert(MatmulLibrary<Library>);
static_assert(Product<BucketedProduct<Library>> && Product<PinnedProduct<Library>>);
static_assert(!InvariantProduct<PinnedProduct<Library>>);

alignas(256) std::array<std::byte, 4096> place; // addresses only

ProductCall call_of(int rows, int outputs = 32) {
  ProductCall call;
  call.x = place.data();
  call.w = ProductWeights::whole(place.data() + 1024, outputs);
  call.y = place.data() + 2048;
  call.rows = rows;
  call.outputs = outputs;
  call.inputs = 16;
  call.x_stride = 16;
  call.y_stride = outputs;
  call.element = ElementType::bf16;
  return call;
}

/// Device memory that is host memory.
struct HostMemory {
  struct Free {
    void operator()(std::byte* at) const { ::operator delete[](at, std::align_val_t{256}); }
  };
  using Owned = std::unique_ptr<std::byte, Free>;

  Expected<Owned> holding(std::span<const std::byte> bytes) const {
    Owned owned{static_cast<std::byte*>(::operator new[](bytes.size(), std::align_val_t{256}))};
    std::memcpy(owned.get(), bytes.data(), bytes.size());
    return Expected<Owned>{std::move(owned)};
  }
  Status copy(std::byte* to, const std::byte* from, std::size_t bytes, int) const {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status read(std::span<std::byte> into, const std::byte* from, int) const {
    std::memcpy(into.data(), from, into.size());
    return {};
  }
};

/// Multiplies f32 on the host with one chain of sums, or with two from a given row count on.
struct HostProduct {
  using Stream = int;
  static constexpr bool invariant = false;
  int splits_at = 1 << 30;
  ErrorCode refuses_split = ErrorCode::infeasible; ///< with this code; `infeasible`: it does not
  int* calls = nullptr;

  Status operator()(int, const ProductCall& call) const {
    if (calls != nullptr) ++*calls;
    if (call.w.split != call.outputs && refuses_split != ErrorCode::infeasible)
      return Error{refuses_split, "host", "a split", ""};
    for (int row = 0; row < call.rows; ++row) {
      for (int output = 0; output < call.outputs; ++output) {
        const bool in_head = output < call.w.split;
        const float* const w = static_cast<const float*>(in_head ? call.w.head : call.w.tail) +
                               (in_head ? output : output - call.w.split) * call.inputs;
        const float* const x = static_cast<const float*>(call.x) + row * call.x_stride;
        float sums[2] = {0, 0};
        for (int k = 0; k < call.inputs; ++k) sums[call.rows >= splits_at && k % 2 == 1 ? 1 : 0] += x[k] * w[k];
        float sum = sums[0] + sums[1];
        if (call.bias != nullptr) sum += static_cast<const float*>(call.bias)[output];
        float* const y = static_cast<float*>(call.y) + row * call.y_stride + output;
        *y = call.accumulate ? *y + sum : sum;
      }
    }
    return {};
  }
  Bytes workspace() const { return Bytes{0}; }
};

ProductShape small() {
  ProductShape shape;
  shape.outputs = 24;
  shape.inputs = 8;
  shape.element = ElementType::f32;
  shape.y_stride = 28;
  shape.most_rows = 300;
  return shape;
}

struct Tiles {
  int* calls;
  Status operator()(TileProductConfig, const ProductCall&, int) const {
    ++*calls;
    return {};
  }
};

} // namespace

TEST_CASE("row counts of a bucket share an algorithm, and a row count that it does not fit has its own") {
  Book book;
  BucketedProduct<Library> product{Library{&book}};
  CHECK(product.workspace() == Bytes{7});
  REQUIRE(product(0, call_of(0)).ok());
  CHECK(book.ran.empty());
  for (const int rows : {5, 8, 7}) REQUIRE(product(0, call_of(rows)).ok());
  REQUIRE(book.asked.size() == 1);
  CHECK(book.asked[0].rows == 8);
  CHECK(!book.asked[0].one_sum);
  for (const Book::Ran& one : book.ran) CHECK(one.algorithm == 8);

  book.refused_rows = 6;
  for (int i = 0; i < 2; ++i) REQUIRE(product(0, call_of(6)).ok());
  CHECK(book.asked.size() == 2);
  CHECK(book.asked.back().rows == 6);
  REQUIRE(book.ran.size() == 6); // the bucket's, its own, and immediately its own
  CHECK(book.ran[3].algorithm == 8);
  CHECK(book.ran[4].algorithm == 6);
  CHECK(book.ran[5].algorithm == 6);

  ProductCall elsewhere = call_of(8); // an address with another alignment is another question
  elsewhere.x = place.data() + 16;
  REQUIRE(product(0, elsewhere).ok());
  CHECK(book.asked.back().aligned == Alignments{256, 16, 256});
  book.fails = true;
  const Status failed = product(0, call_of(8));
  REQUIRE(!failed.ok());
  CHECK(failed.error().code == ErrorCode::out_of_memory);
  CHECK(book.asked.size() == 3);
}

TEST_CASE("weights in two places take two calls, each for its part of y and bias") {
  Book book;
  BucketedProduct<Library> product{Library{&book}};
  ProductCall call = call_of(4);
  call.w = {place.data(), place.data() + 1024, 8};
  call.bias = place.data() + 512;
  REQUIRE(product(0, call).ok());
  REQUIRE(book.ran.size() == 2);
  CHECK(book.ran[0].call.outputs == 8);
  CHECK(book.ran[0].call.y == call.y);
  CHECK(book.ran[1].call.outputs == 24);
  CHECK(book.ran[1].call.w.head == call.w.tail);
  CHECK(book.ran[1].call.y == place.data() + 2048 + 16);
  CHECK(book.ran[1].call.bias == place.data() + 512 + 16);
  call.wide = true; // cuBLASLt has no such result with a 16-bit bias
  CHECK(product(0, call).error().code == ErrorCode::unsupported);
}

TEST_CASE("a pinned matrix has one algorithm with one sum, for any rows, split and address") {
  Book book;
  PinnedProduct<Library> product{Library{&book}, 64};
  for (const int rows : {1, 64, 4096}) REQUIRE(product(0, call_of(rows)).ok());
  ProductCall call = call_of(9);
  call.w = {place.data(), place.data() + 1024, 16};
  REQUIRE(product(0, call).ok());
  REQUIRE(book.asked.size() == 1);
  CHECK(book.asked[0].rows == 64);
  CHECK(book.asked[0].one_sum);
  CHECK(book.asked[0].aligned == Alignments{16, 16, 16});
  for (const Book::Ran& one : book.ran) CHECK(one.algorithm == 64);

  const std::size_t ran = book.ran.size();
  call.w.split = 4;
  CHECK(product(0, call).error().code == ErrorCode::bad_input);
  CHECK(book.ran.size() == ran); // no call was enqueued
  call.w.split = 16;
  call.y_stride = 64; // strides are the matrix's
  REQUIRE(product(0, call).ok());
  CHECK(book.asked.size() == 2);
}

TEST_CASE("a device shows whether rows keep their bits") {
  HostMemory memory;
  int calls = 0;
  for (const bool more : {false, true}) {
    ProductShape shape = small();
    shape.biased = shape.accumulate = more;
    HostProduct product;
    product.calls = &calls;
    const Expected<bool> shown = shows_invariance(product, memory, shape, 0);
    REQUIRE(shown.has_value());
    CHECK(*shown);
    for (const int splits_at : {2, 7, 64, 129, 257, 300}) {
      product.splits_at = splits_at;
      const Expected<bool> other = shows_invariance(product, memory, shape, 0);
      REQUIRE(other.has_value());
      CHECK(!*other);
    }
  }
  CHECK(calls > 2 * 20);
  for (const ErrorCode code : {ErrorCode::unsupported, ErrorCode::bad_input}) {
    HostProduct refuses;
    refuses.refuses_split = code;
    const Expected<bool> shown = shows_invariance(refuses, memory, small(), 0);
    REQUIRE(shown.has_value());
    CHECK(!*shown);
  }
  HostProduct fails;
  fails.refuses_split = ErrorCode::out_of_memory;
  CHECK(shows_invariance(fails, memory, small(), 0).error().code == ErrorCode::out_of_memory);
  ProductShape none = small();
  none.x_stride = 3;
  CHECK(shows_invariance(fails, memory, none, 0).error().code == ErrorCode::bad_input);
}

TEST_CASE("each matrix has one product: pinned if shown invariant, own tiles if it is rebuilt") {
  HostMemory memory;
  int tiles = 0, pinned = 0;
  HostProduct library;
  library.calls = &pinned;
  Invariant<Tiles, HostProduct> product{Tiles{&tiles}, library};
  static_assert(InvariantProduct<Invariant<Tiles, HostProduct>>);
  const ProductShape shape = small();
  std::vector<float> x(300 * 8), w(24 * 8), y(300 * 32);
  ProductCall call;
  call.x = x.data();
  call.w = ProductWeights::whole(w.data(), 24);
  call.y = y.data();
  call.rows = 3;
  call.outputs = 24;
  call.inputs = 8;
  call.x_stride = 8;
  call.y_stride = 28;
  REQUIRE(product(0, call).ok());
  CHECK(tiles == 1);

  const Expected<bool> shown = product.prefer_pinned(memory, shape, 0);
  REQUIRE(shown.has_value());
  CHECK(*shown);
  const int before = pinned;
  REQUIRE(product(0, call).ok());
  CHECK(tiles == 1);
  CHECK(pinned == before + 1);
  call.y_stride = 32; // was not shown, and own tiles would have other bits
  CHECK(product(0, call).error().code == ErrorCode::bad_input);
  call.y_stride = 28;
  call.rows = 301;
  CHECK(product(0, call).error().code == ErrorCode::bad_input);
  CHECK(product.keep_tiles(shape).error().code == ErrorCode::bad_input);

  Invariant<Tiles, HostProduct> rebuilt{Tiles{&tiles}, library};
  ProductShape biased = shape;
  biased.biased = true;
  CHECK(rebuilt.keep_tiles(biased).error().code == ErrorCode::bad_input);
  REQUIRE(rebuilt.keep_tiles(shape).ok());
  CHECK(rebuilt.prefer_pinned(memory, shape, 0).error().code == ErrorCode::bad_input);
  CHECK(rebuilt.prefer_pinned(memory, biased, 0).error().code == ErrorCode::bad_input);
  call.rows = 3;
  REQUIRE(rebuilt(0, call).ok());
  CHECK(tiles == 2);
}
