// SPDX-License-Identifier: Apache-2.0
// KV that outlives its request on a real machine: turns that find it in the host tier or on a disk get the tokens and
// logits of requests that compute everything, bit for bit.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/records/record_store.hpp"

#include "identity/eigen/session_checks.hpp"
#include "records/disk_model.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::testing {

TEST_CASE("later turns find all of their conversation that has KV, and generate the same tokens") {
  Random random(60);
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    Sessions sessions = random_sessions<CpuTrials>(random, 3);
    const std::size_t count = sessions.trial.prompts.size() / 3;
    sessions.trial.tier_blocks = sessions.trial.all() * 2;
    const RealResult result = run_real<Engine<>>(sessions.trial, sessions.trial.all());
    check_identity(result, sessions.expected);
    CHECK(result.tier.found == findable(sessions.trial, sessions.expected, count));
    CHECK(result.tier.evicted == 0);
  }
}

TEST_CASE("turns from the host tier change no token and no logit, whatever the system does with the KV") {
  Exercise all;
  const auto add = [&all](const Exercise& one) {
    CHECK(one.found > 0);
    all.evicted += one.evicted;
    all.preempted += one.preempted;
  };
  add(check_turns<CpuTrials, Chaos>(61, 8, 0.8));
  add(check_turns<CpuTrials, With<Chaos, FairShare>>(62, 6, 1.1));
  add(check_turns<CpuTrials, With<Chaos, OneStepAhead>>(63, 6, 0.9));
  add(check_turns<CpuTrials, VllmSwap>(64, 6, 1.1));
  add(check_turns<CpuTrials, OrbitFlow>(65, 6, 1.1));
  add(check_turns<CpuTrials, SuperInfer>(66, 6, 1.1));
  CHECK(all.evicted > 0);
  CHECK(all.preempted > 0);
}

TEST_CASE("cancelled requests leave their KV to the tier, and those that wait for it give it back") {
  CHECK(check_turns<CpuTrials, Chaos>(67, 10, 0.8, 10).found > 0);
  CHECK(check_turns<CpuTrials, Engine<>>(68, 10, 1.5, 10).found > 0);
}

TEST_CASE("copies that fail for good on the way to the tier or from it change no token") {
  CHECK(check_turns<CpuTrials, Chaos>(69, 12, 0.9, 0, 0.05).found > 0);
  CHECK(check_turns<CpuTrials, VllmSwap>(70, 12, 1.1, 15, 0.05).found > 0);
}

TEST_CASE("fifty requests that wait for one beginning: one load from the host") {
  check_convoy<CpuTrials>(73, 50, 12);
}

TEST_CASE(
    "a new process finds on the disk all that an earlier one has computed, and nothing that is broken or foreign") {
  Random random(71);
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    Sessions sessions = random_sessions<CpuTrials>(random, 3);
    RealTrial& trial = sessions.trial;
    const std::int64_t each = trial.limits.block_tokens.count();
    std::int64_t prompts = 0; // tokens of all prompts that can be found
    for (const auto& prompt : trial.prompts) prompts += (static_cast<std::int64_t>(prompt.size()) - 1) / each * each;
    sluice_test::DiskModel disk;
    std::atomic<int> lines = 0;
    const auto records = [&](std::uint64_t digest) {
      auto store = RecordStore::open(
          std::make_unique<sluice_test::ModelFiles>(disk),
          {sluice_test::plenty, digest, sluice_test::crc32c_by_bit, [&lines](const std::string&) { ++lines; }});
      REQUIRE(store);
      return std::shared_ptr<RecordStore>{*std::move(store)};
    };
    const auto run = [&]<class E>(std::uint64_t digest, std::int64_t tier_blocks, const E* /*type*/) {
      trial.records = records(digest);
      trial.tier_blocks = tier_blocks;
      const RealResult result = run_real<E>(trial, trial.all());
      trial.records = nullptr;
      check_identity(result, sessions.expected);
      return result.tier;
    };
    const std::int64_t plenty = trial.all() * 2;
    constexpr const Engine<>* plain = nullptr;
    constexpr const Chaos* chaos = nullptr;
    CHECK(run(1, plenty, plain).from_disk == 0);
    const HostTierCounts again = run(1, plenty, chaos);
    CHECK(again.found == prompts);
    CHECK(again.from_disk > 0);
    CHECK(run(1, trial.layers(), chaos).blocks <= 1); // a tier of one block: whatever it finds is right
    CHECK(lines == 0);
    CHECK(run(2, plenty, chaos).from_disk == 0);
    for (auto& [name, file] : disk.names) file->bytes[random.below(file->bytes.size())] ^= std::byte{0x10};
    CHECK(run(1, plenty, chaos).from_disk == 0);
    CHECK(lines > 0);
  }
}

TEST_CASE("a request of another salt finds nothing") {
  Random random(72);
  const RealTrial trial = random_real_trial(random);
  std::vector<RecordKey> one, other;
  std::vector<std::int32_t> tokens(64, 5);
  prefix_keys(tokens, trial.limits.block_tokens.count(), 1, one);
  prefix_keys(tokens, trial.limits.block_tokens.count(), 2, other);
  REQUIRE(one.size() == 16);
  for (const RecordKey& key : one) CHECK(std::find(other.begin(), other.end(), key) == other.end());
}

} // namespace sluice::testing
