// SPDX-License-Identifier: Apache-2.0
// This machine as the device of the trials in tests/identity/trials, and decisions that are late on it by chance.
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/world/real/world_of.hpp"

#include "identity/eigen/counted.hpp"
#include "identity/eigen/trials.hpp"

namespace sluice::testing {

namespace {

/// Decides beside the iteration without a thread, so that a seed and no scheduler chooses which decisions are late.
class LateByChance final : public WorldOf<RealBackend> {
 public:
  LateByChance(const RealBackend& machine, std::uint64_t seed) : WorldOf(machine), random_(seed) {}
  void async(void (*work)(void*), void* what) override { work(what); }
  bool async_done() override { return random_.below(2) == 0; }
  void join_async() override {}

 private:
  Random random_;
};

/// A random trial; in about every other one the model has latent attention, half of these with experts, and in every
/// sixth states. The numbers of `random` that follow are the same in all cases.
RealTrial draw_here(Random& random) {
  RealTrial trial = random_real_trial(random);
  const std::size_t seed = trial.prompts.front().size();
  if (seed % 6 == 1) trial.weights = random_weights(with_states(trial.weights.config), seed);
  if (seed % 2 == 0) {
    const DecoderConfig latents = with_latents(trial.weights.config);
    trial.weights = random_weights(seed % 4 == 0 ? with_experts(latents, seed % 8 == 0) : latents, seed);
  }
  return trial;
}

RealResult run_here(const RealTrial& trial, std::int64_t kv_blocks, const MakeReal& make,
                    const std::vector<std::size_t>& only, Random& /*random*/, std::shared_ptr<CountedRows> counts) {
  if (!counts) return run_trial(trial, kv_blocks, make, only);
  return run_trial(trial, kv_blocks, make, only, Counted{{}, std::move(counts)});
}

} // namespace

std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens block_tokens, int threads) {
  return make_decoder(weights, block_tokens, threads);
}

const Device& this_device() {
  static constexpr Device device{&draw_here, &run_here, 8, true};
  return device;
}

TEST_CASE("a late decision has room for what its requests have grown to meanwhile") {
  for (const std::uint64_t seed : {216U, 543U, 2422U}) { // of 2,500, those that refused the most without that room
    CAPTURE(seed);
    Random random(seed);
    const RealTrial trial = at_once(random_real_trial(random));
    const std::vector<RealOutput> expected = alone(trial);
    const auto kv = static_cast<std::int64_t>(0.9 * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    for (int again = 0; again < 10; ++again) {
      const RealResult result = run_real<ChaosAhead>(trial, kv, [&](auto& config) {
        config.backend = Cpu{std::make_shared<LateByChance>(config.backend, random())};
      });
      CHECK(result.refused == 0);
      check_identity(result, expected);
    }
  }
}

} // namespace sluice::testing
