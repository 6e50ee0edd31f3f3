// SPDX-License-Identifier: Apache-2.0
#include "kernels/experts/move_rows.hpp"
#include "kernels/experts/place.hpp"
#include "kernels/experts/route.hpp"
#include "row_data.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

struct Routed {
  std::vector<int> chosen;
  std::vector<float> shares;
};

template <Element T>
constexpr ElementType element_of = std::is_same_v<T, float> ? ElementType::f32
                                   : std::is_same_v<T, F16> ? ElementType::f16
                                                            : ElementType::bf16;

template <Element T>
Routed route(const std::vector<T>& logits, int rows, int experts, int taken, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(taken);
  Routed routed{std::vector<int>(count, -1), no_numbers<float>(count)};
  run_emulated<Route<RouteConfig{element_of<T>}>>(
      {logits.data(), routed.chosen.data(), routed.shares.data(), rows, experts, taken}, seed);
  return routed;
}

template <Element T>
void routes() {
  Random random(10);
  const int shapes[][3] = {{0, 8, 2}, {1, 1, 1}, {5, 8, 2}, {9, 128, 8}, {7, 256, 8}, {4, 60, 4}, {3, 8, 8}};
  std::uint64_t seed = 1;
  for (const auto& shape : shapes) {
    const int rows = shape[0], experts = shape[1], taken = shape[2];
    CAPTURE(rows);
    CAPTURE(experts);
    for (const bool ties : {false, true}) {
      const auto width = static_cast<std::size_t>(experts);
      std::vector<T> logits = normal_numbers<T>(random, static_cast<std::size_t>(rows) * width, 2);
      if (ties) {
        for (T& logit : logits) logit = narrow<T>(std::floor(widen(logit)));
      }
      const Routed routed = route(logits, rows, experts, taken, seed++);
      std::vector<double> expected;
      std::vector<int> best;
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        const auto logit = [&](int expert) { return exact(logits[row * width + static_cast<std::size_t>(expert)]); };
        std::vector<int> order(width);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logit(a) > logit(b); });
        double total = 0;
        for (int i = 0; i < taken; ++i) total += std::exp(logit(order[static_cast<std::size_t>(i)]) - logit(order[0]));
        for (int i = 0; i < taken; ++i) {
          best.push_back(order[static_cast<std::size_t>(i)]);
          expected.push_back(std::exp(logit(best.back()) - logit(order[0])) / total);
        }
      }
      CHECK(routed.chosen == best);
      CHECK(relative_error(routed.shares, expected) <= 1e-6);
    }
  }
}

