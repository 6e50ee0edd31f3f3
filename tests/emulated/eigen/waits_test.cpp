// SPDX-License-Identifier: Apache-2.0
// Every wait between streams that a machine adds is necessary: without it tokens are wrong.
#include "sluice/policy/transfer/pipeline.hpp"

#include "emulated/eigen/scripted_machine.hpp"
#include "support/sanitized.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::testing {
namespace {

/// Counts the machine's waits of one kind, and optionally omits them.
struct OneKind {
  bool (*is_one)(const StreamWait&) = nullptr;
  bool leaves_out = false;
  std::shared_ptr<int> asked = std::make_shared<int>(0);

  [[nodiscard]] bool keeps(const StreamWait& wait) const {
    if (!is_one(wait)) return true;
    ++*asked;
    return !leaves_out;
  }
};

using Script = ScriptedMachine<OneKind>;
using Content = StreamWait::Content;
constexpr StreamId compute = StreamId::compute, to_device = StreamId::to_device, to_host = StreamId::to_host;

/// A kind of wait, and a script in which a token is wrong without it. The delayed stream runs only when no other stream
/// can, so any stream that does not wait for it is ahead of it. Nothing else decides the outcome: not the order of the
/// other two streams, not the machine's speed, not its arithmetic.
struct WaitKind {
  std::string name;
  bool (*is_one)(const StreamWait&);
  StreamId late;       ///< the stream that others wait for
  std::int64_t blocks; ///< device memory for weights and KV: the weights of both layers take 6 blocks, a slot takes 3
  void (*play)(Script&);
};

constexpr LayerSet both = LayerSet::all(2), lower = LayerSet::all(1), upper = both - lower;
constexpr Holding upper_on_host{.host = upper}; ///< layer 1 is offloaded, layer 0 resident
constexpr Holding both_on_host{.host = both};

const std::vector<WaitKind>& wait_kinds() {
  static const std::vector<WaitKind> kinds{
      {"arrival: a layer reads KV that is still coming",
       [](const StreamWait& w) { return w.waits == compute && w.content == Content::kv && w.used_by == to_device; },
       to_device, 16,
       [](Script& s) {
         const Slot other = s.join(), a = s.join();
         s.step({other, a});
         s.hold(a, upper_on_host);
         s.step({other}); // layer 1 of `a` moves to the host
         s.leave(other);
         s.step({a}); // layer 1 of `a` is fetched into a block that still has the other's bytes
       }},
      {"arrival of weights: a layer reads weights that are still coming",
       [](const StreamWait& w) { return w.waits == compute && w.content == Content::weights; }, to_device, 16,
       [](Script& s) {
         s.stream(both, 1);
         s.step({s.join()}); // layer 0 reads a slot before anything has arrived
       }},
      {"last reader: a block is fetched into while a layer reads what was there",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::kv && w.used_by == compute && !w.was_written;
       },
       compute, 9,
       [](Script& s) {
         const Slot a = s.join(both_on_host);
         s.step({a});
         s.step({a}); // the second token fills the block of each layer: from now on layers only read it
         s.hold(a, {.head = Tokens{2}, .host = both});
         s.step({a}); // two new blocks leave memory for one more: layer 1's full block replaces layer 0's
       }},
      {"last writer: KV is sent while a layer writes it",
       [](const StreamWait& w) { return w.waits == to_host && w.content == Content::kv && w.used_by == compute; },
       compute, 16,
       [](Script& s) {
         const Slot a = s.join(upper_on_host);
         s.step({a}); // layer 1 moves to the host as soon as it is launched
         s.step({a});
       }},
      {"weight slot: weights come into a slot that a layer still reads",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::weights && w.used_by == compute;
       },
       compute, 16,
       [](Script& s) {
         s.stream(both, 1);
         s.step({s.join()}); // layer 1's weights replace layer 0's in the only slot
       }},
      {"write-back before eviction: a block is fetched into while what was there is sent",
       [](const StreamWait& w) { return w.waits == to_device && w.content == Content::kv && w.used_by == to_host; },
       to_host, 9,
       [](Script& s) {
         const Slot a = s.join(upper_on_host);
         s.step({a});
         const Slot b = s.join();
         s.step({b});
         s.hold(b, upper_on_host);
         s.step({a}); // layer 1 of `a` is fetched into the only free block, from which layer 1 of `b` is sent
         s.leave(a);
         s.step({b});
       }},
      {"write-back before a fetch: a block is fetched that is still being sent",
       [](const StreamWait& w) { return w.waits == to_device && w.content == Content::host && w.used_by == to_host; },
       to_host, 16,
       [](Script& s) {
         const Slot other = s.join(), a = s.join();
         s.step({other, a});
         s.hold(a, upper_on_host);
         s.step({other}); // layer 1 of `a` moves to the host
         s.leave(other);  // so that layer 1 of `a` is fetched into another block than the one that it left
         s.step({a});
       }},
      {"reuse of a host block: a block is sent to where another is still fetched from",
       [](const StreamWait& w) { return w.waits == to_host && w.content == Content::host && w.used_by == to_device; },
       to_device, 16,
       [](Script& s) {
         const Slot a = s.join(upper_on_host), b = s.join(), other = s.join(upper_on_host);
         s.step({a});
         s.step({b});
         s.step({other}); // its place on the host is the last before the first comes again
         s.leave(other);
         s.hold(a, {});
         s.hold(b, upper_on_host);
         s.step({a}); // layer 1 of `a` is fetched to stay, and layer 1 of `b` moves to its place on the host
       }},
      {"last writer before a fetch: a block is fetched into that a layer still writes",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::kv && w.used_by == compute && w.was_written;
       },
       compute, 9,
       [](Script& s) {
         const Slot b = s.join(upper_on_host);
         s.step({b});
         const Slot a = s.join({.nowhere = lower});
         s.step({a, b}); // layer 0 of `a` is dropped once it is launched: layer 1 of `b` is fetched into its block
       }},
      {"last writer before a move: a block moves out of the weights' way while a layer writes it",
       [](const StreamWait& w) {
         return w.waits == to_device && !w.writes && w.content == Content::kv && w.used_by == compute;
       },
       compute, 8,
       [](Script& s) {
         s.order.start = TransferOrder::Start::previous_layer_starts;
         s.stream(upper, 1);
         const Slot other = s.join();
         s.step({other});
         s.stream({}, 0);
         s.hold(other, both_on_host); // before it has left, `a` takes blocks of the former slot
         const Slot a = s.join();
         s.step({a}); // layer 1's weights return once layer 0 has started, and move the block that layer 0 writes
         s.step({a});
       }},
      {"arrival before a send: a block is sent that is still coming",
       [](const StreamWait& w) { return w.waits == to_host && w.content == Content::kv && w.used_by == to_device; },
       to_device, 16,
       [](Script& s) {
         const Slot other = s.join(), a = s.join(), b = s.join();
         s.step({other, a});
         s.hold(a, upper_on_host);
         s.hold(other, upper_on_host);
         s.step({b});
         s.hold(a, {});
         s.step({b}, {a}); // layer 1 of `a` is fetched in the background: no layer waits for it
         s.leave(other);   // so that layer 1 of `a` moves to another place on the host than before
         s.hold(a, upper_on_host);
         s.step({b}); // layer 1 of `a` moves to the host
         s.step({a});
       }},
      {"write-back before weights: weights come where KV is still sent from",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::weights && w.used_by == to_host;
       },
       to_host, 8,
       [](Script& s) {
         s.stream(both, 1);
         const Slot a = s.join(), b = s.join();
         s.step({a, b});
         s.stream(both, 2);
         s.hold(b, both_on_host);
         s.step({a}); // the second slot overlaps the block of `b` that moves to the host
         s.stream(both, 1);
         s.leave(a);
         s.step({b});
       }},
      {"reuse of a device block: a layer writes where what was there is still sent",
       [](const StreamWait& w) { return w.waits == compute && w.writes && w.used_by == to_host; }, to_host, 9,
       [](Script& s) {
         const Slot b = s.join();
         s.step({b});
         s.hold(b, upper_on_host);
         const Slot a = s.join();
         s.step({a}); // layer 1 of `a` writes the only free block, whose bytes of layer 1 of `b` still move to the host
         s.leave(a);
         s.step({b});
       }},
  };
  return kinds;
}

