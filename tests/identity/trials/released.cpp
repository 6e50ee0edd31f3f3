// SPDX-License-Identifier: Apache-2.0
// Requests that find KV of others on the device, and behind that in the host tier.
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "identity/eigen/trials.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::testing {

TEST_CASE("a prefix found on the device changes no token and no logit, whatever was computed in between") {
  Exercise all;
  // From room for one request, where everything is overwritten, to room for all.
  for (const double share : {0.5, 1.3, 4.0}) {
    const Exercise one = check_turns(&real<VllmPrefixCaching>, 171 + static_cast<std::uint64_t>(8 * share), 6, share);
    all.found_on_device += one.found_on_device;
    all.preempted += one.preempted;
  }
  CHECK(all.found_on_device > 0);
  CHECK(all.preempted > 0);
}

TEST_CASE("systems with a device's prefix cache above a host tier change none, either") {
  const auto check = [](const MakeReal& make, std::uint64_t seed) {
    const Exercise one = check_turns(make, seed, 6, 1.2);
    CHECK(one.found_on_device > 0);
    return one.found;
  };
  CHECK(check(&real<HiCache>, 181) > 0);
  (void)check(&real<HiCacheIfFaster>, 182); // may load nothing on a slow link
  CHECK(check(&real<HiCacheHints>, 183) > 0);
  CHECK(check(stepped(&real<InferCept>), 184) > 0);
  (void)check(stepped(&real<Continuum>), 185); // never copies: its pins are on the device
  CHECK(check(&real<VllmOffload>, 186) > 0);   // requests wait for loads
  (void)check(&real<AdaptiveOffload>, 187);
  CHECK(check(&real<HiCacheBack>, 188) > 0); // what is overwritten goes to the host
  CHECK(check(&real<Kvbm>, 189) > 0);
  (void)check(&real<HiCacheWithinSlos>, 190);
  CHECK(check_turns(&real<OrbitFlowCached>, 191, 6, 1.1).found > 0); // its device keeps nothing
}

namespace {

/// What each request finds in a simulation with a clock that every iteration advances by `step`.
std::vector<std::int64_t> simulated(const RealTrial& trial, std::int64_t kv_blocks, Seconds step) {
  using E = With<VllmPrefixCaching, SmallCost, BasicSimulated<FixedDuration>, Summary>;
  Expected<E> made = E::make({.limits = trial.limits,
                              .geometry = {trial.layers(), Bytes{1024}, Bytes{0}},
                              .device_blocks = LayerBlocks{kv_blocks},
                              .host_blocks = LayerBlocks{trial.host_blocks},
                              .cost = SmallCost{},
                              .backend = BasicSimulated<FixedDuration>{FixedDuration{step}}});
  REQUIRE(made);
  E& engine = *made;
  for (std::size_t next = 0;;) {
    for (; next < trial.prompts.size() && trial.arrivals[next] <= engine.now().count(); ++next) {
      RequestSpec spec;
      spec.arrival = Seconds{trial.arrivals[next]};
      spec.prompt = Tokens{std::ssize(trial.prompts[next])};
      spec.output = Tokens{trial.outputs[next]};
      std::vector<RecordKey> named;
      prefix_keys(trial.prompts[next], trial.limits.block_tokens.count(), 0, named);
      std::vector<BlockKey> keys;
      for (const RecordKey& key : named) keys.push_back(block_key(key));
      REQUIRE(engine.submit(spec, keys));
    }
    if (engine.step() == Stepped::ran) continue;
    if (next == trial.prompts.size()) break;
    engine.idle_until(Seconds{trial.arrivals[next]});
  }
  std::vector<std::int64_t> found;
  for (const auto& record : engine.observed<Summary>().requests) found.push_back(record.found.count());
  return found;
}

} // namespace

