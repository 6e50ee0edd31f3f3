// SPDX-License-Identifier: Apache-2.0
// Sessions, check_turns: trials whose requests find KV of earlier ones in the host tier, on any device.
#pragma once

#include "identity/eigen/chaos_checks.hpp"
#include "identity/eigen/real_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::testing {

/// Sessions of `turns` turns: each turn's prompt is the whole conversation so far and some new tokens. Turns of one
/// number arrive together, and those of the next number long after they have ended.
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
  std::fill(trial.arrivals.begin(), trial.arrivals.end(), 0.0);
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

struct Exercise {
  std::int64_t found = 0, evicted = 0, preempted = 0;
  void add(const RealResult& result) {
    found += result.tier.found;
    evicted += result.tier.evicted;
    preempted += result.preempted;
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
    trial.tier_blocks = trial.layers() * static_cast<std::int64_t>(1 + random.below(random.below(2) == 0 ? 8 : 200));
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const RealResult result = run_real<E>(
        trial, std::max(kv, trial.largest() + 2 * trial.layers() + 8), [](auto&) {}, {}, Trials::where(random));
    check_identity(result, sessions.expected);
    CHECK(result.tier.blocks <= result.tier.capacity);
    exercise.add(result);
  }
  return exercise;
}

} // namespace sluice::testing
