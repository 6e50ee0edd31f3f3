// SPDX-License-Identifier: Apache-2.0
// Ranks: processes that each run a part of the engines. Here they are threads, which exchange bytes as processes do.
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/scorers.hpp"

#include "fleet/small_fleet.hpp"

#include <barrier>
#include <thread>

using namespace sluice;
using sluice_test::GroupedPrompts;
using sluice_test::small_server;

namespace {

/// What the ranks share.
struct Board {
  explicit Board(int ranks) : bytes(static_cast<std::size_t>(ranks)), all(ranks) {}
  std::vector<std::vector<std::byte>> bytes;
  std::barrier<> all;
};
class ThreadRank final : public Ranks {
 public:
  ThreadRank(Board& board, int rank) : board_(board), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int count() const override { return static_cast<int>(board_.bytes.size()); }
  [[nodiscard]] std::vector<std::byte> gather(std::span<const std::byte> mine) override {
    board_.bytes[static_cast<std::size_t>(rank_)].assign(mine.begin(), mine.end());
    board_.all.arrive_and_wait();
    std::vector<std::byte> gathered;
    for (const auto& one : board_.bytes) gathered.insert(gathered.end(), one.begin(), one.end());
    board_.all.arrive_and_wait(); // before anybody writes the next
    return gathered;
  }

 private:
  Board& board_;
  int rank_;
};

using Precise = WeightedScorers<QueueScorer, KvScorer, FoundScorer>;

/// Two pools, with deaths: everything that ranks exchange. Returns the digest.
std::string run_on(Ranks* ranks) {
  Fleet<Precise, VllmPrefixCaching, VllmRecompute>::Config config;
  config.settings.handoff = {BytesPerSecond{10e9}, Seconds{0.001}};
  config.settings.failures.at = {{Seconds{2}, 1}, {Seconds{3}, 4}};
  std::get<0>(config.engines).assign(3, configure<Watched<VllmPrefixCaching>>(small_server()));
  std::get<1>(config.engines).assign(4, configure<Watched<VllmRecompute>>(small_server()));
  auto fleet = Fleet<Precise, VllmPrefixCaching, VllmRecompute>::make(std::move(config), ranks);
  if (!fleet) return fleet.error().line();
  GroupedPrompts reader(150, 20, 6, 1);
  const Status status = fleet->run(reader);
  if (!status) return status.error().line();
  const FleetSummary& summary = fleet->summary();
  std::string text = summary.digest.text() + " " + std::to_string(summary.served) + " " +
                     std::to_string(summary.interrupted) + " " + std::to_string(summary.age.sum()) + " " +
                     std::to_string(summary.ttft.sum()) + " " + std::to_string(summary.handed_bytes.count());
  for (const EnginePart& part : summary.engines)
    text += " " + std::to_string(part.routed) + "/" + std::to_string(part.steps);
  return text;
}

} // namespace

TEST_CASE("every rank has the result of one process, to the bit, however many ranks there are") {
  const std::string alone = run_on(nullptr);
  CHECK(alone.find(" 150 ") != std::string::npos);
  for (const int count : {1, 2, 3, 9}) { // 9: more than engines, so that some have none
    Board board(count);
    std::vector<std::string> results(static_cast<std::size_t>(count));
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < count; ++rank)
        threads.emplace_back([&, rank] {
          ThreadRank self(board, rank);
          results[static_cast<std::size_t>(rank)] = run_on(&self);
        });
    }
    for (const std::string& result : results) CHECK(result == alone);
  }
}

TEST_CASE("an engine that one rank cannot make ends all ranks with the same line") {
  Board board(3);
  std::vector<std::string> results(3);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        ThreadRank self(board, rank);
        Fleet<LeastLoaded, VllmRecompute>::Config config;
        std::get<0>(config.engines).assign(6, configure<Watched<VllmRecompute>>(small_server()));
        std::get<0>(config.engines)[3].limits.batch = 0;
        const auto fleet = Fleet<LeastLoaded, VllmRecompute>::make(std::move(config), &self);
        results[static_cast<std::size_t>(rank)] = fleet ? "made" : fleet.error().line();
      });
  }
  CHECK(results[0].find("engine 3: ") == 0);
  for (const std::string& result : results) CHECK(result == results[0]);
}
