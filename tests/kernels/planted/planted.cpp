// SPDX-License-Identifier: Apache-2.0
// Runs the kernel of one bug, right (`planted BUG none`) or wrong (`planted BUG`), and prints what the emulator reports
// and whether the numbers are right. Compiled three ways: a sanitizer's report goes to stderr.
#include "emulate/launch.hpp"
#include "kernels/planted/counted_sum.hpp"
#include "kernels/planted/paged_decode.hpp"
#include "kernels/planted/rotary.hpp"
#include "kernels/planted/scaled_rows.hpp"
#include "kernels/planted/tile_product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

namespace {

using namespace planted;
using sluice::emulate::launch;
using sluice::emulate::Report;

struct Outcome {
  Report report;
  std::size_t differ = 0, of = 0; // numbers
};

std::vector<float> drawn(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> all(size);
  for (float& one : all) one = static_cast<float>(random() >> 40U) * 0x1p-23F - 1;
  return all;
}

Outcome outcome(Report report, const std::vector<float>& got, const std::vector<float>& wanted) {
  Outcome result{std::move(report), 0, wanted.size()};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    result.differ += std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(wanted[i]);
  return result;
}

/// The numbers that `CountedSum` and `PagedDecode` add by shuffles.
float sum_of_lanes(std::vector<float> lanes) {
  for (std::size_t with = 16; with > 0; with /= 2) {
    const std::vector<float> before = lanes;
    for (std::size_t lane = 0; lane < 32; ++lane) lanes[lane] = before[lane] + before[lane ^ with];
  }
  return lanes[0];
}

template <Bug bug>
Outcome paged_decode(std::uint64_t seed) {
  using K = PagedDecode<bug>;
  constexpr std::size_t dim = K::dim, page = K::page;
  const std::vector<int> tokens = {1, 55, 16, 0, 70, 33};
  std::vector<std::vector<float>> pool;
  std::vector<const float*> blocks;
  std::vector<int> first_block;
  for (const int length : tokens) {
    first_block.push_back(static_cast<int>(pool.size()));
    for (int p = 0; p * K::page < length; ++p) pool.push_back(drawn(2 * page * dim, seed * 100 + pool.size()));
  }
  for (const auto& block : pool) blocks.push_back(block.data());
  blocks.push_back(blocks.front()); // a read one too far finds a block
  const std::vector<float> query = drawn(tokens.size() * dim, seed);
  std::vector<float> out(query.size()), wanted;

  for (std::size_t s = 0; s < tokens.size(); ++s) { // serially, in the kernel's order of sums
    float maximum = lowest_score, total = 0;
    std::vector<float> value(2 * dim);
    const auto length = static_cast<std::size_t>(tokens[s]);
    for (std::size_t first = 0; first < length; first += page) {
      const float* const block = blocks[static_cast<std::size_t>(first_block[s]) + first / page];
      std::vector<float> score(page, lowest_score);
      float now = maximum;
      for (std::size_t t = 0; t < std::min(page, length - first); ++t) {
        std::vector<float> products(dim);
        for (std::size_t d = 0; d < dim; ++d) products[d] = query[s * dim + d] * block[t * dim + d];
        score[t] = sum_of_lanes(products);
        now = std::max(now, score[t]);
      }
      const float keep = std::exp2(maximum - now);
      maximum = now;
      total *= keep;
      for (float& one : value) one *= keep;
      for (std::size_t t = 0; t < page; ++t) {
        const float weight = score[t] > lowest_score ? std::exp2(score[t] - now) : 0.0F;
        total += weight;
        for (std::size_t d = 0; d < dim; ++d) {
          float& sum = value[t / (page / 2) * dim + d];
          sum = std::fma(weight, block[page * dim + t * dim + d], sum);
        }
      }
    }
    for (std::size_t d = 0; d < dim; ++d) wanted.push_back(total > 0 ? (value[d] + value[dim + d]) / total : 0.0F);
  }
  const Grid grid{static_cast<int>(tokens.size()), 1};
  Report report = launch<K>(grid, {query.data(), blocks.data(), first_block.data(), tokens.data(), out.data()}, seed);
  return outcome(std::move(report), out, wanted);
}

template <Bug bug>
Outcome rotary(std::uint64_t seed) {
  constexpr std::size_t rows = 5, dim = 32;
  const auto in = drawn(rows * dim, seed), cosines = drawn(rows * dim / 2, seed + 1),
             sines = drawn(rows * dim / 2, seed + 2);
  std::vector<float> out(rows * dim), wanted(rows * dim);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t angle = i / dim * (dim / 2) + i % (dim / 2), other = i ^ (dim / 2);
    wanted[i] = i % dim < dim / 2 ? in[i] * cosines[angle] - in[other] * sines[angle]
                                  : in[i] * cosines[angle] + in[other] * sines[angle];
  }
  Report report = launch<Rotary<bug>>({3, 1}, {in.data(), cosines.data(), sines.data(), out.data(), rows}, seed);
  return outcome(std::move(report), out, wanted);
}

