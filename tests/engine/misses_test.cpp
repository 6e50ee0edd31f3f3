// SPDX-License-Identifier: Apache-2.0
// Why a prefix is not found, and how much could have been found, for engines with tiers.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/report/observer/findable.hpp"
#include "sluice/workload/session_generator.hpp"

#include "engine/small_tiers.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// Not by `using`: files of a program compile together, and some have functions of these names.
namespace sluice::testing::tiers {

namespace {

/// The causes of each request's misses.
struct Causes {
  using role = roles::Observer;
  using hears = Events<events::Missed>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::map<RequestId, MissCauses> of;
  };
  void on(State& state, const events::Missed& event) const { state.of[event.row.id] += event.causes; }
};

/// What a run's requests looked up and found, in the order of its events.
struct MissNotes final : EventListener {
  std::map<RequestId, std::vector<BlockKey>> keys;
  std::map<RequestId, MissCauses> misses;
  std::map<RequestId, Tokens> found;
  std::map<RequestId, std::int64_t> seen; ///< blocks of a prompt that requests before it have had
  std::set<BlockKey> known;
  Findable::State findable;

  void submitted(RequestId id, const RequestSpec& spec, std::span<const BlockKey> of) {
    keys[id].assign(of.begin(), of.end());
    findable.submitted(id, spec, of, Tokens{16});
  }
  void hear(const AnyEvent& event) override {
    tell(Findable{}, findable, event);
    if (const auto* missed = event.get<events::Missed>()) misses[missed->row.id] += missed->causes;
    if (const auto* ended = event.get<events::Ended>()) {
      found[ended->row.id] = ended->row.found;
      learn(ended->row.id, ended->row.computed);
    }
    if (const auto* iterated = event.get<events::Iterated>())
      for (const Claim& claim : iterated->record.batch) {
        const RequestRow& row = iterated->record.rows[index(claim.slot)];
        if (seen.count(row.id) == 0) join(row);
      }
  }
  void join(const RequestRow& row) {
    const std::vector<BlockKey>& of = keys[row.id];
    std::int64_t& count = seen[row.id];
    while (count < (row.spec.prompt.count() - 1) / 16 && known.count(of[static_cast<std::size_t>(count)]) > 0) ++count;
    learn(row.id, row.spec.prompt);
  }
  void learn(RequestId id, Tokens tokens) {
    const std::vector<BlockKey>& of = keys[id];
    const auto full = static_cast<std::size_t>(tokens.count() / 16);
    known.insert(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(std::min(of.size(), full)));
  }
};

/// An engine whose driver notes what it submits.
template <class E>
struct MissNoted : E {
  MissNoted(E&& engine, MissNotes& of) : E(std::move(engine)), notes(of) {}
  Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> keys) {
    Expected<RequestId> id = E::submit(spec, keys);
    if (id) notes.submitted(*id, spec, keys);
    return id;
  }
  MissNotes& notes;
};

template <class E>
typename E::Config explained(typename E::Config config) {
  config.explains_misses = true;
  return config;
}

/// The causes of the last request's misses.
template <class System>
MissCauses last_misses(const std::vector<KeyedRequest>& requests, std::int64_t host, const SmallCost& cost,
                       std::vector<Tier> lower = {}) {
  using E = Tried<System, Causes>;
  E engine = engine_of<E>(explained<E>(config_of<E>(40, host, cost, std::move(lower))));
  run(engine, requests);
  const auto& causes = engine.template observed<Causes>().of;
  const auto last = causes.find(static_cast<RequestId>(requests.size() - 1));
  for (const auto& [id, of] : causes)
    if (id != static_cast<RequestId>(requests.size() - 1)) CHECK(of.all() == Tokens{0}); // all others are new
  return last == causes.end() ? MissCauses{} : last->second;
}

} // namespace

TEST_CASE("a miss has a cause: never written, evicted, late or cut") {
  const std::vector<KeyedRequest> requests = again_after_others(480);
  const auto all = [](const MissCauses& causes) {
    return std::vector<std::int64_t>{causes.unwritten.count(), causes.evicted.count(), causes.late.count(),
                                     causes.cut.count()};
  };
  using Numbers = std::vector<std::int64_t>;
  const SmallCost fast = with_rate(1e9), slow = with_rate(4e4);
  CHECK(all(last_misses<VllmOffload>(requests, 1000, fast)) == Numbers{0, 0, 0, 0});
  CHECK(all(last_misses<Continuum>(requests, 1000, fast)) == Numbers{480, 0, 0, 0});
  CHECK(all(last_misses<VllmOffload>(requests, 50, fast)) == Numbers{0, 480, 0, 0});
  CHECK(all(last_misses<HiCacheIfFaster>(requests, 1000, slow)) == Numbers{0, 0, 0, 480});
  CHECK(all(last_misses<Lmcache>(requests, 1000, fast)) == Numbers{224, 0, 0, 0}); // 480 is no whole chunk
  std::vector<KeyedRequest> at_once{request(0, 0, 1, 480, 20)};
  for (std::uint64_t i = 1; i <= 4; ++i) at_once.push_back(request(0.5, i, 1 + i, 300, 20)); // no pause between
  at_once.push_back(request(0.6, 9, 1, 480, 20));
  CHECK(all(last_misses<HiCache>(at_once, 1000, with_rate(1e3))) == Numbers{0, 0, 480, 0});
  // Two requests join at once: one could have waited for what the other computes.
  CHECK(all(last_misses<HiCache>({request(0, 0, 1, 96, 4), request(0, 1, 1, 96, 4)}, 1000, fast)) ==
        Numbers{0, 0, 96, 0});
  // A fetch that takes longer than HiCache has patience for brings a part.
  const Tier ssd{.capacity = TokenBlocks{1000}, .read_rate = BytesPerSecond{30.0 * layers * 4096 / 2}};
  const MissCauses part = last_misses<HiCache>(again_after_others(480, 8), 50, fast, {ssd});
  CHECK(part.late > Tokens{100});
  CHECK(all(part) == Numbers{0, 0, part.late.count(), 0});
}

