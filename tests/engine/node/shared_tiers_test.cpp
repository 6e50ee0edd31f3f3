// SPDX-License-Identifier: Apache-2.0
// A node whose engines share a tier: what one has written, the other loads; a recorded run token by token.
#include "sluice/engine/node/node.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "engine/trials.hpp"
#include "support/shared_data.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr Tokens block{16}, chunk{256};

template <class System>
using Tried = With<System, SmallCost, BasicSimulated<SmallCost>, Summary>;

/// The causes of all misses.
struct Causes {
  using role = roles::Observer;
  using hears = Events<events::Missed>;
  static constexpr bool wants_timeline = false;
  struct State {
    MissCauses all;
  };
  void on(State& state, const events::Missed& event) const { state.all += event.causes; }
};

/// LMCache with `save_decode_cache`, as the recorded run had it.
struct SavesAnswers : LmcacheRule {
  constexpr SavesAnswers() { saves_answers = true; }
};

template <class E>
typename E::Config config_of(std::int64_t device, std::int64_t host, double rate) {
  SmallCost cost;
  cost.rate = BytesPerSecond{rate};
  return {.limits = {.batch = 256, .batch_tokens = Tokens{8192}, .max_context = Tokens{1 << 20}},
          .geometry = {4, Bytes{4096}, Bytes{1 << 20}},
          .device_blocks = LayerBlocks{device * 4},
          .tier = {.capacity = TokenBlocks{host}},
          .cost = cost,
          .backend = BasicSimulated<SmallCost>{cost}};
}

/// Runs requests, each on its engine, to their last tokens.
template <class N>
void run(N& node, const std::vector<KeyedRequest>& requests, const std::vector<std::size_t>& engines) {
  for (std::size_t next = 0;;) {
    for (; next < requests.size() && requests[next].spec.arrival <= node.now(); ++next)
      node.submit(engines[next], requests[next]);
    node.launch();
    REQUIRE(node.status().ok());
    const Seconds arrival = next < requests.size() ? requests[next].spec.arrival : never_due;
    const Seconds event = std::min(arrival, node.next_event());
    if (event == never_due) break;
    node.advance(event);
  }
  CHECK(node.alive() == 0);
}

/// A recorded request: the keys of its blocks, and of its chunks.
struct Recorded {
  std::vector<KeyedRequest> requests;
  std::vector<std::vector<BlockKey>> chunks;
};
Recorded read_pulse() {
  Expected<Trace> trace = open_trace(sluice_test::shared_path("data/traces/pulse.jsonl"), TraceFormat::tokens, {});
  REQUIRE(trace);
  Recorded all;
  for (;;) {
    const Expected<std::optional<RequestSpec>> spec = trace->next();
    REQUIRE(spec);
    if (!*spec) break;
    KeyedRequest request{**spec, {}};
    // In file order, one after the other, as the figures are: the next arrives when the one before has its answer.
    request.spec.arrival = Seconds{1e4 * static_cast<double>(all.requests.size())};
    block_keys(trace->content(), block, request.keys);
    block_keys(trace->content(), chunk, all.chunks.emplace_back());
    all.requests.push_back(std::move(request));
  }
  return all;
}

struct Hits {
  std::int64_t device = 0, pool = 0;
};

/// The same without engine and time, by sets of keys.
std::vector<Hits> reckoned(const Recorded& all, std::size_t engines) {
  std::vector<std::set<BlockKey>> devices(engines);
  std::set<BlockKey> pool;
  std::vector<Hits> hits(engines);
  const auto prefix = [](const std::set<BlockKey>& held, std::span<const BlockKey> keys, std::int64_t most) {
    std::int64_t count = 0;
    while (count < std::min(most, static_cast<std::int64_t>(keys.size())) &&
           held.count(keys[static_cast<std::size_t>(count)]) > 0)
      ++count;
    return count;
  };
  for (std::size_t i = 0; i < all.requests.size(); ++i) {
    Hits& of = hits[i % engines];
    const std::int64_t most = all.requests[i].spec.prompt.count() - 1;
    const std::int64_t near = block.count() * prefix(devices[i % engines], all.requests[i].keys, most / block.count());
    const std::int64_t far = chunk.count() * prefix(pool, all.chunks[i], most / chunk.count());
    of.device += near;
    of.pool += std::max<std::int64_t>(0, far - near);
    devices[i % engines].insert(all.requests[i].keys.begin(), all.requests[i].keys.end());
    pool.insert(all.chunks[i].begin(), all.chunks[i].end());
  }
  return hits;
}

