// SPDX-License-Identifier: Apache-2.0
// The tables of docs/tiers.md, computed again from the trace by naive stores.
#include "sluice/state/memory/belady.hpp"
#include "sluice/state/memory/tier_store.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <list>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

using Keys = std::vector<BlockKey>;
constexpr std::int64_t block_tokens = 512;
const char* const trace_file = "data/traces/mooncake_conversation.jsonl";

/// A request's blocks, of its prompt and its answer but the last token, and how many it looks up.
struct Served {
  Keys keys;
  std::size_t looked_up = 0;
};
struct Conversation {
  std::vector<Served> requests;
  std::int64_t lookups = 0;
};

Conversation read_conversation() {
  Conversation all;
  Expected<Trace> trace = open_trace(sluice_test::shared_path(trace_file), TraceFormat::mooncake, {});
  REQUIRE(trace);
  for (;;) {
    const Expected<std::optional<RequestSpec>> request = trace->next();
    REQUIRE(request);
    if (!*request) return all;
    const std::int64_t prompt = (*request)->prompt.count();
    Served one;
    // The trace names the blocks of prompts, one piece each; only whole blocks count.
    BlockKey key{};
    for (const ContentPiece& piece : trace->content())
      if (piece.tokens.count() == block_tokens) one.keys.push_back(key = next_key(key, piece.id));
    one.looked_up = std::min(static_cast<std::size_t>((prompt - 1) / block_tokens), one.keys.size());
    all.lookups += (prompt - 1) / block_tokens;
    all.requests.push_back(std::move(one));
  }
}

/// A list of blocks, the least recent first, and where each is.
class Recent {
 public:
  explicit Recent(std::size_t capacity) : capacity_(capacity) {}
  [[nodiscard]] bool holds(BlockKey key) const { return places_.count(key) > 0; }
  void touch(BlockKey key) {
    if (const auto place = places_.find(key); place != places_.end())
      blocks_.splice(blocks_.end(), blocks_, place->second);
  }
  void remove(BlockKey key) {
    if (const auto place = places_.find(key); place != places_.end()) {
      blocks_.erase(place->second);
      places_.erase(place);
    }
  }
  /// Returns what was evicted.
  Keys store(const Keys& keys) {
    for (std::size_t i = std::min(keys.size(), capacity_); i-- > 0;) {
      remove(keys[i]);
      blocks_.push_back(keys[i]);
      places_[keys[i]] = std::prev(blocks_.end());
    }
    Keys evicted;
    while (blocks_.size() > capacity_) {
      evicted.push_back(blocks_.front());
      remove(evicted.back());
    }
    return evicted;
  }

 private:
  std::size_t capacity_;
  std::list<BlockKey> blocks_;
  std::unordered_map<BlockKey, std::list<BlockKey>::iterator> places_;
};

/// The least used blocks leave first, among equals the least recent; block by block.
class Frequent {
 public:
  explicit Frequent(std::size_t capacity) : capacity_(capacity) {}
  [[nodiscard]] bool holds(BlockKey key) const { return uses_.count(key) > 0; }
  void store(const Keys& keys) {
    for (std::size_t i = std::min(keys.size(), capacity_); i-- > 0;) {
      std::int64_t uses = 0;
      if (const auto held = uses_.find(keys[i]); held != uses_.end()) {
        uses = held->second.first;
        order_.erase({held->second, keys[i]});
      } else if (uses_.size() == capacity_) {
        uses_.erase(order_.begin()->second);
        order_.erase(order_.begin());
      }
      uses_[keys[i]] = {uses + 1, ++time_};
      order_.insert({uses_[keys[i]], keys[i]});
    }
  }

 private:
  using Use = std::pair<std::int64_t, std::int64_t>; ///< how many, the last
  std::size_t capacity_;
  std::int64_t time_ = 0;
  std::unordered_map<BlockKey, Use> uses_;
  std::set<std::pair<Use, BlockKey>> order_;
};

template <class Store>
std::int64_t hits_of(const Conversation& all, Store store) {
  std::int64_t hits = 0;
  for (const Served& request : all.requests) {
    std::size_t found = 0;
    while (found < request.looked_up && store.holds(request.keys[found])) ++found;
    hits += static_cast<std::int64_t>(found);
    store.store(request.keys);
  }
  return hits;
}

