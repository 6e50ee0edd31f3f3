// SPDX-License-Identifier: Apache-2.0
// ByBatchSize: which of its two placements answers.
#include "sluice/policy/placement/by_batch_size.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Answers with a step of `step_s` seconds.
template <bool Layers>
struct Says {
  using role = roles::Placement;
  [[maybe_unused]] static constexpr bool places_layers = Layers;
  template <class Transfer>
  struct State {};
  double step_s = 0;
  [[nodiscard]] constexpr Holding least(int layers) const {
    return Layers ? Holding{all_tokens, LayerSet::all(layers), {}} : Holding{};
  }
  template <class Task, class S>
  Verdict solve(const Task& task, S&, Plan& plan) const {
    plan.predicted_step = Seconds{step_s};
    return {true, task.claims.size() - task.required, Binding::none};
  }
};
using Two = BasicByBatchSize<Says<true>, Says<false>>;
static_assert(Placement<Two> && Two::places_layers);
static_assert(!BasicByBatchSize<Says<false>, Says<false>>::places_layers);

} // namespace

TEST_CASE("few requests are placed by one policy and many by the other, but one that is left alone counts as few") {
  HandMade made;
  std::vector<Claim> claims;
  for (int i = 0; i < 12; ++i) {
    const Slot slot = made.decoding(Tokens{100}, Tokens{5}, Tokens{50});
    claims.push_back({slot, Tokens{1}, Tokens{0}, true});
  }
  const View view = made.view();
  const PlainCost cost;
  Two policy;
  policy.few.step_s = 1;
  policy.many.step_s = 2;
  Two::State<DeadlinePool> state;
  for (const std::int64_t few_at_most : {0, 1, 5, 12}) {
    policy.few_at_most = few_at_most;
    for (std::size_t count = 1; count <= claims.size(); ++count)
      for (std::size_t required = 0; required <= count; ++required) {
        const PlacementTask<PlainCost, DeadlinePool, PerLayer> task{view,
                                                                    std::span<const Claim>(claims).first(count),
                                                                    required,
                                                                    LayerBlocks{1 << 20},
                                                                    LayerBlocks{1 << 20},
                                                                    cost,
                                                                    Window{1, 16}};
        Plan plan;
        CHECK(policy.solve(task, state, plan).joined == count - required);
        const bool many = count > static_cast<std::size_t>(few_at_most) && required > 1;
        CHECK(plan.predicted_step == Seconds{many ? 2.0 : 1.0});
      }
  }
  CHECK(policy.least(8) == policy.few.least(8)); // a request alone is placed by it
}

TEST_CASE("an exact search for few requests accepts no missed deadline") {
  CHECK(ByBatchSize{}.few.options.alpha == 0);
  CHECK(GroupedDistance{}.options.alpha > 0); // alone it does
}