template <class E>
Hits hits_of(const E& engine) {
  Hits hits;
  for (const RequestRecord& record : engine.template observed<Summary>().requests) {
    hits.pool += record.loaded.count();
    hits.device += record.found.count() - record.loaded.count();
  }
  return hits;
}

} // namespace

TEST_CASE("two engines with one pool: what one has computed, the other loads over its own link") {
  const ContentPiece pieces[] = {{1, Tokens{480}}, {2, Tokens{20}}};
  std::vector<KeyedRequest> requests(3, {{Seconds{0}, Tokens{500}, Tokens{2}, {}}, {}});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    block_keys(pieces, block, requests[i].keys);
    requests[i].spec.arrival = Seconds{100.0 * static_cast<double>(i)};
  }
  for (const bool shares : {false, true}) {
    CAPTURE(shares);
    using E = Tried<VllmOffload>;
    using N = Node<E, E>;
    auto node =
        N::make({.engines = {config_of<E>(200, 200, 1e6), config_of<E>(200, 200, 1e6)}, .shares_tiers = shares});
    REQUIRE(node);
    run(*node, requests, {0, 1, 0});
    const Hits first = hits_of(node->template engine<0>()), second = hits_of(node->template engine<1>());
    CHECK(first.device == 496); // its own blocks
    CHECK(first.pool == 0);
    CHECK(second.device == 0);
    CHECK(second.pool == (shares ? 496 : 0));
    const bool one_store = &node->template engine<0>().tiers().store() == &node->template engine<1>().tiers().store();
    CHECK(one_store == shares);
    const RequestRecord& loaded = node->template engine<1>().template observed<Summary>().requests.front();
    if (shares) CHECK(loaded.ttft().count() > 31 * 4 * 4096 / 1e6);
  }
}

TEST_CASE("requests that share no prefix find nothing of another engine's requests, whatever their numbers") {
  const KeyedRequest unkeyed{{Seconds{0}, Tokens{500}, Tokens{2}, {}}, {}};
  std::vector<KeyedRequest> requests(3, unkeyed);
  requests[1].spec.arrival = Seconds{100}; // the first request of its engine, as the other is of its own
  requests[2].spec.arrival = Seconds{200}; // by then their blocks have crossed
  using E = Tried<VllmOffload>;
  auto node =
      Node<E, E>::make({.engines = {config_of<E>(200, 200, 1e6), config_of<E>(200, 200, 1e6)}, .shares_tiers = true});
  REQUIRE(node);
  run(*node, requests, {0, 1, 0});
  CHECK(hits_of(node->template engine<1>()).pool == 0);
  CHECK(node->template engine<0>().tiers().store().size() >= 2 * 31);
}

TEST_CASE("an engine explains misses of blocks that another engine of its tiers has written") {
  using E = With<VllmOffload, SmallCost, BasicSimulated<SmallCost>, Summary, Causes>;
  auto config = config_of<E>(200, 40, 1e6);
  config.explains_misses = true;
  auto node = Node<E, E>::make({.engines = {config, config}, .shares_tiers = true});
  REQUIRE(node);
  std::vector<KeyedRequest> requests;
  for (const std::uint64_t topic : {1u, 2u, 3u, 1u}) {
    const ContentPiece pieces[] = {{topic, Tokens{480}}, {100 + requests.size(), Tokens{20}}};
    KeyedRequest& one = requests.emplace_back(
        KeyedRequest{{Seconds{100.0 * static_cast<double>(requests.size())}, Tokens{500}, Tokens{2}, {}}, {}});
    block_keys(pieces, block, one.keys);
  }
  run(*node, requests, {0, 1, 1, 1});
  CHECK(node->template engine<0>().template observed<Causes>().all.all() == Tokens{0});
  const MissCauses& of = node->template engine<1>().template observed<Causes>().all;
  CHECK(of.evicted == Tokens{480});
  CHECK(of.all() == Tokens{480});
}

