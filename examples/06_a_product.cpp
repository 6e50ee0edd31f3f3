// SPDX-License-Identifier: Apache-2.0
// a_product: every engine that can be composed from some policies per role, ranked on your own workload.
//
// The problem: each paper compares its engine with a few others, which differ in several roles at once. Which role made
// the difference, and is there a better composition that nobody has written? Goals of this program: name a product of
// policies as a type; find its combinations that are distinct engines; run and rank them; and show the effect of each
// choice. sluice-explore offers more of this (docs/explore.md).
#include "sluice/explore.hpp"
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

// These two names are aliases; the compiler knows only the templates behind them. The table prints these names instead.
template <>
inline constexpr std::string_view sluice::alias_of<sluice::DistancePlacement> = "DistancePlacement";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::MoveToHost> = "MoveToHost";

namespace {

using namespace sluice;

using Space = Product<Choices<AllResident, DistancePlacement>, // determines which layers are offloaded
                      Choices<Drop, MoveToHost>,               // determines what a preempted request keeps
                      Choices<OnBatchChange, EveryStep>>;      // determines when a new plan is made
constexpr std::size_t roles_of_space = 3;

struct Row {
  std::size_t combination;
  std::string engine;
  Metrics seen;
};

const Server server{.model = llama3_8b(),
                    .device = a5000(),
                    .kv_blocks = TokenBlocks{700},
                    .limits = {.batch = demo_batch, .batch_tokens = Tokens{32'768}}};
const Slo slo{.ttft = Seconds{5}, .tbt = Seconds{0.06}};

/// Serves with the engine of combination `I`, if it is a distinct engine. Other combinations cost nothing: their types
/// are never instantiated.
template <std::size_t I>
void run(std::vector<Row>& rows, Status& status) {
  if constexpr (Space::fate<I> == Combined::engine) {
    using E = Space::engine<I>;
    Shaped<Generator> requests{Generator{demo_workload(), /*seed=*/1}, {.slo = slo}};
    const Expected<Metrics> seen = serve<E>(server, requests);
    if (seen)
      rows.push_back({I, engine_name<E>(), *seen});
    else
      status = seen.error();
  }
}

/// Returns the row of combination `I`, or of the combination with the same engine.
template <std::size_t I>
const Row* find(const std::vector<Row>& rows) {
  if constexpr (Space::fate<I> == Combined::conflicts) {
    return nullptr;
  } else {
    const auto at =
        std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.combination == Space::original<I>(); });
    return at == rows.end() ? nullptr : &*at;
  }
}

} // namespace

int main() {
  fmt::print(
      "{} combinations: {} engines, {} that repeat another because a choice has no effect, {} that do not compose\n\n",
      Space::combinations, Space::count(Combined::engine), Space::count(Combined::repeats),
      Space::count(Combined::conflicts));
  std::vector<Row> rows;
  Status status;
  Space::for_each_of_part<0, 1>([&]<std::size_t I>() { run<I>(rows, status); });
  if (!status) {
    fmt::print(stderr, "a_product: {}\n", status.error().line());
    return 2;
  }

  std::vector<const Row*> ranked;
  for (const Row& row : rows) ranked.push_back(&row);
  std::sort(ranked.begin(), ranked.end(),
            [](const Row* a, const Row* b) { return a->seen.tbt_attainment > b->seen.tbt_attainment; });
  fmt::print("{:>4} {:>9} {:>9} {:>11}  {}\n", "rank", "TBT met", "mean E2E", "longest gap", "engine");
  for (std::size_t i = 0; i < ranked.size(); ++i)
    fmt::print("{:>4} {:>7.1f} % {:>7.1f} s {:>9.1f} s  {}\n", i + 1, 100 * ranked[i]->seen.tbt_attainment,
               ranked[i]->seen.mean_e2e_s, ranked[i]->seen.longest_gap_s, ranked[i]->engine);

  // The effect of a choice: the mean over all combinations that have it, including repeated ones.
  const char* names[roles_of_space][2] = {
      {"AllResident", "DistancePlacement"}, {"Drop", "MoveToHost"}, {"OnBatchChange", "EveryStep"}};
  fmt::print("\n{:<20} {:>9}\n", "with", "mean TBT met");
  for (std::size_t role = 0; role < roles_of_space; ++role)
    for (std::size_t model = 0; model < 2; ++model) {
      double sum = 0;
      int count = 0;
      Space::for_each_of_part<0, 1>([&]<std::size_t I>() {
        const Row* row = Space::turn(I, role) == model ? find<I>(rows) : nullptr;
        if (row == nullptr) return;
        sum += row->seen.tbt_attainment;
        ++count;
      });
      fmt::print("{:<20} {:>10.1f} %\n", names[role][model], 100 * sum / std::max(count, 1));
    }
  if (std::fflush(stdout) != 0) return std::perror("a_product: standard output"), 2;
  return 0;
}