struct TwoTiers {
  std::int64_t device = 0, host = 0, written = 0;
};
TwoTiers two_tiers(const Conversation& all, std::size_t device_blocks, std::size_t host_blocks, HostCopies copies) {
  Recent device(device_blocks), host(host_blocks);
  TwoTiers sum;
  for (const auto& [keys, looked_up] : all.requests) {
    std::size_t near = 0;
    while (near < looked_up && device.holds(keys[near])) ++near;
    std::size_t found = near;
    while (found < looked_up && (device.holds(keys[found]) || host.holds(keys[found]))) ++found;
    sum.device += static_cast<std::int64_t>(near);
    sum.host += static_cast<std::int64_t>(found - near);
    if (copies == HostCopies::inclusive) {
      for (const BlockKey key : keys) sum.written += host.holds(key) ? 0 : 1;
      host.store(keys);
    } else if (copies == HostCopies::write_back) {
      for (std::size_t i = keys.size(); i-- > 0;) host.touch(keys[i]);
    } else {
      for (std::size_t i = near; i < found; ++i) host.remove(keys[i]);
    }
    for (const BlockKey key : device.store(keys)) {
      if (copies == HostCopies::inclusive) break;
      const bool is_new = !host.holds(key);
      sum.written += is_new ? 1 : 0;
      if (is_new || copies == HostCopies::exclusive) host.store({key});
    }
  }
  return sum;
}

std::string page() {
  std::ifstream file("docs/tiers.md");
  return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}
std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.2f}", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}
/// The words of the page's line that begins with `first`.
std::vector<std::string> row_of(const std::string& text, const std::string& first) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> row{std::istream_iterator<std::string>{words}, {}};
    if (!row.empty() && row.front() == first) return {row.begin() + 1, row.end()};
  }
  return {};
}

} // namespace

TEST_CASE("one tier finds in Mooncake's conversations what naive stores find, and what docs/tiers.md says" *
          sluice_test::needs_shared({trace_file})) {
  const Conversation all = read_conversation();
  const std::string text = page();
  std::vector<std::string> recent, frequent;
  std::vector<PrefixUse> uses;
  for (const Served& request : all.requests) uses.push_back({request.keys, request.looked_up});
  const auto tier = [&](std::size_t capacity, Replacement rule) {
    TierStore store(TokenBlocks{static_cast<std::int64_t>(capacity)}, rule);
    std::int64_t hits = 0;
    for (const PrefixUse& use : uses) {
      hits += static_cast<std::int64_t>(store.find(use.keys.first(use.looked_up)));
      store.store(use.keys);
    }
    return hits;
  };
  const std::vector<std::string> sizes = row_of(text, "rule"); // "1000 10000 50000 all"
  REQUIRE(sizes.size() == 4);
  std::int64_t found_by_all = 0;
  for (const std::string& size : sizes) {
    CAPTURE(size);
    const std::size_t capacity = size == "all" ? 200'000 : std::stoul(size);
    const std::int64_t lru = hits_of(all, Recent{capacity}), lfu = hits_of(all, Frequent{capacity});
    CHECK(tier(capacity, Replacement::least_recent) == lru);
    CHECK(tier(capacity, Replacement::least_frequent) == lfu);
    recent.push_back(percent(lru, all.lookups));
    frequent.push_back(percent(lfu, all.lookups));
    const std::int64_t most = belady_hits(uses, TokenBlocks{static_cast<std::int64_t>(capacity)});
    CHECK(most >= std::max({lru, lfu, tier(capacity, Replacement::adaptive)}));
    found_by_all = lru;
  }
  CHECK(found_by_all == belady_hits(uses, TokenBlocks{200'000}));
  CHECK(row_of(text, "LRU") == recent);
  CHECK(row_of(text, "LFU") == frequent);
}

TEST_CASE("two tiers find in Mooncake's conversations what naive stores find, and what docs/tiers.md says" *
          sluice_test::needs_shared({trace_file})) {
  const Conversation all = read_conversation();
  const std::string text = page();
  constexpr std::int64_t device = 2'000, host = 20'000;
  REQUIRE(text.find(fmt::format("A device of {} blocks and a host of {}, both LRU", device, host)) !=
          std::string::npos);
  for (const HostCopies copies : {HostCopies::inclusive, HostCopies::write_back, HostCopies::exclusive}) {
    CAPTURE(name(copies));
    UntimedTiers tiers(TokenBlocks{device}, TokenBlocks{host}, copies);
    for (const Served& request : all.requests) tiers.serve(request.keys, request.looked_up);
    const TwoTiers naive = two_tiers(all, device, host, copies);
    CHECK(tiers.device_hits() == naive.device);
    CHECK(tiers.host_hits() == naive.host);
    CHECK(tiers.written() == naive.written);
    const std::vector<std::string> row{percent(naive.device, all.lookups), percent(naive.host, all.lookups),
                                       fmt::format("{}", naive.written)};
    CHECK(row_of(text, std::string{name(copies)}) == row);
  }
}
