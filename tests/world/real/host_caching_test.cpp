// SPDX-License-Identifier: Apache-2.0
// What an engine asks its Caching policy if a real backend has the tiers, and what it does with the answers.
#include "sluice/engine/caching.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/recorded.hpp"
#include "sluice/world/simulated.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sluice;

namespace host_caching {

/// An engine of an 8B model on a simulated device, behind the interface of real backends.
template <class E>
E engine_on(std::shared_ptr<BackendWorld> world, typename E::caching_type caching = {}) {
  Limits limits;
  limits.batch = 8;
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, limits};
  const auto from = configure<VllmSwap>(server);
  typename E::Config config{.limits = from.limits,
                            .geometry = from.geometry,
                            .device_blocks = from.device_blocks,
                            .host_blocks = from.host_blocks,
                            .cost = from.cost,
                            .backend = Cpu{std::move(world)}};
  config.caching = caching;
  auto engine = E::make(std::move(config));
  REQUIRE(engine);
  return *std::move(engine);
}
std::shared_ptr<BackendWorld> simulated_world() {
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  return world_of(BasicSimulated{configure<VllmSwap>(server).cost});
}

} // namespace host_caching

TEST_CASE("a policy that loads beside the computation ends the run with a sentence, if it loads anything") {
  using E = With<VllmSwap, Cpu, WriteThrough>;
  for (const LoadMode mode : {LoadMode::layerwise, LoadMode::whole, LoadMode::ahead, LoadMode::beside})
    for (const bool found : {false, true}) {
      WriteThrough caching;
      caching.mode = mode;
      E engine = host_caching::engine_on<E>(host_caching::simulated_world(), caching);
      REQUIRE(engine.submit({.arrival = Seconds{0}, .prompt = Tokens{100}, .output = Tokens{2}, .slo = {}}, {},
                            Tokens{found ? 64 : 0}));
      const bool runs = mode != LoadMode::beside || !found;
      while (engine.alive() > 0 && engine.step() == Stepped::ran) {
      }
      CHECK((engine.alive() == 0) == runs);
      CHECK(engine.status().ok() == runs);
      if (runs) continue;
      CHECK(engine.status().error().where.find("WriteThrough") != std::string::npos);
      CHECK(engine.status().error().what ==
            std::string{"reuse() loads by LoadMode::"} + name(mode) + " on a real-time backend");
      CHECK(engine.status().error().expected ==
            "another LoadMode: its host's KV comes before the request computes, or layer by layer");
    }
}

namespace host_caching {

/// Loads half of what there is, and fetches half of what the disk has, in requests of more than 100 tokens.
struct Half : WriteThrough {
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& /*cost*/) const {
    CHECK(view.running.empty());
    CHECK(row.phase == Phase::waiting);
    CHECK(found.only_layerwise);
    if (row.spec.prompt == Tokens{13}) throw std::runtime_error("unlucky");
    if (row.spec.prompt == Tokens{14}) throw std::bad_alloc();
    if (row.spec.prompt <= Tokens{100}) return {};
    Reuse reuse{Tokens{found.below.count() / 2}};
    reuse.fetched = Tokens{found.lower.count() / 2};
    return reuse;
  }
};

} // namespace host_caching

TEST_CASE("a policy that feeds a disk with less than is written runs where there is none") {
  using World = WorldOf<BasicSimulated<Roofline>>;
  struct WithDisk : World {
    using World::World;
    [[nodiscard]] bool has_disk() const override { return disk; }
    bool disk = true;
  };
  using E = With<VllmSwap, Cpu, BasicWriteThrough<Writes::behind, Feed::used_again>>;
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  const auto from = configure<VllmSwap>(server);
  for (const bool disk : {false, true}) {
    const auto world = std::make_shared<WithDisk>(BasicSimulated<Roofline>{from.cost});
    world->disk = disk;
    const auto engine = E::make({.limits = from.limits,
                                 .geometry = from.geometry,
                                 .device_blocks = from.device_blocks,
                                 .host_blocks = from.host_blocks,
                                 .cost = from.cost,
                                 .backend = Cpu{world}});
    CHECK(static_cast<bool>(engine) == !disk);
    if (disk) CHECK(engine.error().what.find("disk") != std::string::npos);
  }
}