TEST_CASE("on one schedule a real device finds what a simulated one finds, to the token") {
  constexpr Seconds step{3e-4};
  Random random(211);
  std::int64_t all = 0, preempted = 0;
  for (int round = 0; round < 16; ++round) {
    CAPTURE(round);
    RealTrial trial = this_device().draw(random);
    std::vector<std::vector<std::int32_t>> beginnings(2);
    for (auto& beginning : beginnings)
      for (std::uint64_t length = 8 + random.below(40); length > 0; --length)
        beginning.push_back(static_cast<std::int32_t>(random.below(64)));
    trial.prompts.clear();
    trial.outputs.clear();
    trial.arrivals.clear();
    for (std::size_t i = 0; i < 12; ++i) {
      const auto& beginning = beginnings[random.below(2)];
      const auto shared = static_cast<std::ptrdiff_t>(random.below(beginning.size() + 1));
      std::vector<std::int32_t> prompt(beginning.begin(), beginning.begin() + shared);
      for (std::uint64_t own = 4 + random.below(12); own > 0; --own)
        prompt.push_back(static_cast<std::int32_t>(random.below(64)));
      trial.prompts.push_back(std::move(prompt));
      trial.outputs.push_back(static_cast<std::int64_t>(1 + random.below(14)));
      trial.arrivals.push_back(step.count() * static_cast<double>(3 * i + random.below(3)));
    }
    const std::int64_t kv = trial.largest() + static_cast<std::int64_t>(random.below(2)) * trial.all() / 3;
    const RealResult result = this_device().run(trial, kv, stepped(&real<VllmPrefixCaching>, step), {}, random, {});
    CHECK(result.found_on_device == simulated(trial, kv, step));
    for (const std::int64_t tokens : result.found_on_device) all += tokens;
    preempted += result.preempted;
  }
  CHECK(all > 0);
  CHECK(preempted > 0);
}

TEST_CASE("cancelled requests leave their blocks to be found, and copies that fail spoil none") {
  CHECK(check_turns(&real<VllmPrefixCaching>, 191, 8, 1.2, 10).found_on_device > 0);
  CHECK(check_turns(&real<HiCache>, 192, 8, 1.2, 10).found_on_device > 0);
  CHECK(check_turns(&real<HiCache>, 193, 10, 1.2, 0, 0.05).found_on_device > 0);
  CHECK(check_turns(&real<VllmOffload>, 194, 12, 1.2, 0, 0.05).found_on_device > 0);
}

TEST_CASE("a prompt whose tokens are scored finds nothing, and what it computes others find") {
  Random random(195);
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    Sessions sessions = random_sessions(random, 2);
    sessions.trial.scores = true;
    const RealResult result =
        this_device().run(sessions.trial, sessions.trial.all(), &real<VllmPrefixCaching>, {}, random, {});
    check_identity(result, alone(sessions.trial));
    for (const std::int64_t tokens : result.found_on_device) CHECK(tokens == 0);
  }
}

TEST_CASE("chunks that are written and loaded in the step itself, which waits for both, change no token") {
  struct Small : LmcacheRule { // prompts here are shorter than a chunk of LMCache's
    constexpr Small() { chunk = Tokens{8}; }
  };
  CHECK(check_turns(&real<With<VllmPrefixCaching, Small>>, 201, 8, 1.2).found > 0);
  CHECK(check_turns(&real<With<VllmSwap, Small>>, 202, 8, 1.2, 12, 0.05).found > 0);
}

TEST_CASE("what a taken block held reaches the host before it is overwritten, or does not count") {
  CHECK(check_turns(&real<HiCacheBack>, 206, 8, 0.6).found > 0);
  CHECK(check_turns(&real<HiCacheBack>, 207, 8, 1.0, 10).found > 0);
  CHECK(check_turns(&real<HiCacheBack>, 208, 10, 1.0, 0, 0.05).found > 0);
}

TEST_CASE("a request that loads before it computes waits, alone or beside others") {
  CHECK(check_turns(&real<With<VllmSwap, VllmOffloadRule>>, 203, 8, 1.2).found > 0);
  CHECK(check_turns(&real<With<VllmRecompute, VllmOffloadRule>>, 204, 8, 1.1, 10).found > 0);
  CHECK(check_turns(&real<With<VllmSwap, VllmOffloadRule>>, 205, 10, 1.1, 0, 0.05).found > 0);
}

} // namespace sluice::testing
