// SPDX-License-Identifier: Apache-2.0
// The parts of block tables that a machine gives its runner: whatever moves, they add up to each launch's tables, and
// the address of a block that stays is given once.
#include "sluice/model/decoder/model_runner.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/trials.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::testing {
namespace {

struct Announced {
  std::int64_t tables = 0; ///< launched with a table that outlives them
  std::int64_t whole = 0;  ///< of these, tables of which nothing was known
  std::int64_t quiet = 0;  ///< tables without a new block
  std::int64_t blocks = 0; ///< whose addresses were given
  std::int64_t grown = 0;  ///< by which tables grew, those that were given whole included
  std::int64_t ahead = 0;  ///< of these, before the layer's launch
  std::int64_t wrong = 0;  ///< tables whose parts do not add up
};

/// Keeps the tables as a device would, from the parts that it is given.
class KeepsTables final : public ForwardingRunner {
 public:
  KeepsTables(std::unique_ptr<ModelRunner> runner, Tokens block_tokens, std::shared_ptr<Announced> seen)
      : runner_(std::move(runner)), block_tokens_(static_cast<int>(block_tokens.count())), seen_(std::move(seen)) {
    forward_to(*runner_);
  }

  void announce(std::span<const GrownTable> tables) override {
    for (const GrownTable& grown : tables) {
      CHECK(grown.known > 0);
      CHECK(grown.known < grown.blocks);
      seen_->ahead += grown.blocks - grown.known;
      put(table(grown.layer, grown.table), grown.known, grown.blocks, grown.addresses);
    }
  }
  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const SequenceRows& one = sequences[s];
      if (one.table < 0 || (s > 0 && sequences[s - 1].table == one.table)) continue;
      int blocks = 0;
      for (std::size_t other = s; other < sequences.size() && sequences[other].table == one.table; ++other)
        blocks =
            std::max(blocks, (sequences[other].position + sequences[other].rows + block_tokens_ - 1) / block_tokens_);
      Table& there = table(layer, one.table);
      ++seen_->tables;
      seen_->whole += one.known == 0 ? 1 : 0;
      seen_->quiet += one.known >= blocks ? 1 : 0;
      seen_->grown += blocks - (one.known == 0 ? 0 : there.launched);
      put(there, one.known, blocks, one.blocks);
      there.launched = blocks;
      for (int i = 0; i < blocks; ++i)
        if (there.blocks[static_cast<std::size_t>(i)] != one.blocks[i]) {
          ++seen_->wrong;
          break;
        }
    }
    ForwardingRunner::launch_layer(layer, weights, sequences, rows, stored_rows, kept);
  }

 private:
  struct Table {
    std::vector<std::byte*> blocks;
    int launched = 0; ///< blocks of the last launch
  };
  Table& table(int layer, std::int32_t number) { return tables_[{layer, number}]; }
  void put(Table& to, int known, int blocks, std::byte* const* addresses) {
    if (known >= blocks) return;
    seen_->blocks += blocks - known;
    to.blocks.resize(static_cast<std::size_t>(known), nullptr);
    to.blocks.insert(to.blocks.end(), addresses + known, addresses + blocks);
  }

  std::unique_ptr<ModelRunner> runner_;
  int block_tokens_;
  std::shared_ptr<Announced> seen_;
  std::map<std::pair<int, std::int32_t>, Table> tables_;
};

struct OnAnnouncedGpu : OnGpu {
  std::shared_ptr<Announced> seen = std::make_shared<Announced>();

  [[nodiscard]] Expected<std::shared_ptr<GpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto gpu = std::make_shared<EmulatedGpu>(seed);
    auto runner = std::make_unique<EnqueuedDecoder>(std::move(decoder), gpu);
    runner->set_block_tokens(trial.limits.block_tokens);
    return GpuMachine::make(trial.weights,
                            std::make_unique<KeepsTables>(std::move(runner), trial.limits.block_tokens, seen), setup,
                            std::move(listener), std::move(gpu), std::int64_t{4});
  }
};

} // namespace

TEST_CASE("the runner gets the address of a block that stays on the device once") {
  Random random(41);
  const OnAnnouncedGpu device;
  for (int round = 0; round < 10; ++round) {
    const RealTrial trial = random_gpu_trial(random);
    const RealResult result = run_real<Engine<>>(
        trial, trial.all(), [](auto&) {}, {}, device);
    CHECK(result.preempted == 0);
  }
  const Announced& seen = *device.seen;
  CHECK(seen.wrong == 0);
  CHECK(seen.whole > 0);
  CHECK(seen.blocks == seen.grown);
  CHECK(seen.ahead > 0);
  CHECK(seen.quiet > seen.tables / 2); // blocks of four tokens
}

TEST_CASE("tables are right in every launch, wherever blocks are and whatever moves them") {
  Random random(42);
  const auto check = [&]<class E>(std::type_identity<E>, double share, std::uint64_t leaving) {
    for (int round = 0; round < 10; ++round) {
      CAPTURE(round);
      RealTrial trial = random_gpu_trial(random);
      trial.leaving = leaving;
      OnAnnouncedGpu device;
      device.seed = random();
      const auto blocks = static_cast<std::int64_t>(share * static_cast<double>(trial.largest()));
      (void)run_real<E>(
          trial, blocks + 2 * trial.layers() + 8, [](auto&) {}, {}, device);
      CHECK(device.seen->wrong == 0);
    }
  };
  check(std::type_identity<Chaos>{}, 1.1, 0);
  check(std::type_identity<ChaosStreams>{}, 1.1, 25);
}

} // namespace sluice::testing
