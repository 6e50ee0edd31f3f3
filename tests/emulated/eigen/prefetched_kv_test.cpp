// SPDX-License-Identifier: Apache-2.0
// Blocks that were fetched for the next token are read by it, and not fetched again.
#include "sluice/world/machine/prefetched_kv.hpp"

#include "emulated/eigen/scripted_machine.hpp"

#include <cstdint>

namespace sluice::testing {
namespace {

using Prefetching = ScriptedMachine<EveryWait>;

constexpr Holding kv_on_host{.host = LayerSet::all(Prefetching::layers)};
constexpr std::int64_t weight_blocks = Prefetching::layers * Prefetching::layer_blocks;

/// Blocks of one layer's K and V that a request has before its step `step`, the first being 0.
constexpr std::int64_t held_blocks(int step) { return (step + 1) / 2; }

/// Two requests whose KV is on the host, and perhaps one whose KV stays, decode with `room` blocks for KV. The link is
/// always ahead of the layers, so whatever has room is prefetched.
void check_fetches(std::int64_t room, bool one_stays, std::uint64_t seed) {
  CAPTURE(room);
  CAPTURE(seed);
  Prefetching script(weight_blocks + room, StreamId::compute, seed, {});
  const Slot a = script.join(kv_on_host), b = script.join(kv_on_host);
  const Slot stays = one_stays ? script.join() : Slot{};
  std::int64_t read = 0, dropped = 0;
  for (int step = 0; step < 8; ++step) {
    one_stays ? script.step({a, b, stays}) : script.step({a, b});
    read += 2 * Prefetching::layers * held_blocks(step); // by the layers, of blocks that an earlier step wrote
    // For each new block, whether it stays or passes, a prefetched one may go.
    if (held_blocks(step) < held_blocks(step + 1)) dropped += Prefetching::layers * (one_stays ? 3 : 2);
  }
  CHECK(script.fetched() >= read);
  CHECK(script.fetched() <= read + dropped + room); // the last step prefetches too
  CHECK(script.tokens() == script.expected());
}

} // namespace

TEST_CASE("KV on the host is fetched once per token, however little room there is") {
  for (const std::int64_t room : {8, 9, 10, 12, 14, 16}) // in a layer two requests have eight blocks at the end
    for (std::uint64_t seed = 0; seed < 20; ++seed) check_fetches(room, false, seed);
}

TEST_CASE("only as much prefetched KV goes as new KV takes that stays") {
  for (const std::int64_t room : {16, 17, 18, 20, 24})
    for (std::uint64_t seed = 0; seed < 20; ++seed) check_fetches(room, true, seed);
}

} // namespace sluice::testing