/// Compares with the sum of a row's experts computed without gathering: here expert e multiplies by e + 1.
template <Element T>
void goes_there_and_back() {
  Random random(11);
  // One block for each expert: many experts give many blocks.
  const int shapes[][4] = {{0, 8, 2, 64},  {1, 8, 2, 7},      {13, 8, 2, 64},
                           {300, 4, 1, 8}, {20, 16, 8, 1100}, {9, 256, 8, 33}};
  std::uint64_t seed = 1;
  for (const auto& shape : shapes) {
    const int rows = shape[0], experts = shape[1], taken = shape[2], features = shape[3];
    if (experts == 256 && (under_thread_sanitizer || sizeof(T) == 2)) continue;
    CAPTURE(rows);
    CAPTURE(experts);
    const auto width = static_cast<std::size_t>(features), count = static_cast<std::size_t>(rows);
    const auto assignments = count * static_cast<std::size_t>(taken);
    const std::vector<T> logits = normal_numbers<T>(random, count * static_cast<std::size_t>(experts), 2);
    const std::vector<T> x = normal_numbers<T>(random, count * width);
    const Routed routed = route(logits, rows, experts, taken, seed++);

    std::vector<int> offsets(static_cast<std::size_t>(experts) + 1, -1), slots(assignments, -1);
    run_emulated<Place<>>({routed.chosen.data(), offsets.data(), slots.data(), static_cast<int>(assignments), experts},
                          seed++);
    std::vector<int> order(assignments); // by expert; rows of one expert in their order
    std::iota(order.begin(), order.end(), 0);
    const auto expert_of = [&](int assignment) { return routed.chosen[static_cast<std::size_t>(assignment)]; };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return expert_of(a) < expert_of(b); });
    int misplaced = 0;
    for (std::size_t slot = 0; slot < assignments; ++slot)
      misplaced += slots[static_cast<std::size_t>(order[slot])] == static_cast<int>(slot) ? 0 : 1;
    CHECK(misplaced == 0);
    for (int e = 0; e <= experts; ++e) {
      const auto below = std::count_if(routed.chosen.begin(), routed.chosen.end(), [e](int one) { return one < e; });
      CHECK(offsets[static_cast<std::size_t>(e)] == below);
    }

    std::vector<T> gathered = no_numbers<T>(assignments * width);
    run_emulated<GatherRows<GatherRowsConfig{element_of<T>}>>(
        {x.data(), slots.data(), gathered.data(), rows, taken, features}, seed++);
    for (std::size_t slot = 0; slot < assignments; ++slot) {
      const auto row = static_cast<std::size_t>(order[slot] / taken);
      CHECK(same_bits(std::span<const T>{gathered}.subspan(slot * width, width),
                      std::span<const T>{x}.subspan(row * width, width)));
      const float factor = static_cast<float>(expert_of(order[slot]) + 1);
      for (std::size_t i = 0; i < width; ++i)
        gathered[slot * width + i] = narrow<T>(factor * widen(gathered[slot * width + i]));
    }

    std::vector<T> out = no_numbers<T>(count * width);
    run_emulated<ScatterRows<ScatterRowsConfig{element_of<T>}>>(
        {gathered.data(), slots.data(), routed.shares.data(), out.data(), rows, taken, features}, seed++);
    std::vector<double> expected;
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        double sum = 0;
        for (std::size_t k = row * static_cast<std::size_t>(taken); k < (row + 1) * static_cast<std::size_t>(taken);
             ++k)
          sum +=
              static_cast<double>(routed.shares[k]) * exact(gathered[static_cast<std::size_t>(slots[k]) * width + i]);
        expected.push_back(sum);
      }
    }
    CHECK(relative_error(out, expected) <= error_limit<T>);
    if (count < 2) continue;

    // The last row, alone: other slots, the same bits.
    const std::vector<T> last(x.end() - static_cast<std::ptrdiff_t>(width), x.end());
    const std::vector<T> last_logits(logits.end() - experts, logits.end());
    const Routed alone = route(last_logits, 1, experts, taken, seed++);
    std::vector<int> own_slots(static_cast<std::size_t>(taken));
    run_emulated<Place<>>({alone.chosen.data(), offsets.data(), own_slots.data(), taken, experts}, seed++);
    std::vector<T> own = no_numbers<T>(static_cast<std::size_t>(taken) * width), own_out = no_numbers<T>(width);
    run_emulated<GatherRows<GatherRowsConfig{element_of<T>}>>(
        {last.data(), own_slots.data(), own.data(), 1, taken, features}, seed++);
    for (std::size_t k = 0; k < own_slots.size(); ++k) {
      const float factor = static_cast<float>(alone.chosen[k] + 1);
      const auto at = static_cast<std::size_t>(own_slots[k]) * width;
      for (std::size_t i = at; i < at + width; ++i) own[i] = narrow<T>(factor * widen(own[i]));
    }
    run_emulated<ScatterRows<ScatterRowsConfig{element_of<T>}>>(
        {own.data(), own_slots.data(), alone.shares.data(), own_out.data(), 1, taken, features}, seed++);
    CHECK(same_bits(std::span<const T>{own_out}, std::span<const T>{out}.last(width)));
  }
}

} // namespace

TEST_CASE("kernels.experts: rows go to their best experts, equal ones to the lower index, weighted by the softmax "
          "among those") {
  SUBCASE("f32") { routes<float>(); }
  SUBCASE("f16") { routes<F16>(); }
  SUBCASE("bf16") { routes<Bf16>(); }
}

TEST_CASE("kernels.experts: a NaN logit is chosen last") {
  const float none = std::numeric_limits<float>::quiet_NaN(), least = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits{none, 1, least, none, 2, -3};
  const Routed routed = route(logits, 1, 6, 3, 1);
  CHECK(routed.chosen == std::vector<int>{4, 1, 5});
}

TEST_CASE(
    "kernels.experts: rows are placed in order, gathered, and summed, with bits that do not depend on other rows") {
  SUBCASE("f32") { goes_there_and_back<float>(); }
  SUBCASE("f16") { goes_there_and_back<F16>(); }
  SUBCASE("bf16") { goes_there_and_back<Bf16>(); }
}
