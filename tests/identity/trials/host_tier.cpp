// SPDX-License-Identifier: Apache-2.0
// Turns that find KV of earlier ones in the host tier.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "identity/eigen/trials.hpp"

namespace sluice::testing {

TEST_CASE("turns from the host tier change no token and no logit, whatever the system does with the KV") {
  Exercise all;
  const auto add = [&all](const Exercise& one) {
    CHECK(one.found > 0);
    all.evicted += one.evicted;
    all.preempted += one.preempted;
    if (this_device().host_memory) return;
    CHECK(one.kv_seconds > 0);
    CHECK(one.kv_seconds <= one.busy_seconds * (1 + 1e-6)); // a batch of copies is timed as a whole
  };
  add(check_turns(&real<Chaos>, 61, 8, 0.8));
  add(check_turns(&real<ChaosShares>, 62, 6, 1.1));
  add(check_turns(&real<ChaosAhead>, 63, 6, 0.9));
  add(check_turns(&real<ChaosStreams>, 163, 4, 1.1));
  add(check_turns(&real<VllmSwap>, 64, 6, 1.1));
  add(check_turns(&real<OrbitFlow>, 65, 6, 1.1));
  add(check_turns(&real<SuperInfer>, 66, 6, 1.1));
  CHECK(all.evicted > 0);
  CHECK(all.preempted > 0);
}

TEST_CASE("cancelled requests leave their KV to the tier, and those that wait for it give it back") {
  CHECK(check_turns(&real<Chaos>, 67, 10, 0.8, 10).found > 0);
  CHECK(check_turns(&real<Engine<>>, 68, 10, 1.5, 10).found > 0);
}

TEST_CASE("copies that fail for good on the way to the tier or from it change no token") {
  CHECK(check_turns(&real<Chaos>, 69, 12, 0.9, 0, 0.05).found > 0);
  CHECK(check_turns(&real<VllmSwap>, 70, 12, 1.1, 15, 0.05).found > 0);
}

TEST_CASE("fifty requests that wait for one beginning: one load from the host") { check_convoy(73, 50, 12); }

} // namespace sluice::testing
