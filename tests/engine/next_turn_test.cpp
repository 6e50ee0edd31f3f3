// SPDX-License-Identifier: Apache-2.0
// A client's next turn may come within a millisecond of the answer: it finds what its session has left.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/workload/session_generator.hpp"

#include "engine/small_tiers.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

namespace sluice::testing::tiers {

namespace {

/// Serves 50 sessions of three turns; later turns come `later` seconds after the answer. Checks how many of these 100
/// find the whole blocks that the turn before has left.
template <class E>
void check_turns(const char* name, double rate, const char* later, std::size_t whole = 100) {
  INFO(name);
  CAPTURE(rate);
  INFO(later);
  E engine = engine_of<E>(300, 1000, with_rate(rate));
  SessionGenerator sessions{
      *parse_sessions("sessions:rate=2,sessions=50,turns=3,first=uniform(50,200),growth=uniform(30,60),"
                      "output=uniform(2,29),tools=1,tool=" +
                      std::string{later}),
      1};
  REQUIRE(simulate(engine, sessions));
  std::map<std::pair<std::uint32_t, std::int32_t>, RequestRecord> by_turn;
  for (const RequestRecord& record : engine.template observed<Summary>().requests)
    by_turn.emplace(std::pair{record.session, record.turn}, record);
  std::size_t turns = 0, hits = 0;
  for (const auto& [turn, record] : by_turn) {
    if (turn.second == 0) continue;
    const RequestRecord& before = by_turn.at({turn.first, turn.second - 1});
    CHECK(record.arrival - before.last <= Seconds{0.00101});
    const std::int64_t left = before.prompt.count() + before.output.count() - 1; // the last token has no KV
    ++turns;
    if (record.found.count() >= left / 16 * 16) ++hits;
  }
  CHECK(turns == 100);
  CHECK(hits == whole);
}

} // namespace

TEST_CASE("a turn that comes at once after an answer finds in simulation what the device keeps of its session") {
  for (const double rate : {1e5, 1e6, 1e8}) // on a slow link most of it has not crossed yet, but it is on the device
    for (const char* later : {"0", "0.0005", "0.001"}) check_turns<Tried<HiCache>>("HiCache", rate, later);
  // Where the device keeps nothing, the blocks of the last iteration must have crossed: it may have filled a block, and
  // a simulated turn that comes at once does not wait for its copy.
  check_turns<Tried<OrbitFlowCached>>("OrbitFlowCached", 1e8, "0", 97);
  for (const char* later : {"0.0005", "0.001"}) check_turns<Tried<OrbitFlowCached>>("OrbitFlowCached", 1e8, later);
}

} // namespace sluice::testing::tiers
