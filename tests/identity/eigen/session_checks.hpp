// SPDX-License-Identifier: Apache-2.0
// Sessions, check_turns: trials whose requests find KV of earlier ones in the host tier, on any device.
#pragma once

#include "identity/eigen/chaos_checks.hpp"
#include "identity/eigen/real_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice::testing {

/// Sessions of `turns` turns: each turn's prompt is the whole conversation so far and some new tokens. Turns of one
/// number arrive together, and those of the next number long after they have ended. In half of the trials all sessions
/// begin alike.
struct Sessions {
  RealTrial trial;
  std::vector<RealOutput> expected;
};
template <class Trials>
Sessions random_sessions(Random& random, int turns) {
  Sessions sessions;
  sessions.trial = Trials::draw(random);
  RealTrial& trial = sessions.trial;
  const std::size_t count = trial.prompts.size();
  trial.sessions = count;
  std::fill(trial.arrivals.begin(), trial.arrivals.end(), 0.0);
  std::vector<std::int32_t> beginning(random.below(2) == 0 ? 0 : 1 + random.below(30));
  for (std::int32_t& token : beginning) token = static_cast<std::int32_t>(random.below(64));
  for (std::vector<std::int32_t>& prompt : trial.prompts)
    prompt.insert(prompt.begin(), beginning.begin(), beginning.end());
  for (int turn = 1; turn <= turns; ++turn) {
    sessions.expected = alone(trial);
    if (turn == turns) break;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t before = trial.prompts.size() - count;
      std::vector<std::int32_t> prompt = trial.prompts[before];
      const std::vector<std::int32_t>& answer = sessions.expected[before].tokens;
      prompt.insert(prompt.end(), answer.begin(), answer.end());
      for (std::uint64_t more = 1 + random.below(9); more > 0; --more)
        prompt.push_back(static_cast<std::int32_t>(random.below(64)));
      trial.prompts.push_back(std::move(prompt));
      trial.outputs.push_back(static_cast<std::int64_t>(1 + random.below(10)));
      trial.arrivals.push_back(1000.0 * turn);
    }
  }
  trial.host_blocks = std::min(trial.host_blocks, 2 * trial.all() + 64);
  return sessions;
}
/// The tokens that later turns find if nothing is lost: their earlier turn's whole blocks that have KV.
inline std::int64_t findable(const RealTrial& trial, const std::vector<RealOutput>& expected, std::size_t count) {
  std::int64_t tokens = 0;
  for (std::size_t i = count; i < trial.prompts.size(); ++i) {
    const auto before = static_cast<std::int64_t>(trial.prompts[i - count].size() + expected[i - count].tokens.size());
    const std::int64_t each = trial.limits.block_tokens.count();
    tokens += (before - 1) / each * each; // the last token of an answer has no KV
  }
  return tokens;
}

/// `waiters` requests with one beginning of `blocks` blocks, which lies in the host tier, and then, `records` given,
/// only on the disk: it crosses the link once, and is read from the disk once.
template <class Trials>
void check_convoy(std::uint64_t seed, std::size_t waiters, std::int64_t blocks,
                  const std::function<std::shared_ptr<RecordStore>()>& records = {}) {
  Random random(seed);
  RealTrial trial = Trials::draw(random);
  const std::int64_t each = trial.limits.block_tokens.count();
  const auto length = static_cast<std::size_t>(blocks * each);
  std::vector<std::int32_t> beginning(length);
  for (std::int32_t& token : beginning) token = static_cast<std::int32_t>(random.below(64));
  trial.prompts.assign(waiters + 1, beginning);
  trial.outputs.assign(waiters + 1, 2);
  trial.arrivals.assign(waiters + 1, 1000.0);
  trial.arrivals[0] = 0; // it writes the blocks
  for (std::size_t i = 0; i <= waiters; ++i) {
    trial.prompts[i].push_back(static_cast<std::int32_t>(i % 64));
    trial.prompts[i].push_back(static_cast<std::int32_t>(i / 64));
  }
  trial.limits.batch = static_cast<int>(waiters);
  trial.limits.batch_tokens = Tokens{static_cast<std::int64_t>(length) + 4 * static_cast<std::int64_t>(waiters)};
  trial.slo = Seconds{10};
  trial.host_blocks = 2 * trial.all() + 64;
  trial.tier_blocks = 2 * blocks * trial.layers();
  const std::vector<RealOutput> expected = alone(trial);
  const std::int64_t block = kv_block_floats(trial.weights.config.shape, trial.limits.block_tokens) * 4;
  const auto check = [&](const std::vector<std::size_t>& only, std::int64_t from_disk) {
    if (records) trial.records = records();
    const RealResult result = run_real<Engine<>>(
        trial, trial.all(), [](auto&) {}, only, Trials::where(random));
    for (const std::size_t i : only) {
      CHECK(result.outputs[i].tokens == expected[i].tokens);
      CHECK_MESSAGE(result.outputs[i].logits == expected[i].logits, "bit-identical logits");
    }
    CHECK(result.tier.found == static_cast<std::int64_t>(waiters * length));
    CHECK(result.tier.loaded == result.tier.found);
    CHECK(result.moved.to_device.bytes.count() == blocks * trial.layers() * block);
    CHECK(result.tier.from_disk == from_disk);
    if (records) CHECK(trial.records->totals().read == from_disk / each);
  };
  std::vector<std::size_t> all(waiters + 1);
  std::iota(all.begin(), all.end(), std::size_t{0});
  check(all, 0);
  if (records) check({all.begin() + 1, all.end()}, blocks * each); // a new process
}

struct Exercise {
  std::int64_t found = 0, evicted = 0, preempted = 0;
  double kv_seconds = 0, busy_seconds = 0; ///< of the link, in both directions
  void add(const RealResult& result) {
    found += result.tier.found;
    evicted += result.tier.evicted;
    preempted += result.preempted;
    kv_seconds += result.tier.to_device.seconds + result.tier.to_host.seconds;
    busy_seconds += (result.moved.to_device.busy + result.moved.to_host.busy).count();
  }
};

/// `share`: the device's memory for KV over what the largest request takes at least.
template <class Trials, class E>
Exercise check_turns(std::uint64_t seed, int rounds, double share, std::uint64_t leaving = 0, double failing = 0) {
  Random random(seed);
  Exercise exercise;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Sessions sessions = random_sessions<Trials>(random, 3);
    RealTrial& trial = sessions.trial;
    trial.leaving = leaving > 0 ? leaving + random.below(10) : 0;
    trial.faults.failing = failing;
    trial.faults.seed = random.below(1000);
    trial.faults.reorders = random.below(3) == 0;
    trial.tier_evicts = static_cast<Replacement>(round % 4);
    trial.tier_blocks = trial.layers() * static_cast<std::int64_t>(1 + random.below(random.below(2) == 0 ? 8 : 200));
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const RealResult result = run_real<E>(
        trial, std::max(kv, trial.largest() + 2 * trial.layers() + 8), [](auto&) {}, {}, Trials::where(random));
    check_identity(result, sessions.expected);
    if (failing == 0) CHECK(result.refused == 0); // the plan guarantees room, though device blocks are shared
    CHECK(result.tier.blocks <= result.tier.capacity);
    CHECK(result.tier.loaded <= result.tier.found);
    exercise.add(result);
  }
  return exercise;
}

} // namespace sluice::testing