TEST_CASE("an engine says before a disk is read how much a request would load") {
  using E = With<VllmSwap, Cpu, host_caching::Half>;
  E engine = host_caching::engine_on<E>(host_caching::simulated_world());
  const auto loads = [&engine](std::int64_t prompt, std::int64_t on_host, std::int64_t on_disk) {
    return engine
        .would_load({.arrival = Seconds{0}, .prompt = Tokens{prompt}, .output = Tokens{2}, .slo = {}},
                    {.below = Tokens{on_host}, .lower = Tokens{on_disk}})
        .count();
  };
  CHECK(loads(200, 0, 160) == 80);
  CHECK(loads(200, 0, 176) == 80); // whole blocks
  CHECK(loads(200, 32, 128) == 96);
  CHECK(loads(90, 16, 64) == 16); // what the host has already, it keeps
  CHECK(engine.alive() == 0);
  CHECK(engine.status().ok());
  using Plain = With<VllmSwap, Cpu>;
  Plain plain = host_caching::engine_on<Plain>(host_caching::simulated_world());
  CHECK(plain.would_load({.arrival = Seconds{0}, .prompt = Tokens{200}, .output = Tokens{2}, .slo = {}},
                         {.below = Tokens{32}, .lower = Tokens{128}}) == Tokens{160});
}

namespace host_caching {

/// Fetches all but waits for a second.
struct Patient : WriteThrough {
  template <class Cost>
  Reuse reuse(const View& /*view*/, const RequestRow& /*row*/, const FoundPrefix& found, const Cost& /*cost*/) const {
    Reuse reuse{found.below};
    reuse.fetched = found.lower;
    reuse.patience = Seconds{1};
    return reuse;
  }
};

} // namespace host_caching

TEST_CASE("of a disk's part of a prefix only what arrives within the policy's patience is read") {
  using E = With<VllmSwap, Cpu, host_caching::Patient>;
  E engine = host_caching::engine_on<E>(host_caching::simulated_world());
  // The records, 10 blocks, arrive one after the other, the first one after `wait` and `each`.
  for (const double wait : {0.0, 0.5, 0.955, 1.0, 59.0})
    for (const double each : {0.0, 0.01, 0.0999, 0.13, 2.0}) {
      CAPTURE(wait);
      CAPTURE(each);
      std::int64_t arrive = 0;
      while (arrive < 10 && wait + each * static_cast<double>(arrive + 1) <= 1) ++arrive;
      FoundPrefix found{.below = Tokens{32}, .lower = Tokens{160}};
      found.lower_wait = Seconds{wait};
      found.lower_time = Seconds{wait + 10 * each};
      CHECK(engine.would_load({.arrival = Seconds{0}, .prompt = Tokens{200}, .output = Tokens{2}, .slo = {}}, found)
                .count() == 32 + 16 * arrive);
    }
}

TEST_CASE("what a policy throws when it is asked before a disk is read ends the run, but lack of memory passes") {
  using E = With<VllmSwap, Cpu, host_caching::Half>;
  E engine = host_caching::engine_on<E>(host_caching::simulated_world());
  const auto loads = [&engine](std::int64_t prompt) {
    return engine.would_load({.arrival = Seconds{0}, .prompt = Tokens{prompt}, .output = Tokens{2}, .slo = {}},
                             {.below = Tokens{16}, .lower = Tokens{16}});
  };
  CHECK_THROWS_AS((void)loads(14), std::bad_alloc);
  CHECK(engine.status().ok());
  CHECK(loads(13) == Tokens{16}); // nothing is read
  CHECK(engine.status().error().line().find("unlucky") != std::string::npos);
  CHECK(engine.status().error().where.find("Half") != std::string::npos);
  CHECK(engine.step() == Stepped::failed);
}