TEST_CASE("misses and what is found add up to what requests before have had, and no run finds more than is possible") {
  std::int64_t found = 0, below_all = 0;
  MissCauses causes;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    const auto check = [&]<class System>(std::type_identity<System>) {
      const auto text = "sessions:rate=2,sessions=12,turns=uniform(1,5),systems=2,system=40,first=uniform(50,200),"
                        "growth=uniform(20,90),output=uniform(1,40),user=lognormal(2,1),longest=600";
      const auto device = static_cast<std::int64_t>(45 + random.below(60));
      const auto host = static_cast<std::int64_t>(random.below(200));
      const double rate = 1e6 * std::pow(10, random.below(4));
      const std::vector<Tier> lower = lower_tiers(random);
      MissNotes notes;
      using E = With<System, SmallCost, BasicSimulated<SmallCost>, AnyObserver<false>>;
      typename E::Config config = config_of<E>(device, host, with_rate(rate), lower);
      config.observers = std::tuple{AnyObserver<false>{&notes}};
      config.explains_misses = true;
      MissNoted<E> engine(engine_of<E>(std::move(config)), notes);
      SessionGenerator sessions{*parse_sessions(text), seed};
      REQUIRE(simulate(engine, sessions));
      Tokens prompts{0}, all{0};
      for (const Findable::Use& use : notes.findable.uses) prompts += use.prompt;
      for (const auto& [id, tokens] : notes.found) {
        all += tokens;
        // Without tiers nobody explains.
        if (Caches<typename E::caching_type>) CHECK(tokens + notes.misses[id].all() == Tokens{16 * notes.seen[id]});
        causes += notes.misses[id];
      }
      std::int64_t memory = device + (Caches<typename E::caching_type> ? host : 0);
      for (const Tier& tier : lower) memory += Caches<typename E::caching_type> ? tier.capacity.count() : 0;
      const double share = static_cast<double>(all.count()) / static_cast<double>(prompts.count());
      const double possible = notes.findable.share(TokenBlocks{memory}, Tokens{16});
      const double unlimited = notes.findable.share(TokenBlocks{100'000}, Tokens{16});
      CHECK(share <= possible + 1e-12);
      CHECK(possible <= unlimited);
      CHECK(notes.findable.share(TokenBlocks{0}, Tokens{16}) <= possible);
      found += all.count();
      below_all += possible < unlimited ? 1 : 0;
    };
    check(std::type_identity<VllmPrefixCaching>{});
    check(std::type_identity<VllmOffload>{});
    check(std::type_identity<HiCache>{});
    check(std::type_identity<HiCacheBack>{});
    check(std::type_identity<HiCacheIfFaster>{});
    check(std::type_identity<HiCacheWithinSlos>{});
    check(std::type_identity<OrbitFlowCached>{});
    check(std::type_identity<Kvbm>{});
    check(std::type_identity<MooncakeStore>{});
    check(std::type_identity<Cake>{});
    check(std::type_identity<CachedAttention>{});
    check(std::type_identity<AdaptiveOffload>{});
    check(std::type_identity<Continuum>{});
  }
  CHECK(found > 10'000);
  CHECK(below_all > 10);
  CHECK(causes.unwritten > Tokens{100});
  CHECK(causes.evicted > Tokens{1000});
  CHECK(causes.late > Tokens{100});
  CHECK(causes.cut > Tokens{100});
}

TEST_CASE("what a cancelled request has not computed is no miss of a later one") {
  using E = Tried<HiCache, Causes>;
  E engine = engine_of<E>(explained<E>(config_of<E>(100, 1000)));
  const KeyedRequest one = request(0, 0, 1, 480, 20);
  const Expected<RequestId> id = engine.submit(one.spec, one.keys);
  REQUIRE(id);
  REQUIRE(engine.step() == Stepped::ran); // 256 of 500 tokens
  REQUIRE(engine.cancel(*id));
  engine.idle_until(Seconds{100});
  REQUIRE(engine.submit(one.spec, one.keys));
  while (engine.step() == Stepped::ran) continue;
  CHECK(engine.observed<Summary>().requests.back().found == Tokens{256});
  CHECK(engine.observed<Causes>().of.empty());
}

TEST_CASE("requests one after another on ample memory find all that is possible") {
  MissNotes notes;
  using E = With<VllmPrefixCaching, SmallCost, BasicSimulated<SmallCost>, AnyObserver<false>>;
  typename E::Config config = config_of<E>(1000, 0);
  config.observers = std::tuple{AnyObserver<false>{&notes}};
  MissNoted<E> engine(engine_of<E>(std::move(config)), notes);
  for (const KeyedRequest& one : again_after_others(480)) {
    engine.idle_until(one.spec.arrival);
    REQUIRE(engine.submit(one.spec, one.keys));
    while (engine.step() == Stepped::ran) continue;
  }
  Tokens found{0}, prompts{0};
  for (const auto& [id, tokens] : notes.found) found += tokens;
  for (const Findable::Use& use : notes.findable.uses) prompts += use.prompt;
  CHECK(found == Tokens{480});
  CHECK(notes.findable.share(TokenBlocks{1000}, Tokens{16}) ==
        static_cast<double>(found.count()) / static_cast<double>(prompts.count()));
  CHECK(notes.findable.share(TokenBlocks{10}, Tokens{16}) ==
        doctest::Approx(160.0 / static_cast<double>(prompts.count())));
}

} // namespace sluice::testing::tiers
