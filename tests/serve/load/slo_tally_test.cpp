// SPDX-License-Identifier: Apache-2.0
// SloTally: what sluice-load's headline counts.
#include "../../../examples/tools/load/slo_tally.hpp"
#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

using namespace loading;
using sluice::Seconds;

/// An answer with tokens at these times.
void add(SloTally& tally, const sluice::Slo& slo, const std::vector<double>& times) {
  StreamCheck check({.max_tokens = 100, .prompt_tokens = {}, .logprobs = false, .slo = slo}, nullptr);
  for (const double time : times)
    check.feed(R"(data: {"choices":[{"index":0,"text":"a","finish_reason":null}]})"
               "\n\n",
               time);
  const auto gaps = static_cast<double>(times.size() - 1);
  tally.add(slo, Seconds{times.front()}, Seconds{(times.back() - times.front()) / gaps}, Seconds{times.back()}, check);
}

} // namespace

TEST_CASE("load: one gap above the TBT misses an SLO, however small the mean") {
  const sluice::Slo slo{Seconds{1}, Seconds{0.1}};
  SloTally tally;
  add(tally, slo, {0.5, 0.51, 0.52, 0.65, 0.66, 0.67}); // a gap of 0.13; 0.034 in the mean
  CHECK(tally.owed == 1);
  CHECK(tally.met == 0);
  CHECK(tally.met_mean == 1);
  CHECK(tally.met_tpot == 1);
  CHECK(tally.met_ttft == 1);
  CHECK(tally.on_time == 4);
  CHECK(tally.missed == 1);
  add(tally, slo, {0.5, 0.6, 0.7});
  CHECK(tally.met == 1);
  add(tally, slo, {1.5, 1.6, 1.7}); // the first token is late
  CHECK(tally.met == 1);
  CHECK(tally.met_mean == 2);
  CHECK(tally.owed == 3);
}

TEST_CASE("load: an SLO of the first token alone, and none") {
  SloTally tally;
  add(tally, {Seconds{1}, sluice::Slo{}.tbt}, {0.5, 9});
  CHECK(tally.owed == 1);
  CHECK(tally.met == 1);
  CHECK(tally.owed_tpot == 0);
  add(tally, {}, {7, 9});
  CHECK(tally.owed == 1);
}