TEST_CASE("a disk is read only if reading and loading takes less time than computing, whatever the host has") {
  const auto spec = [](std::int64_t prompt) {
    return RequestSpec{.arrival = Seconds{0}, .prompt = Tokens{prompt}, .output = Tokens{2}, .slo = {}};
  };
  using E = With<VllmSwap, Cpu, IfFaster<WriteThrough>>;
  E engine = host_caching::engine_on<E>(host_caching::simulated_world());
  using Slos = With<VllmSwap, Cpu, WithinSlos<WriteThrough>>;
  Slos slos = host_caching::engine_on<Slos>(host_caching::simulated_world());
  const View view = engine.view();
  // The same cost model, asked here.
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  const auto cost = configure<VllmSwap>(server).cost;
  int reads = 0, computes = 0;
  for (const std::int64_t on_host : {0, 16, 800, 4'000})
    for (const std::int64_t on_disk : {16, 800, 4'000}) {
      CAPTURE(on_host);
      CAPTURE(on_disk);
      const std::int64_t all = on_host + on_disk;
      const double load_s = load_time(view, cost, Tokens{all}).count();
      const double compute_s = compute_time_of(view, cost, Tokens{all}, Tokens{0}).count();
      for (const double disk_s : {0.0, 0.5 * (compute_s - load_s), 1.01 * (compute_s - load_s), 10.0}) {
        if (disk_s < 0) continue;
        const FoundPrefix found{.below = Tokens{on_host}, .lower = Tokens{on_disk}, .lower_time = Seconds{disk_s}};
        const bool pays = disk_s + load_s < compute_s;
        CHECK(engine.would_load(spec(all + 1), found).count() == (pays ? all : on_host));
        ++(pays ? reads : computes);
        // Nobody else runs: the earliest first token decides.
        if (disk_s == 10.0) CHECK(slos.would_load(spec(all + 1), found).count() == on_host);
      }
    }
  CHECK(reads > 0);
  CHECK(computes > 0);
}

namespace host_caching {

/// A real backend, as far as the engine can tell, which notes what its host is to keep.
class NotingWorld final : public WorldOf<BasicSimulated<Roofline>> {
 public:
  using WorldOf::WorldOf;
  std::optional<Replacement> host_tier_evicts() const override { return evicts; }
  void keep(std::span<const KeptKv> kept) override { noted.insert(noted.end(), kept.begin(), kept.end()); }
  std::optional<Replacement> evicts = Replacement::least_recent;
  std::vector<KeptKv> noted;
};

/// Writes whole hundreds of tokens, and finds the prompt's length to be what a request is worth.
template <class Base>
struct Hundreds : Base {
  Tokens write(const View& /*view*/, const RequestRow& row) const {
    return Tokens{row.context().count() / 100 * 100 + (row.phase == Phase::ended ? 1 : 0)};
  }
  template <class Cost>
  Worth worth(const View& view, const RequestRow& row, const Cost& /*cost*/) const {
    CHECK(row.phase == Phase::ended);
    CHECK(view.now >= row.spec.arrival);
    return {static_cast<double>(row.spec.prompt.count()), Seconds{3}};
  }
};

} // namespace host_caching

TEST_CASE("a recorded backend's host keeps what the engine says, too") {
  using namespace host_caching;
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  auto world = std::make_shared<NotingWorld>(BasicSimulated{configure<VllmSwap>(server).cost});
  ClockRecord record;
  static_assert(KeepsKv<Recorded<Cpu>>);
  Recorded<Cpu> recorded{Cpu{world}, record};
  const KeptKv kept{.slot = Slot{3}, .id = RequestId{5}};
  recorded.keep({&kept, 1});
  CHECK(recorded.host_tier_evicts() == Replacement::least_recent);
  REQUIRE(world->noted.size() == 1);
  CHECK(world->noted[0].id == RequestId{5});
}

namespace host_caching {

/// Must not be asked.
struct Silent : WriteThrough {
  Tokens write(const View& /*view*/, const RequestRow& /*row*/) const {
    FAIL_CHECK("nothing is kept");
    return {};
  }
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& /*row*/, const Cost& /*cost*/) const {
    FAIL_CHECK("nothing is kept");
    return {};
  }
};

} // namespace host_caching

namespace host_caching {

struct FirstTier : WriteThrough {
  static inline Tier own;      // what a test wants
  static inline int scale = 1; // of what the machine has
  static Tier first_tier(Tier host) {
    host.replacement = own.replacement;
    if (own.latency > Seconds{0}) host.latency = own.latency;
    if (own.read_rate < host.read_rate) host.read_rate = own.read_rate;
    host.capacity = TokenBlocks{host.capacity.count() * scale};
    host.latency = host.latency * static_cast<double>(scale);
    return host;
  }
};

} // namespace host_caching

TEST_CASE("an engine refuses a machine whose host tier is not the first tier that its policy wants") {
  using namespace host_caching;
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  const auto from = configure<VllmSwap>(server);
  auto world = std::make_shared<NotingWorld>(BasicSimulated{from.cost});
  using E = With<VllmSwap, Cpu, FirstTier>;
  const auto make = [&](std::optional<Replacement> machine, const Tier& wanted) {
    world->evicts = machine;
    FirstTier::own = wanted;
    const auto engine = E::make({.limits = from.limits,
                                 .geometry = from.geometry,
                                 .device_blocks = from.device_blocks,
                                 .host_blocks = from.host_blocks,
                                 .cost = from.cost,
                                 .backend = Cpu{world}});
    return engine ? std::string{} : engine.error().line();
  };
  constexpr Replacement all[] = {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive,
                                 Replacement::least_worth};
  for (const Replacement machine : all)
    for (const Replacement wanted : all)
      CHECK(make(machine, {.replacement = wanted}) ==
            (machine == wanted
                 ? std::string{}
                 : "engine configuration: the machine's host tier evicts by " + std::string{name(machine)} +
                       ", and its Caching policy by " + std::string{name(wanted)} +
                       "; expected MachineSetup::tier_evicts as the policy's first_tier() has it"));
  CHECK(make(std::nullopt, {.replacement = Replacement::adaptive}).empty()); // it keeps nothing
  for (const Tier& pool : {Tier{.read_rate = BytesPerSecond{25e9}}, Tier{.latency = Seconds{1e-5}}})
    CHECK(make(Replacement::least_recent, pool) ==
          "engine configuration: the Caching policy's first_tier() is no host memory behind the link, which a "
          "machine's is; expected one that changes no rate, latency or capacity");
  FirstTier::scale = 2;
  CHECK(make(Replacement::least_recent, {}).find("is no host memory behind the link") != std::string::npos);
  FirstTier::scale = 1;
}

TEST_CASE("where the backend's host keeps nothing, no policy says what it keeps") {
  using namespace host_caching;
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  auto world = std::make_shared<NotingWorld>(BasicSimulated{configure<VllmSwap>(server).cost});
  world->evicts = std::nullopt;
  using E = With<VllmSwap, Cpu, Silent>;
  E engine = engine_on<E>(world);
  const RequestSpec spec{.arrival = Seconds{0}, .prompt = Tokens{98}, .output = Tokens{40}, .slo = {}};
  REQUIRE(engine.submit(spec));
  const auto leaves = engine.submit(spec);
  REQUIRE(leaves);
  for (int step = 0; step < 20; ++step) REQUIRE(engine.step() == Stepped::ran);
  REQUIRE(engine.cancel(*leaves).ok());
  while (engine.alive() > 0) REQUIRE(engine.step() == Stepped::ran);
  CHECK(world->noted.empty());
}

TEST_CASE_TEMPLATE(
    "Caching says after each iteration, at a request's end and when it is cancelled, what the host keeps", Base,
    WriteThrough, BasicWriteThrough<Writes::evicted>) {
  using namespace host_caching;
  constexpr bool asks = std::is_same_v<Base, WriteThrough>;
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  auto world = std::make_shared<NotingWorld>(BasicSimulated{configure<VllmSwap>(server).cost});
  using E = With<VllmSwap, Cpu, Hundreds<Base>>;
  E engine = engine_on<E>(world);
  const auto submit = [&](std::int64_t prompt, std::int64_t output, std::uint32_t session) {
    RequestSpec spec{.arrival = Seconds{0}, .prompt = Tokens{prompt}, .output = Tokens{output}, .slo = {}};
    spec.session = session;
    const auto id = engine.submit(spec);
    REQUIRE(id);
    return *id;
  };
  const RequestId ends = submit(98, 4, 5), leaves = submit(250, 100, 6);
  while (engine.alive() > 1) REQUIRE(engine.step() == Stepped::ran);
  REQUIRE(engine.cancel(leaves).ok());
  CHECK(engine.alive() == 0);
  std::int64_t ended = 0;
  std::vector<std::int64_t> running; // what the first request said while it ran
  for (const KeptKv& kept : world->noted) {
    const bool first = kept.id == ends;
    CHECK((first || kept.id == leaves));
    if (kept.session != 0) { // only the last word says it
      ++ended;
      CHECK(kept.session == (first ? 5 : 6));
      CHECK(kept.worth == (first ? 98 : 250));
      CHECK(kept.pins_for == Seconds{3});
      CHECK_FALSE(kept.behind);
      CHECK(kept.tokens == (!asks ? KeptKv{}.tokens : first ? Tokens{101} : Tokens{201}));
    } else {
      CHECK(asks); // what is written when a request ends, no policy is asked before
      CHECK(kept.behind);
      CHECK(kept.worth == 0);
      if (first) running.push_back(kept.tokens.count());
    }
  }
  CHECK(ended == 2);
  if (asks) CHECK(running == std::vector<std::int64_t>{0, 100, 100, 100});
}