template <Bug bug>
Outcome counted_sum(std::uint64_t seed) {
  constexpr std::size_t size = 1000, each = CountedSum<bug>::each, blocks = (size + each - 1) / each;
  const auto in = drawn(size, seed);
  std::vector<float> parts(blocks), sum(1), wanted(1);
  int arrived = 0, summed = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    std::vector<float> lanes(32);
    for (std::size_t i = block * each; i < std::min(size, (block + 1) * each); ++i) lanes[i % 32] += in[i];
    wanted[0] += sum_of_lanes(lanes);
  }
  Report report =
      launch<CountedSum<bug>>({blocks, 1}, {in.data(), parts.data(), &arrived, sum.data(), &summed, size}, seed);
  return outcome(std::move(report), sum, wanted);
}

template <Bug bug>
Outcome scaled_rows(std::uint64_t seed) {
  constexpr std::size_t rows = 11, dim = ScaledRows<bug>::dim;
  struct alignas(16) Aligned {
    float of[rows * dim];
  };
  const auto numbers = drawn(rows * dim, seed);
  Aligned in, out{};
  std::copy(numbers.begin(), numbers.end(), in.of);
  std::vector<float> wanted(numbers);
  for (float& one : wanted) one *= 3;
  Report report = launch<ScaledRows<bug>>({2, 1}, {in.of, out.of, rows, 3.0F}, seed);
  return outcome(std::move(report), {std::begin(out.of), std::end(out.of)}, wanted);
}

template <Bug bug>
Outcome tile_product(std::uint64_t seed) {
  constexpr std::size_t depth = TileProduct<bug>::depth;
  const auto numbers = drawn((16 + 8) * depth, seed);
  std::vector<Bf16> operands(numbers.size());
  std::transform(numbers.begin(), numbers.end(), operands.begin(), narrow<Bf16>);
  std::vector<float> c(16 * 8), wanted(16 * 8);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t k = 0; k < depth; ++k)
      wanted[i] += widen(operands[i / 8 * depth + k]) * widen(operands[(16 + i % 8) * depth + k]);
  Report report = launch<TileProduct<bug>>({1, 1}, {operands.data(), operands.data() + 16 * depth, c.data()}, seed,
                                           {.conflicts = TileProduct<bug>::conflicts});
  return outcome(std::move(report), c, wanted);
}

struct Case {
  std::string_view name;
  Outcome (*right)(std::uint64_t), (*wrong)(std::uint64_t);
};

const Case cases[] = {
    {"missing_barrier_before_reuse", paged_decode<Bug::none>, paged_decode<Bug::missing_barrier_before_reuse>},
    {"missing_barrier_after_arrival", paged_decode<Bug::none>, paged_decode<Bug::missing_barrier_after_arrival>},
    {"missing_wait", paged_decode<Bug::none>, paged_decode<Bug::missing_wait>},
    {"wrong_mask", paged_decode<Bug::none>, paged_decode<Bug::wrong_mask>},
    {"tail_off_by_one", paged_decode<Bug::none>, paged_decode<Bug::tail_off_by_one>},
    {"wrong_page_order", paged_decode<Bug::none>, paged_decode<Bug::wrong_page_order>},
    {"uninitialised_shared_memory", paged_decode<Bug::none>, paged_decode<Bug::uninitialised_shared_memory>},
    {"out_of_bounds", paged_decode<Bug::none>, paged_decode<Bug::out_of_bounds>},
    {"shuffle_as_barrier", rotary<Bug::none>, rotary<Bug::shuffle_as_barrier>},
    {"two_blocks_one_word", counted_sum<Bug::none>, counted_sum<Bug::two_blocks_one_word>},
    {"missing_fence_of_counter", counted_sum<Bug::none>, counted_sum<Bug::missing_fence_of_counter>},
    {"missing_fence_of_proxy", scaled_rows<Bug::none>, scaled_rows<Bug::missing_fence_of_proxy>},
    {"fence_of_one_writer", scaled_rows<Bug::none>, scaled_rows<Bug::fence_of_one_writer>},
    {"bank_conflicts", tile_product<Bug::none>, tile_product<Bug::bank_conflicts>},
};

} // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto* const found =
      std::find_if(std::begin(cases), std::end(cases), [&](const Case& one) { return one.name == name; });
  if (found == std::end(cases)) {
    std::fprintf(stderr, "usage: planted BUG [none]\n");
    return 2;
  }
  const auto run = argc > 2 ? found->right : found->wrong;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome one = run(seed);
    if (!one.report.ok()) std::printf("emulator, seed %d: %s", static_cast<int>(seed), one.report.text().c_str());
    if (one.report.ok() && one.differ != 0)
      std::printf("numbers, seed %d: %zu of %zu differ\n", static_cast<int>(seed), one.differ, one.of);
    if (!one.report.ok() || one.differ != 0) return 1;
  }
  std::printf("clean\n");
  return 0;
}
