// SPDX-License-Identifier: Apache-2.0
// Waits for the host's attention in the evaluator: they lengthen layers, count as stalls, and have their own cause.
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "policy/transfer/random_pipeline.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace sluice::test {
namespace {

struct WaitedFor {
  static constexpr bool enabled = true;
  double end_s = 0, stall_s = 0, host_s = 0, computed_s = 0;
  void layer(int, double start_s, double end, double stall, StallCause cause) {
    CHECK(start_s >= end_s - 1e-12);
    end_s = end;
    stall_s += stall;
    computed_s += end - start_s;
    host_s += cause == StallCause::host ? stall : 0;
  }
  void transfer(int, int, double, double) {}
};

template <class Rule>
void check_waits() {
  Random random(11);
  int waited_longest = 0, stretched_often = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    RandomPipeline made(random);
    Pipeline& pipeline = made.pipeline;
    const std::vector<double> sums = made.loads();
    pipeline.room_blocks = 2 * DeadlinePool::held_blocks(sums, {}) + 100;
    double least_s = pipeline.compute_s.front();
    for (const double one : pipeline.compute_s) least_s = std::min(least_s, one);
    const double wait_s = random.uniform() * least_s;
    typename Rule::State uncontended;
    const double alone_s = evaluate_link<Rule>(pipeline, uncontended).step_s;
    if (round % 2 == 0) pipeline.on_link = 0.5 * random.uniform(); // the computation uses the link as well

    typename Rule::State plain, waiting, told;
    const StepCost without = evaluate_link<Rule>(pipeline, plain);
    pipeline.host_wait_s = wait_s; // of the same layers, whose times include it
    const StepCost with = evaluate_link<Rule>(pipeline, waiting);
    CHECK(with.step_s == without.step_s);
    CHECK(with.stall_s == doctest::Approx(without.stall_s + wait_s * pipeline.layers()));

    WaitedFor sink;
    const StepCost seen = evaluate_link<Rule>(pipeline, told, sink);
    CHECK(seen.step_s == with.step_s);
    CHECK(seen.stall_s == with.stall_s);
    // What the layers' stalls do not show is a wait for writes at the end.
    CHECK(sink.stall_s <= with.stall_s + 1e-9);
    CHECK(sink.stall_s >= wait_s * pipeline.layers() - 1e-9);
    const double stretched = with.step_s / alone_s; // its layers too, but not the waits in them
    stretched_often += stretched > 1.001;
    CHECK(sink.computed_s ==
          doctest::Approx(stretched * (pipeline.compute_total_s() - pipeline.before_s - pipeline.after_s) -
                          wait_s * pipeline.layers()));
    waited_longest += sink.host_s > 0;
  }
  CHECK(waited_longest > 100);
  CHECK(stretched_often > 20);
}

TEST_CASE("waits for the host's attention count as stalls, under every rule") {
  check_waits<DeadlinePool>();
  check_waits<FairShare>();
  check_waits<NextLayer>();
}

} // namespace
} // namespace sluice::test