struct Played {
  std::vector<std::vector<std::int32_t>> tokens, expected;
  int asked = 0;
};
Played play(const WaitKind& kind, std::uint64_t seed, bool leaves_out) {
  const OneKind waits{kind.is_one, leaves_out};
  Script script(kind.blocks, kind.late, seed, waits);
  kind.play(script);
  return {script.tokens(), script.expected(), *waits.asked};
}

constexpr std::uint64_t seeds = 8; ///< each draws another order of the two other streams

} // namespace

TEST_CASE("with every wait, a stream that runs as late as possible changes no token") {
  for (const WaitKind& kind : wait_kinds()) {
    CAPTURE(kind.name);
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      CAPTURE(seed);
      const Played played = play(kind, seed, false);
      CHECK(played.asked > 0);
      CHECK(played.tokens == played.expected);
    }
  }
}

// Under ThreadSanitizer each missing wait is a race that ends the test; AddressSanitizer cannot detect one.
TEST_CASE("each omitted wait gives wrong tokens" * doctest::skip(sanitized)) {
  for (const WaitKind& kind : wait_kinds()) {
    CAPTURE(kind.name);
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      CAPTURE(seed);
      const Played played = play(kind, seed, true);
      CHECK(played.asked > 0);
      CHECK(played.tokens != played.expected);
    }
  }
}

} // namespace sluice::testing
