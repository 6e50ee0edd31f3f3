// SPDX-License-Identifier: Apache-2.0
// CopyBatch: a batch made in any order gives the same bytes as its copies one after the other.
#include "sluice/core/random.hpp"
#include "sluice/world/cuda/gather.hpp"

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

void copy_rows(const Copy& copy) {
  for (std::int64_t row = 0; row < copy.rows; ++row)
    std::memcpy(copy.to + row * copy.to_stride, copy.from + row * copy.from_stride,
                static_cast<std::size_t>(copy.bytes));
}

/// Makes the batch's copies in random order, sometimes after taking some out, and empties it.
void give(CopyBatch& batch, Random& random) {
  if (random.below(2) == 0) {
    const auto some = [](const Copy& copy) {
      return copy.bytes < 4 && reinterpret_cast<std::uintptr_t>(copy.from) % 2 == 0;
    };
    const std::size_t all = batch.copies().size();
    std::size_t taken = 0;
    batch.take_out(some, [&](const Copy& copy) {
      CHECK(some(copy));
      copy_rows(copy);
      ++taken;
    });
    CHECK(std::none_of(batch.copies().begin(), batch.copies().end(), some));
    CHECK(batch.copies().size() + taken == all);
  }
  std::vector<Copy> order(batch.copies().begin(), batch.copies().end());
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  for (const Copy& copy : order) copy_rows(copy);
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
      Copy copy;
      copy.bytes = bytes;
      copy.rows = 1 + static_cast<std::int64_t>(random.below(3));
      copy.from_stride = bytes + static_cast<std::int64_t>(random.below(3));
      copy.to_stride = bytes + static_cast<std::int64_t>(random.below(3));
      const std::int64_t from_end = from + (copy.rows - 1) * copy.from_stride + bytes,
                         to_end = to + (copy.rows - 1) * copy.to_stride + bytes;
      // A copy onto itself is not allowed.
      if ((from < to_end && to < from_end) || from_end > 512 || to_end > 512) continue;
      copy.from = plain.data() + from;
      copy.to = plain.data() + to;
      copy_rows(copy);
      copy.from = batched.data() + from;
      copy.to = batched.data() + to;
      if (!batch.take(copy)) {
        give(batch, random);
        REQUIRE(batch.take(copy));
      }
      largest = std::max(largest, batch.copies().size());
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
  CHECK(batch.copies().size() == CopyBatch::most);
}
