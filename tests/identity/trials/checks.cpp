// SPDX-License-Identifier: Apache-2.0
#include "identity/eigen/trials.hpp"
#include "support/stepped_clock.hpp"

#include <numeric>

namespace sluice::testing {

MakeReal stepped(MakeReal make, Seconds step) {
  return [make = std::move(make), step](const RealConfig& common) {
    RealConfig config = common;
    run_stepped(config, step);
    return make(config);
  };
}

void check_chaos(const MakeReal& make, std::uint64_t seed, double share, std::uint64_t leaving,
                 const std::shared_ptr<CountedRows>& counts) {
  const Device& device = this_device();
  Random random(seed);
  RealExercise exercise;
  std::int64_t cancelled = 0;
  // A round in which each request fits preempts none: rounds are added until one does.
  const auto seen = [&] { return leaving > 0 ? cancelled > 0 : exercise.bytes > 0 && exercise.preempted > 0; };
  for (int round = 0; round < device.rounds || (!seen() && round < 4 * device.rounds); ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = device.draw(random);
    if (round % 2 == 1) trial = at_once(std::move(trial));
    const std::vector<RealOutput> expected = alone(trial);
    trial.leaving = leaving;
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const RealResult result = device.run(trial, kv, stepped(make), {}, random, counts);
    CHECK_MESSAGE(result.refused == 0, "a request that fits alone is served");
    check_identity(result, expected);
    exercise.add(result);
    cancelled += result.cancelled;
  }
  CHECK((cancelled > 0) == (leaving > 0));
  if (leaving > 0) return; // a leaving request frees memory for the others, and may leave before anything moves
  CHECK(exercise.bytes > 0);
  CHECK(exercise.preempted > 0);
}

void check_faults(const MakeReal& make, std::uint64_t seed, int rounds, const std::function<void(FaultPlan&)>& spoil,
                  bool some_fail, RealTrial (*draw)(Random&)) {
  const Device& device = this_device();
  Random random(seed);
  std::int64_t retries = 0, refused = 0, served = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = (draw != nullptr ? draw : device.draw)(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.faults.seed = random.below(1000);
    spoil(trial.faults);
    const RealResult result =
        device.run(trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8, stepped(make), {}, random, {});
    check_identity(result, expected);
    retries += result.moved.to_device.retries + result.moved.to_host.retries;
    refused += result.refused;
    served += static_cast<std::int64_t>(trial.prompts.size()) - result.refused;
  }
  CHECK(retries > 0);
  CHECK(served > 0);
  CHECK((refused > 0) == some_fail);
}

Sessions random_sessions(Random& random, int turns) {
  Sessions sessions;
  sessions.trial = this_device().draw(random);
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

void check_convoy(std::uint64_t seed, std::size_t waiters, std::int64_t blocks,
                  const std::function<std::shared_ptr<RecordStore>()>& records) {
  Random random(seed);
  RealTrial trial = this_device().draw(random);
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
    const RealResult result = this_device().run(trial, trial.all(), &real<Engine<>>, only, random, {});
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

void Exercise::add(const RealResult& result) {
  found += result.tier.found;
  evicted += result.tier.evicted;
  preempted += result.preempted;
  for (const std::int64_t tokens : result.found_on_device) found_on_device += tokens;
  kv_seconds += result.tier.to_device.seconds + result.tier.to_host.seconds;
  busy_seconds += (result.moved.to_device.busy + result.moved.to_host.busy).count();
}

Exercise check_turns(const MakeReal& make, std::uint64_t seed, int rounds, double share, std::uint64_t leaving,
                     double failing) {
  Random random(seed);
  Exercise exercise;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Sessions sessions = random_sessions(random, 3);
    RealTrial& trial = sessions.trial;
    trial.leaving = leaving > 0 ? leaving + random.below(10) : 0;
    trial.faults.failing = failing;
    trial.faults.seed = random.below(1000);
    trial.faults.reorders = random.below(3) == 0;
    trial.tier_evicts = static_cast<Replacement>(round % 4);
    trial.tier_blocks = trial.layers() * static_cast<std::int64_t>(1 + random.below(random.below(2) == 0 ? 8 : 200));
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const RealResult result =
        this_device().run(trial, std::max(kv, trial.largest() + 2 * trial.layers() + 8), make, {}, random, {});
    check_identity(result, sessions.expected);
    if (failing == 0) CHECK(result.refused == 0); // the plan guarantees room, though device blocks are shared
    CHECK(result.tier.blocks <= result.tier.capacity);
    CHECK(result.tier.loaded <= result.tier.found);
    exercise.add(result);
  }
  return exercise;
}

} // namespace sluice::testing
