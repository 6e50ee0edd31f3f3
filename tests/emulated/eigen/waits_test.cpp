// SPDX-License-Identifier: Apache-2.0
// Every wait that a machine adds between streams is needed: without it tokens or logits are wrong.
#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/chaos_checks.hpp"
#include "support/sanitized.hpp"

#include <memory>
#include <string>

namespace sluice::testing {
namespace {

using Streaming = With<Chaos, ChaosWeights>;

/// Leaves one kind of wait out, and counts how often it would have been made.
struct AllBut {
  bool (*is_one)(const StreamWait&) = nullptr;
  std::shared_ptr<int> left_out = std::make_shared<int>(0);

  [[nodiscard]] bool keeps(const StreamWait& wait) const {
    if (!is_one(wait)) return true;
    ++*left_out;
    return false;
  }
};

using Content = StreamWait::Content;
constexpr StreamId compute = StreamId::compute, to_device = StreamId::to_device, to_host = StreamId::to_host;

/// Whether some of a number of trials comes to something else than each request alone, and does not with every wait.
template <class E>
bool is_missed(bool (*is_one)(const StreamWait&), std::uint64_t seed) {
  Random random(seed);
  for (int round = 0; round < 4000; ++round) {
    RealTrial trial = random_gpu_trial(random);
    trial.link.each_way = true; // on one stream copies wait for each other anyway
    const std::vector<RealOutput> expected = alone(trial);
    const std::uint64_t order = random();
    const auto run = [&](const AllBut& waits) {
      return run_real<E>(
          trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8, [](auto&) {}, {}, OnGpu<AllBut>{order, waits});
    };
    const AllBut waits{is_one};
    if (run(waits).outputs == expected) continue;
    CHECK(*waits.left_out > 0);
    const RealResult with_all = run(AllBut{[](const StreamWait&) { return false; }});
    CHECK_MESSAGE(with_all.outputs == expected, "it was the wait that was missed");
    return true;
  }
  return false;
}

} // namespace

// Under ThreadSanitizer each of these is a race that ends the test, and AddressSanitizer has nothing to say of one.
TEST_CASE("each wait is missed where it is left out" * doctest::skip(sanitized)) {
  struct Kind {
    std::string name;
    bool (*is_one)(const StreamWait&);
    bool (*is_found)(bool (*)(const StreamWait&), std::uint64_t);
  };
  const Kind kinds[] = {
      {"arrival: a layer reads KV that is still coming",
       [](const StreamWait& w) { return w.waits == compute && w.content == Content::kv && w.used_by == to_device; },
       &is_missed<Chaos>},
      {"arrival of weights: a layer reads weights that are still coming",
       [](const StreamWait& w) { return w.waits == compute && w.content == Content::weights; }, &is_missed<Streaming>},
      {"last reader: a block is fetched into while a layer reads what was there",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::kv && w.used_by == compute && !w.was_written;
       },
       &is_missed<Chaos>},
      {"last writer: KV is sent while a layer writes it",
       [](const StreamWait& w) { return w.waits == to_host && w.content == Content::kv && w.used_by == compute; },
       &is_missed<Chaos>},
      {"weight slot: weights come into a slot that a layer still reads",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::weights && w.used_by == compute;
       },
       &is_missed<Streaming>},
      {"write-back before eviction: a block is fetched into while what was there is sent",
       [](const StreamWait& w) { return w.waits == to_device && w.content == Content::kv && w.used_by == to_host; },
       &is_missed<Chaos>},
      {"write-back before a fetch: a block is fetched that is still being sent",
       [](const StreamWait& w) { return w.waits == to_device && w.content == Content::host && w.used_by == to_host; },
       &is_missed<Chaos>},
      {"reuse of a host block: a block is sent to where another is still fetched from",
       [](const StreamWait& w) { return w.waits == to_host && w.content == Content::host && w.used_by == to_device; },
       &is_missed<Chaos>},
      {"last writer before a fetch: a block is fetched into that a layer still writes",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::kv && w.used_by == compute && w.was_written;
       },
       &is_missed<Chaos>},
      {"last writer before a move: a block moves out of the weights' way while a layer writes it",
       [](const StreamWait& w) {
         return w.waits == to_device && !w.writes && w.content == Content::kv && w.used_by == compute;
       },
       &is_missed<Streaming>},
      {"arrival before a send: a block is sent that is still coming",
       [](const StreamWait& w) { return w.waits == to_host && w.content == Content::kv && w.used_by == to_device; },
       &is_missed<Streaming>},
      {"write-back before weights: weights come where KV is still sent from",
       [](const StreamWait& w) {
         return w.waits == to_device && w.writes && w.content == Content::weights && w.used_by == to_host;
       },
       &is_missed<Streaming>},
      {"reuse of a device block: a layer writes where what was there is still sent",
       [](const StreamWait& w) { return w.waits == compute && w.writes && w.used_by == to_host; }, &is_missed<Chaos>},
  };
  std::uint64_t seed = 100;
  for (const Kind& kind : kinds) {
    CAPTURE(kind.name);
    CHECK(kind.is_found(kind.is_one, ++seed));
  }
}

} // namespace sluice::testing
