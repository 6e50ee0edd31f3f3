// SPDX-License-Identifier: Apache-2.0
// PausesWhenSlow: offloading pauses while first tokens take longer than at first.
#include "sluice/policy/caching/pauses_when_slow.hpp"
#include "sluice/policy/caching/write_through.hpp"

#include <doctest/doctest.h>

#include <cstddef>

using namespace sluice;

TEST_CASE("it writes nothing while the median of the latest 50 TTFTs is more than 5 % above that of the first 50") {
  using Policy = PausesWhenSlow<WriteThrough>;
  static_assert(explain<Policy>());
  const Policy policy;
  Policy::State state;
  View view;
  RequestRow row;
  row.spec.prompt = Tokens{100};
  const auto after = [&](double ttft_s, std::size_t requests) {
    for (std::size_t i = 0; i < requests; ++i) {
      row.generated = Tokens{1};
      row.first_token = view.now = Seconds{ttft_s};
      policy.write(state, view, row);
      row.generated = Tokens{2}; // its next token is no first token
      view.now = Seconds{1000};
      policy.write(state, view, row);
    }
    return policy.write(state, view, row) == row.context();
  };
  CHECK(after(9, 10)); // no baseline yet
  CHECK(after(1, 40)); // the baseline is 1 s
  CHECK(after(1.04, 100));
  CHECK(after(1.06, 24)); // less than half of the window
  CHECK_FALSE(after(1.06, 2));
  CHECK_FALSE(after(1.06, 30));
  CHECK(after(1, 30)); // faster again
  CHECK(state.baseline == Seconds{1});
}

TEST_CASE("a request that is preempted after its first token counts once") {
  const PausesWhenSlow<WriteThrough> policy;
  PausesWhenSlow<WriteThrough>::State state;
  View view;
  RequestRow row;
  row.generated = Tokens{1};
  row.first_token = Seconds{2};
  for (int iteration = 0; iteration < 10; ++iteration) { // it computes its prompt again in several iterations
    view.now = Seconds{2.0 + iteration};
    policy.write(state, view, row);
  }
  CHECK(state.count == 1);
}
