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

/// Calls `run(ranks)` on each of `count` ranks. Returns the results by rank.
template <class Run>
std::vector<std::string> on_ranks(int count, Run run) {
  Board board(count);
  std::vector<std::string> results(static_cast<std::size_t>(count));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] {
        ThreadRank self(board, rank);
        results[static_cast<std::size_t>(rank)] = run(&self);
      });
  }
  return results;
}

/// Two pools, with deaths: everything that ranks exchange. Returns the digest.
std::string run_on(Ranks* ranks, std::size_t prefills, std::size_t decodes) {
  Fleet<Precise, VllmPrefixCaching, VllmRecompute>::Config config;
  config.settings.handoff = {BytesPerSecond{10e9}, Seconds{0.001}};
  if (prefills > 1) config.settings.failures.at.push_back({Seconds{2}, 1});
  if (decodes > 1) config.settings.failures.at.push_back({Seconds{3}, prefills + 1});
  std::get<0>(config.engines).assign(prefills, configure<Watched<VllmPrefixCaching>>(small_server()));
  std::get<1>(config.engines).assign(decodes, configure<Watched<VllmRecompute>>(small_server()));
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
  using Sizes = std::pair<std::size_t, std::size_t>;
  for (const auto& [prefills, decodes] : {Sizes{3, 4}, Sizes{1, 4}, Sizes{3, 1}, Sizes{1, 1}}) {
    const std::size_t first = prefills, second = decodes;
    const std::string alone = run_on(nullptr, first, second);
    CHECK(alone.find(" 150 ") != std::string::npos);
    for (const int count : {1, 2, 3, 9}) // 9: more than engines, so that some have none
      for (const std::string& result : on_ranks(count, [=](Ranks* ranks) { return run_on(ranks, first, second); }))
        CHECK(result == alone);
  }
}

TEST_CASE("an engine that one rank cannot make ends all ranks with the same line") {
  const std::vector<std::string> results = on_ranks(3, [](Ranks* ranks) {
    Fleet<LeastLoaded, VllmRecompute>::Config config;
    std::get<0>(config.engines).assign(6, configure<Watched<VllmRecompute>>(small_server()));
    std::get<0>(config.engines)[3].limits.batch = 0;
    const auto fleet = Fleet<LeastLoaded, VllmRecompute>::make(std::move(config), ranks);
    return fleet ? std::string{"made"} : fleet.error().line();
  });
  CHECK(results[0].find("engine 3: ") == 0);
  for (const std::string& result : results) CHECK(result == results[0]);
}

namespace {

/// A trace of which one process cannot read the request numbered `bad`.
class BrokenTrace {
 public:
  explicit BrokenTrace(int bad) : all_(40, 20, 6, 1), bad_(bad) {}
  Expected<std::optional<RequestSpec>> next() {
    if (at_++ == bad_) return Error{ErrorCode::bad_input, "trace line 7", "it ends early", "a whole line"};
    return all_.next();
  }

 private:
  GroupedPrompts all_;
  int bad_, at_ = 0;
};

} // namespace

TEST_CASE("a trace that one rank cannot read ends all ranks with the same line") {
  for (const int bad : {0, 1, 25}) { // 0: before the first window
    const std::vector<std::string> results = on_ranks(3, [bad](Ranks* ranks) {
      auto fleet = make_fleet<LeastLoaded, VllmRecompute>(6, small_server(), {}, {}, ranks);
      if (!fleet) return fleet.error().line();
      BrokenTrace trace(ranks->rank() == 1 ? bad : -1);
      const Status status = fleet->run(trace);
      return status ? std::string{"served"} : status.error().line();
    });
    for (const std::string& result : results) CHECK(result == "trace line 7: it ends early; expected a whole line");
  }
}