TEST_CASE("engines that share tiers agree on what a key names, or there is no node; a node has no copies") {
  using E = Tried<VllmOffload>;
  using Other = Tried<Kvbm>;
  using Plain = Tried<VllmPrefixCaching>;
  const auto line = []<class A, class B>(const typename A::Config& a, const typename B::Config& b, bool shares = true) {
    auto node = Node<A, B>::make({.engines = {a, b}, .shares_tiers = shares});
    return node ? std::string{} : node.error().line();
  };
  const auto of = [&](auto&& change) {
    auto config = config_of<E>(200, 200, 1e6);
    change(config);
    return config;
  };
  const auto same = config_of<E>(200, 200, 1e6);
  const auto check = [&](const typename E::Config& config, const std::string& expected) {
    CHECK(line.template operator()<E, E>(same, config, false).empty());
    CHECK(line.template operator()<E, E>(same, config) ==
          "node configuration: engines 1 and 2 share tiers, but one cannot use the other's blocks; expected " +
              expected);
  };
  CHECK(line.template operator()<E, E>(same, same).empty());
  CHECK(line.template operator()<E, Plain>(same, config_of<Plain>(100, 0, 1e6)).empty());
  check(of([](auto& config) { config.geometry.layers = 5; }), "the same model");
  check(of([](auto& config) { config.geometry.layer_weight_bytes = Bytes{1}; }), "the same model");
  check(of([](auto& config) { config.limits.block_tokens = Tokens{32}; }), "the same number of tokens in a block");
  check(of([](auto& config) { config.geometry.layer_block_bytes = Bytes{8192}; }), "the same bytes of KV in a block");
  check(of([](auto& config) { config.tier.capacity = TokenBlocks{100}; }), "the same tiers");
  check(of([](auto& config) { config.lower_tiers.push_back({.capacity = TokenBlocks{1}}); }), "the same tiers");
  check(of([](auto& config) { config.explains_misses = true; }), "the same explains_misses");
  CHECK(line.template operator()<E, Other>(same, config_of<Other>(200, 200, 1e6)).find("the same Feed") !=
        std::string::npos);
  static_assert(!std::is_copy_constructible_v<Node<E, E>>); // the copy's engines would share nothing
}

TEST_CASE("the recorded pulse run: every token that two engines with LMCache's pool found, and one engine alone" *
          sluice_test::needs_shared({"data/traces/pulse.jsonl"})) {
  const Recorded all = read_pulse();
  const std::int64_t ample = 1 << 14;
  {
    using E = Tried<VllmPrefixCaching>;
    using N = Node<E>;
    auto node = N::make({.engines = {config_of<E>(ample, 0, 1e9)}});
    REQUIRE(node);
    run(*node, all.requests, std::vector<std::size_t>(all.requests.size()));
    CHECK(hits_of(node->template engine<0>()).device == reckoned(all, 1)[0].device);
  }
  using E = Tried<With<Lmcache, SavesAnswers>>;
  using N = Node<E, E>;
  auto node =
      N::make({.engines = {config_of<E>(ample, ample, 1e9), config_of<E>(ample, ample, 1e9)}, .shares_tiers = true});
  REQUIRE(node);
  std::vector<std::size_t> in_turn;
  for (std::size_t i = 0; i < all.requests.size(); ++i) in_turn.push_back(i % 2);
  run(*node, all.requests, in_turn);
  const std::vector<Hits> expected = reckoned(all, 2);
  const Hits first = hits_of(node->template engine<0>()), second = hits_of(node->template engine<1>());
  CHECK(first.device == expected[0].device);
  CHECK(first.pool == expected[0].pool);
  CHECK(second.device == expected[1].device);
  CHECK(second.pool == expected[1].pool);
}
