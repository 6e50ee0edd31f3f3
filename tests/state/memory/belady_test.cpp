// SPDX-License-Identifier: Apache-2.0
// belady_hits against the best of all possible evictions, on small random trees.
#include "sluice/core/random.hpp"
#include "sluice/state/memory/belady.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

using Held = std::set<BlockKey>;

/// A request begins or ends.
struct Event {
  Seconds at;
  bool ends;
  std::size_t request;
};

/// The most hits with these requests: tries every set of blocks that may be kept at every end, of those that no live
/// request has.
class Exhaustive {
 public:
  Exhaustive(std::vector<PrefixUse> requests, std::vector<Event> events, std::size_t capacity)
      : requests_(std::move(requests)), events_(std::move(events)), capacity_(capacity) {}
  std::int64_t most() { return most(0, {}); }

 private:
  std::int64_t most(std::size_t at, const Held& kept) {
    if (at == events_.size()) return 0;
    const auto known = best_.find({at, kept});
    if (known != best_.end()) return known->second;
    const auto& [keys, looked_up] = requests_[events_[at].request];
    Held live; // of all other requests that have begun and not ended
    std::map<std::size_t, bool> begun;
    for (std::size_t i = 0; i < at; ++i) begun[events_[i].request] = !events_[i].ends;
    for (const auto& [request, lives] : begun)
      if (lives && request != events_[at].request)
        live.insert(requests_[request].keys.begin(), requests_[request].keys.end());
    std::int64_t best = 0;
    if (!events_[at].ends) {
      std::int64_t hits = 0;
      Held left = kept;
      const auto has = [&](BlockKey key) { return kept.count(key) + live.count(key) > 0; };
      while (hits < static_cast<std::int64_t>(looked_up) && has(keys[static_cast<std::size_t>(hits)])) ++hits;
      for (const BlockKey key : keys) left.erase(key);
      best = hits + most(at + 1, left);
    } else {
      Held all = kept;
      for (const BlockKey key : keys)
        if (live.count(key) == 0) all.insert(key);
      const std::vector<BlockKey> choice(all.begin(), all.end());
      for (std::uint32_t subset = 0; subset < (1u << choice.size()); ++subset) {
        Held some;
        for (std::size_t i = 0; i < choice.size(); ++i)
          if ((subset >> i & 1u) != 0) some.insert(choice[i]);
        if (some.size() <= capacity_) best = std::max(best, most(at + 1, some));
      }
    }
    return best_[{at, kept}] = best;
  }

  std::vector<PrefixUse> requests_;
  std::vector<Event> events_;
  std::size_t capacity_;
  std::map<std::pair<std::size_t, Held>, std::int64_t> best_;
};

std::vector<std::vector<BlockKey>> random_requests(Random& random) {
  std::vector<std::vector<BlockKey>> requests(6);
  for (auto& keys : requests) {
    BlockKey key{};
    for (std::uint64_t i = 1 + random.below(3); i > 0; --i) keys.push_back(key = next_key(key, random.below(2)));
  }
  return requests;
}

} // namespace

TEST_CASE("no choice of evictions finds more blocks than Belady's rule") {
  std::int64_t hits = 0, below_all = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    const auto capacity = static_cast<std::size_t>(1 + random.below(4));
    const auto requests = random_requests(random);
    std::vector<PrefixUse> uses;
    std::vector<Event> events;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      uses.push_back({requests[i], requests[i].size() - random.below(2)});
      const Seconds at{static_cast<double>(i)};
      events.insert(events.end(), {{at, false, i}, {at, true, i}});
    }
    const std::int64_t found = belady_hits(uses, TokenBlocks{static_cast<std::int64_t>(capacity)});
    CHECK(found == Exhaustive(uses, events, capacity).most());
    hits += found;
    below_all += found < belady_hits(uses, TokenBlocks{100}) ? 1 : 0;
  }
  CHECK(hits > 300);
  CHECK(below_all > 30);
}

TEST_CASE("with requests that overlap in time, too: what a live request has takes no room") {
  std::int64_t hits = 0, below_all = 0, overlapping = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    const auto capacity = static_cast<std::size_t>(random.below(4));
    const auto requests = random_requests(random);
    std::vector<PrefixUse> uses;
    std::vector<Lifetime> lives;
    std::vector<Event> events;
    Seconds begin{0};
    for (std::size_t i = 0; i < requests.size(); ++i) {
      uses.push_back({requests[i], requests[i].size() - random.below(2)});
      begin += Seconds{static_cast<double>(random.below(3))};
      lives.push_back({begin, begin + Seconds{static_cast<double>(random.below(4))}});
      overlapping += i > 0 && lives[i - 1].end >= begin ? 1 : 0;
      events.insert(events.end(), {{lives[i].begin, false, i}, {lives[i].end, true, i}});
    }
    // At one time requests begin before others end.
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.ends < b.ends; });
    const std::int64_t found = belady_hits(uses, TokenBlocks{static_cast<std::int64_t>(capacity)}, lives);
    CHECK(found == Exhaustive(uses, events, capacity).most());
    hits += found;
    below_all += found < belady_hits(uses, TokenBlocks{100}, lives) ? 1 : 0;
  }
  CHECK(hits > 300);
  CHECK(below_all > 30);
  CHECK(overlapping > 100);
}

TEST_CASE("a block whose next use does not look it up makes room for one that is looked up") {
  const BlockKey a = next_key(BlockKey{}, 1), b = next_key(BlockKey{}, 2);
  const std::vector<BlockKey> of_a{a}, of_b{b};
  // The second request for `a` computes its block again: only `b` can be found.
  const std::vector<PrefixUse> uses{{of_a, 1}, {of_b, 1}, {of_a, 0}, {of_b, 1}};
  CHECK(belady_hits(uses, TokenBlocks{1}) == 1);
}
