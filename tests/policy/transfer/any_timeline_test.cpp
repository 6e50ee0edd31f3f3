// SPDX-License-Identifier: Apache-2.0
// AnyTimeline: passes everything on to its sink; a user's own rule may write to a sink without it.
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sluice::test {
namespace {

struct Heard {
  static constexpr bool enabled = true;
  std::string what;
  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    what += "layer " + std::to_string(layer) + (end_s - start_s == 1 ? " of 1 s" : " slower") +
            (stall_s > 0 ? to_string(cause) : "") + "; ";
  }
  void transfer(int stream, int layer, double /*start_s*/, double /*end_s*/) {
    what += "stream " + std::to_string(stream) + " to layer " + std::to_string(layer) + "; ";
  }
};
struct HeardWithLink : Heard {
  int spells = 0;
  void link(double begin_s, double end_s) { spells += end_s > begin_s; }
};
struct Const {
  [[maybe_unused]] static constexpr bool enabled = true;
  int& layers;
  void layer(int, double, double, double, StallCause) const { ++layers; }
  void transfer(int, int, double, double) const {}
};

} // namespace

TEST_CASE("AnyTimeline passes everything on to its sink, the link only if the sink watches it") {
  Heard heard;
  AnyTimeline told{heard};
  told.layer(3, 1, 2, 0, StallCause::none);
  told.transfer(1, 4, 0, 1);
  told.link(0, 1); // no sink wants it
  CHECK(heard.what == "layer 3 of 1 s; stream 1 to layer 4; ");
  HeardWithLink watching;
  AnyTimeline watched{watching};
  AnyTimeline copy = watched; // the same sink, not a sink of a sink
  watched.link(0, 1);
  copy.link(1, 2);
  CHECK(watching.spells == 2);
  int layers = 0;
  const Const fixed{layers};
  AnyTimeline of_const{fixed};
  of_const.layer(0, 0, 1, 0, StallCause::none);
  CHECK(layers == 1);
}

TEST_CASE("a rule reports to a sink of any type, slower throughout if the computation uses the link too") {
  const std::vector<double> compute(2, 1.0);
  LayerStream stream;
  stream.layers.insert(1);
  stream.blocks = 1;
  Pipeline pipeline;
  pipeline.compute_s = compute;
  pipeline.link = {2, 0};
  pipeline.streams = {&stream, 1};
  FairShare::State state;
  HeardWithLink heard;
  const StepCost told = evaluate_link<FairShare>(pipeline, state, heard);
  CHECK(heard.what == "layer 0 of 1 s; stream 0 to layer 1; layer 1 of 1 s; ");
  CHECK(heard.spells >= 1);
  state = {};
  CHECK(told.step_s == evaluate_link<FairShare>(pipeline, state).step_s);
  pipeline.on_link = 0.5;
  state = {};
  HeardWithLink slower;
  CHECK(evaluate_link<FairShare>(pipeline, state, slower).step_s == doctest::Approx(2.25));
  CHECK(slower.what == "layer 0 slower; stream 0 to layer 1; layer 1 slower; ");
}

} // namespace sluice::test
