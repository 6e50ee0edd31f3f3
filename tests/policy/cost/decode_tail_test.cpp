// SPDX-License-Identifier: Apache-2.0
// DecodeTail: hand-computed batches on two multiprocessors, and properties.
#include "sluice/core/random.hpp"
#include "sluice/policy/cost/served_tables.hpp"

#include "policy/cost/small_bundle.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace sluice;

namespace {

std::vector<Tokens> contexts(std::initializer_list<int> lengths) {
  std::vector<Tokens> all;
  for (const int length : lengths) all.push_back(Tokens{length});
  return all;
}

} // namespace

TEST_CASE("a long sequence that starts last outlives the others") {
  // Two multiprocessors at 10 tokens/s each, a memory that never limits. Equal sequences of 3: two rounds of 0.3 s.
  const DecodeTail tail({2, 1, 1}, {10.0, 1000.0});
  // 2 and 2 end at 0.2 s; 2 ends at 0.4 s and 6 at 0.8 s.
  CHECK(tail.seconds(contexts({2, 2, 2, 6}), false, 4) == doctest::Approx(0.8 - 0.6));
  // 6 ends at 0.6 s, and so do the three others one after the other.
  CHECK(tail.seconds(contexts({6, 2, 2, 2}), false, 4) == doctest::Approx(0.0));
  CHECK(tail.seconds(contexts({3, 3, 3, 3}), false, 4) == 0);
  CHECK(tail.seconds(contexts({12}), false, 1) == 0);
  CHECK(tail.seconds({}, false, 4) == 0);
}

TEST_CASE("a block does not read faster alone than one block can") {
  // The memory gives 10 tokens/s together, a block at most 5: two blocks use all of it, one only half.
  // 2, 2: until 0.4 s; 2 and 6: 2 more tokens each until 0.8 s; then 4 tokens of one block at 5 per second: 1.6 s.
  // Equal: 12 tokens at 10 per second.
  CHECK(DecodeTail({2, 1, 1}, {5.0, 10.0}).seconds(contexts({2, 2, 2, 6}), false, 4) == doctest::Approx(1.6 - 1.2));
  // A block that reaches the memory's rate alone leaves no tail.
  CHECK(DecodeTail({2, 1, 1}, {10.0, 10.0}).seconds(contexts({2, 2, 2, 6}), false, 4) == doctest::Approx(0.0));
}

TEST_CASE("heads are dealt out one after the other") {
  // Two KV heads of sequences 1 and 3: the blocks 1, 3, 1, 3. On two multiprocessors at 1 token/s: 1 ends at 1, the
  // next 1 at 2, 3 at 3, and the last 3 at 5. Equal: 2, 2, 2, 2 end at 4.
  const DecodeTail tail({2, 2, 2}, {1.0, 1000.0});
  CHECK(tail.seconds(contexts({1, 3}), false, 2) == doctest::Approx(5.0 - 4.0));
}

TEST_CASE("few sequences are split along the KV, but not beside a chunk") {
  const DecodeTail tail({10, 2, 4}, {1.0, 1e6});
  CHECK(tail.split(7)); // 14 blocks of 16
  CHECK_FALSE(tail.split(8));
  CHECK(tail.seconds(contexts({1, 1, 1, 1, 1, 1, 9}), false, 7) == 0);
  // A graph for 8 sequences is not split, though one of its rows is empty: 14 blocks on 10 multiprocessors. The first
  // ten start at once (1 x 6, 9, 1 x 3), the last four at 1, the long one ends at 10. Equal: 15/7 in two rounds.
  CHECK(tail.seconds(contexts({1, 1, 1, 1, 1, 1, 9}), false, 8) == doctest::Approx(10.0 - 2.0 * 15.0 / 7.0));
  // Beside a chunk there are 4 query heads: 8 blocks on 10 multiprocessors, all at once.
  CHECK(tail.seconds(contexts({1, 9}), true, 2) == doctest::Approx(9.0 - 5.0));
}

TEST_CASE("query heads of a group share what they read") {
  // One KV head, two query heads: the memory's 4 tokens/s serve 8 of query heads. Blocks 1, 3, 1, 3 on four
  // multiprocessors at up to 4 each: four active at 2 each until 1 (0.5 s), then two at 4 each: 0.5 s.
  // Equal: 2, 2, 2, 2 at 2 each: 1 s.
  CHECK(DecodeTail({4, 1, 2}, {4.0, 4.0}).seconds(contexts({1, 3}), true, 2) == doctest::Approx(0.0));
  // With blocks of at most 2: 0.5 s, then 2 tokens at 2: 1 s more.
  CHECK(DecodeTail({4, 1, 2}, {2.0, 4.0}).seconds(contexts({1, 3}), true, 2) == doctest::Approx(0.5));
}

TEST_CASE("every block is dealt, and the time is between the bounds of any schedule") {
  Random rng(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int multiprocessors = 1 + static_cast<int>(rng.below(12));
    const int heads = 1 + static_cast<int>(rng.below(4));
    const double block = 1.0 + static_cast<double>(rng.below(8)), memory = 1.0 + static_cast<double>(rng.below(60));
    std::vector<double> lengths(1 + rng.below(20));
    double sum = 0, longest = 0;
    for (double& length : lengths) {
      length = 1.0 + static_cast<double>(rng.below(50));
      sum += length;
      longest = std::max(longest, length);
    }
    const DecodeTail tail({multiprocessors, heads, heads}, {block, memory});
    const double seconds = tail.dealt([&](std::size_t i) { return lengths[i]; }, lengths.size(), heads);
    const double all = sum * heads;
    CHECK(seconds >= longest / block * (1 - 1e-12));
    CHECK(seconds >= all / std::min(memory, multiprocessors * block) * (1 - 1e-12));
    // No multiprocessor is free while a block waits: list scheduling is at most the work and one block longer.
    CHECK(seconds <=
          (all / std::min(memory, multiprocessors * block) + longest / std::min(block, memory / multiprocessors)) *
              (1 + 1e-12));
  }
}

TEST_CASE("the rates come from the measured grid") {
  const TableProfile profile = testing::small_bundle();
  // 0.02 us per token of the past, and 0.001 us per token of all decodes.
  CHECK(profile.times().attention.block_rate() == doctest::Approx(1e6 / 0.02));
  CHECK(profile.times().attention.memory_rate() == doctest::Approx(1e6 / 0.001));
  CHECK(profile.times().layer_launches == 8);
}
