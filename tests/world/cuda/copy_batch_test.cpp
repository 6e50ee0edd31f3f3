// SPDX-License-Identifier: Apache-2.0
// CopyBatch: a batch made in any order gives the same bytes as its copies one after the other.
#include "sluice/core/random.hpp"
#include "sluice/world/cuda/copy_batch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

using Memory = std::vector<std::byte>;

/// Makes the batch's copies in random order, sometimes after taking some out, and empties it.
void give(CopyBatch& batch, Random& random) {
  std::vector<std::size_t> order(batch.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  const auto some = [&](const void* /*to*/, const void* from, std::size_t bytes) {
    return bytes < 4 && reinterpret_cast<std::uintptr_t>(from) % 2 == 0;
  };
  if (random.below(2) == 0) {
    const std::size_t all = batch.size(), wanted = batch.count(some);
    std::size_t taken = 0;
    batch.take_out(some, [&](void* to, const void* from, std::size_t bytes) {
      CHECK(some(to, from, bytes));
      std::memcpy(to, from, bytes);
      ++taken;
    });
    CHECK(taken == wanted);
    CHECK(batch.count(some) == 0);
    CHECK(batch.size() + taken == all);
    order.clear();
    for (std::size_t i = 0; i < batch.size(); ++i) order.push_back(i);
  }
  for (const std::size_t i : order) std::memcpy(batch.to()[i], batch.from()[i], batch.bytes()[i]);
  batch.clear();
}

} // namespace

TEST_CASE("a batch's copies have the same result in any order") {
  std::size_t largest = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Memory batched(512), plain;
    for (std::byte& byte : batched) byte = static_cast<std::byte>(random() & 0xff);
    plain = batched;
    CopyBatch batch;
    std::int64_t from = 0, to = 0;
    for (int i = 0; i < 100; ++i) {
      const auto bytes = static_cast<std::int64_t>(1 + random.below(8));
      const bool goes_on = random.below(3) == 0 && from + bytes < 256 && to + bytes < 512;
      if (!goes_on) {
        from = static_cast<std::int64_t>(random.below(500));
        to = static_cast<std::int64_t>(random.below(500));
      }
      if (from < to + bytes && to < from + bytes) continue; // a copy onto itself is not allowed
      Copy copy;
      copy.from = batched.data() + from;
      copy.to = batched.data() + to;
      copy.bytes = bytes;
      std::memcpy(plain.data() + to, plain.data() + from, static_cast<std::size_t>(bytes));
      if (!batch.take(copy)) {
        give(batch, random);
        REQUIRE(batch.take(copy));
      }
      largest = std::max(largest, batch.size());
      from += bytes;
      to += bytes;
    }
    give(batch, random);
    CHECK(batched == plain);
  }
  CHECK(largest > 3);
}

TEST_CASE("a batch has a limit") {
  Memory memory(CopyBatch::most * 8);
  CopyBatch batch;
  Copy copy;
  copy.bytes = 1;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < 2 * CopyBatch::most; ++i) {
    copy.from = memory.data() + 4 * i;
    copy.to = memory.data() + 4 * i + 2;
    taken += batch.take(copy) ? 1U : 0U;
  }
  CHECK(taken == CopyBatch::most);
  CHECK(batch.size() == CopyBatch::most);
}
