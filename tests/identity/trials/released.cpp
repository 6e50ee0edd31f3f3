// SPDX-License-Identifier: Apache-2.0
// Requests that find KV of others on the device, and behind that in the host tier.
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "identity/eigen/trials.hpp"

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
  CHECK(check(&real<HiCacheIfFaster>, 182) >= 0);
  CHECK(check(&real<HiCacheHints>, 183) > 0);
  CHECK(check(stepped(&real<InferCept>), 184) > 0);
  (void)check(stepped(&real<Continuum>), 185); // never copies: its pins are on the device
  CHECK(check(&real<VllmOffload>, 186) > 0);   // requests wait for loads
  CHECK(check(&real<AdaptiveOffload>, 187) >= 0);
}

TEST_CASE("cancelled requests leave their blocks to be found, and copies that fail spoil none") {
  CHECK(check_turns(&real<VllmPrefixCaching>, 191, 8, 1.2, 10).found_on_device > 0);
  CHECK(check_turns(&real<HiCache>, 192, 8, 1.2, 10).found_on_device > 0);
  CHECK(check_turns(&real<HiCache>, 193, 10, 1.2, 0, 0.05).found_on_device > 0);
}

TEST_CASE("chunks that are written and loaded in the step itself, which waits for both, change no token") {
  struct Small : LmcacheRule { // prompts here are shorter than a chunk of LMCache's
    constexpr Small() { chunk = Tokens{8}; }
  };
  CHECK(check_turns(&real<With<VllmPrefixCaching, Small>>, 201, 8, 1.2).found > 0);
  CHECK(check_turns(&real<With<VllmSwap, Small>>, 202, 8, 1.2, 12, 0.05).found > 0);
}

TEST_CASE("a request that loads before it computes waits, alone or beside others") {
  CHECK(check_turns(&real<With<VllmSwap, VllmOffloadRule>>, 203, 8, 1.2).found > 0);
  CHECK(check_turns(&real<With<VllmRecompute, VllmOffloadRule>>, 204, 8, 1.1, 10).found > 0);
  CHECK(check_turns(&real<With<VllmSwap, VllmOffloadRule>>, 205, 10, 1.1, 0, 0.05).found > 0);
}

} // namespace sluice::testing
