// SPDX-License-Identifier: Apache-2.0
// BucketedProduct, with the test's own library.
#include "kernels/products/bucketed_product.hpp"
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// The questions that a library received, and its answers.
struct Book {
  struct Asked {
    int rows, outputs;
    Alignments aligned;
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

  Expected<std::vector<int>> algorithms(const ProductCall& call, const Alignments& aligned) const {
    book->asked.push_back({call.rows, call.outputs, aligned});
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
static_assert(Product<BucketedProduct<Library>> && !InvariantProduct<BucketedProduct<Library>>);

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
