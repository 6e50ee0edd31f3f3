// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/scorpio.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/admission/priority_first.hpp"
#include "sluice/serve/engine_thread.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/real/paced.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include "serve/metrics_text.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace sluice;
using namespace std::chrono_literals;

namespace {

/// Keeps events by generation, and waits for a condition on them: five minutes, which only a failure takes.
class Told final : public GenerationListener {
 public:
  void happened(std::vector<GenerationEvent> events) override {
    const std::lock_guard lock{mutex_};
    for (GenerationEvent& event : events) of_[event.id].push_back(std::move(event));
    changed_.notify_all();
  }
  template <class Holds>
  bool wait(Holds&& holds) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 300s, [&] { return holds(of_); });
  }
  /// While the lock is held, the engine's thread stops at its next event.
  [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock{mutex_}; }
  std::map<GenerationId, std::vector<GenerationEvent>> all() {
    const std::lock_guard lock{mutex_};
    return of_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<GenerationId, std::vector<GenerationEvent>> of_;
};

using Kind = GenerationEvent::Kind;
using Of = std::map<GenerationId, std::vector<GenerationEvent>>;

bool is_over(const std::vector<GenerationEvent>& events) {
  return !events.empty() && events.back().kind != Kind::accepted && events.back().kind != Kind::tokens;
}
std::vector<std::int32_t> tokens_of(const std::vector<GenerationEvent>& events) {
  std::vector<std::int32_t> all;
  for (const GenerationEvent& event : events) all.insert(all.end(), event.tokens.begin(), event.tokens.end());
  return all;
}

std::vector<std::int32_t> hundred() {
  std::vector<std::int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

/// A fast device, so that tests are short, with memory for so many blocks.
Server simulated_server(std::int64_t kv_blocks, int batch = 8) {
  Device device = *find_device("h100");
  device.half_precision_peak = FlopsPerSecond{device.half_precision_peak.count() * 1e3};
  device.memory_bandwidth = BytesPerSecond{device.memory_bandwidth.count() * 1e3};
  Limits limits;
  limits.batch = batch;
  limits.max_context = Tokens{4096};
  return {llama3_8b(), device, TokenBlocks{kv_blocks}, limits};
}

Generation generation(int prompt, std::int64_t most, std::uint64_t seed = 1) {
  Generation one;
  one.prompt.assign(static_cast<std::size_t>(prompt), 5);
  one.max_tokens = most;
  one.sampling.seed = seed;
  return one;
}

template <class E, class... Gates>
struct RunningThread {
  explicit RunningThread(const Server& server, Gates... gates) : tokens(hundred()), thread(tokens, told, gates...) {
    const Status started = thread.start([&](EventListener& feed) {
      typename E::Config config = configure<E>(server);
      config.observers = std::tuple{GenerationFeed{&feed}};
      return config;
    });
    REQUIRE(started.ok());
  }
  DrawnTokens tokens;
  Told told;
  EngineThread<E, Gates...> thread; // last: its thread ends before the members it uses
};

using Simulated8b = With<OrbitFlow, GenerationFeed>;

/// A gate that records the engine's memory use when a newcomer with `sequence` 7 comes, and refuses it.
struct Probe {
  struct Seen {
    std::int64_t waiting = 0, prefill = 0, decode = 0, preempted = 0, device = 0, host = 0;
    bool operator==(const Seen&) const = default;
  };

  template <class E>
  GateAnswer answer(const Generation& newcomer, const Outlook<E>& outlook) const {
    if (newcomer.sequence != 7) return {};
    const View view = outlook.engine().view();
    Seen now{.waiting = view.waiting,
             .preempted = static_cast<std::int64_t>(view.preempted.size()),
             .device = view.ledger->device().used().count(),
             .host = view.ledger->host().used().count()};
    for (const Slot slot : view.running) (view.row(slot).generated.count() == 0 ? now.prefill : now.decode) += 1;
    seen->push_back(now);
    GateAnswer answer;
    answer.admit = false;
    return answer;
  }
  std::vector<Seen>* seen; // written by the engine's thread until it has sent the refusal
};

/// Drawn tokens with a disk, whose reads for generations with `sequence` 7 end when the test says so.
class DiskTokens final : public TokenSource {
 public:
  DiskTokens() : drawn_(hundred()) {}
  std::optional<std::uint64_t> seek(const Generation& generation,
                                    const std::function<Tokens(const FoundPrefix&)>& would_load) override {
    CHECK(would_load({.below = Tokens{16}, .lower = Tokens{32}, .lower_time = Seconds{1e9}}) ==
          Tokens{48}); // without a Caching policy everything is loaded
    searches[++begun_] = generation.sequence != 7;
    return begun_;
  }
  bool sought(std::uint64_t search, const std::function<Tokens(const FoundPrefix&)>& /*would_load*/) override {
    return searches.at(search);
  }
  Tokens find(std::uint64_t search) override {
    CHECK(searches.at(search));
    searches.erase(search);
    return Tokens{16};
  }
  void leave_search(std::uint64_t search) override { searches.erase(search); }
  void enter(RequestId id, const Generation& generation) override { drawn_.enter(id, generation); }
  std::span<const std::int32_t> generated(RequestId id, std::size_t count) override {
    return drawn_.generated(id, count);
  }
  std::span<const std::vector<TokenChance>> chances(RequestId id) override { return drawn_.chances(id); }
  bool stopped(RequestId id) override { return drawn_.stopped(id); }
  void forget(RequestId id) override { drawn_.forget(id); }

  std::map<std::uint64_t, bool> searches; ///< that have not ended: whether they are over

 private:
  DrawnTokens drawn_;
  std::uint64_t begun_ = 0;
};

} // namespace

TEST_CASE("a generation that waits for a disk is submitted when it has answered, and others run meanwhile") {
  DiskTokens tokens;
  Told told;
  EngineLoop<Simulated8b> loop(tokens, told);
  const Server server = simulated_server(1000);
  REQUIRE(loop.make([&](EventListener& feed) {
                Simulated8b::Config config = configure<Simulated8b>(server);
                config.observers = std::tuple{GenerationFeed{&feed}};
                return config;
              })
              .ok());
  const auto run = [&] {
    while (loop.step() == Stepped::ran) loop.tell(loop.engine().now());
    loop.tell(loop.engine().now());
  };
  Generation slow = generation(100, 5);
  slow.sequence = 7;
  for (std::uint64_t id = 1; id <= 3; ++id) loop.enter(GenerationId{id}, slow);
  loop.enter(GenerationId{4}, generation(100, 5));
  run();
  CHECK(told.all().size() == 1);
  CHECK(is_over(told.all().at(GenerationId{4})));
  CHECK(told.all().at(GenerationId{4})[1].cached == 16);
  CHECK(tokens.searches.size() == 3);
  loop.leave(GenerationId{2}); // its client has left
  CHECK(tokens.searches.size() == 2);
  tokens.searches.begin()->second = true;
  run();
  CHECK(tokens_of(told.all().at(GenerationId{1})).size() == 5);
  CHECK(told.all().at(GenerationId{1})[1].cached == 16);
  CHECK(told.all().count(GenerationId{2}) == 0);
  CHECK(told.all().count(GenerationId{3}) == 0);
  loop.fail(Error{ErrorCode::bad_input, "the device", "it has failed", "one that works"});
  loop.tell(loop.engine().now());
  CHECK(told.all().at(GenerationId{3}).front().kind == Kind::failed);
  CHECK(tokens.searches.empty());
}

namespace {

/// Holds newcomers while the engine is not empty; of those that are held the last is asked for first.
struct HoldsWhileBusy {
  template <class E>
  GateAnswer answer(const Generation& newcomer, const Outlook<E>& outlook) const {
    GateAnswer answer;
    if (outlook.engine().alive() == 0) return answer;
    answer.admit = false;
    answer.hold = Hold{.order = {.rank = -static_cast<double>(newcomer.sequence)}, .until = Seconds{1e9}};
    return answer;
  }
};

} // namespace

TEST_CASE("EngineLoop asks again for generations that a gate holds, in its order; they wait as in a queue") {
  DrawnTokens tokens(hundred());
  Told told;
  EngineLoop<Simulated8b, QueueLimit, HoldsWhileBusy> loop(tokens, told, QueueLimit{3}, {});
  REQUIRE(loop.make([&](EventListener& feed) {
                Simulated8b::Config config = configure<Simulated8b>(simulated_server(1000));
                config.observers = std::tuple{GenerationFeed{&feed}};
                return config;
              })
              .ok());
  const auto enter = [&](std::uint64_t id) {
    Generation one = generation(100, 5);
    one.sequence = id;
    loop.enter(GenerationId{id}, one);
  };
  std::vector<std::uint64_t> order; // in which they ended
  const auto step = [&] {
    const bool ran = loop.step() == Stepped::ran;
    loop.tell(loop.engine().now());
    for (const auto& [id, events] : told.all())
      if (events.back().kind == Kind::ended &&
          std::count(order.begin(), order.end(), static_cast<std::uint64_t>(id)) == 0)
        order.push_back(static_cast<std::uint64_t>(id));
    return ran;
  };
  enter(1);
  CHECK(step());
  for (std::uint64_t id = 2; id <= 5; ++id) enter(id);
  CHECK(step());
  CHECK(told.all().at(GenerationId{5}).front().error.code == "queue_full"); // three are held
  CHECK(told.all().size() == 2);                                            // which have been told nothing
  const std::string metrics = sluice::testing::metrics_text(loop.figures());
  CHECK(metrics.find("vllm:num_requests_waiting 3\n") != std::string::npos);
  CHECK(metrics.find("by_reason{reason=\"gate\"} 3\n") != std::string::npos);
  CHECK(metrics.find("by_reason{reason=\"capacity\"} 0\n") != std::string::npos);
  loop.leave(GenerationId{3});
  while (step()) {
  }
  CHECK(order == std::vector<std::uint64_t>{1, 4, 2});
  CHECK(told.all().count(GenerationId{3}) == 0);
  enter(6);
  enter(7);
  loop.fail(Error{ErrorCode::bad_input, "the device", "it has failed", "one that works"});
  loop.tell(loop.engine().now());
  CHECK(told.all().at(GenerationId{7}).front().kind == Kind::failed);
}

namespace {

/// Drawn tokens with a tier. A request's KV is that which the last search has found, as TokenSource says.
class TierTokens final : public TokenSource {
 public:
  TierTokens() : drawn_(hundred()) {}
  std::optional<std::uint64_t> seek(const Generation& generation,
                                    const std::function<Tokens(const FoundPrefix&)>& would_load) override {
    disk_asked += would_load({.below = Tokens{16}, .lower = Tokens{32}, .lower_time = Seconds{0}}) > Tokens{16} ? 1 : 0;
    searches_[++begun_] = generation;
    return begun_;
  }
  Tokens find(std::uint64_t search) override {
    last_ = searches_.at(search);
    searches_.erase(search);
    return Tokens{16 * ++found_}; // other requests have written to the tier meanwhile
  }
  void leave_search(std::uint64_t search) override { searches_.erase(search); }
  void enter(RequestId id, const Generation& generation) override {
    CHECK(last_.prompt == generation.prompt);
    CHECK(last_.salt == generation.salt);
    CHECK(generation.on_host == Tokens{16 * found_});
    last_ = {};
    entered.push_back(generation.salt);
    drawn_.enter(id, generation);
  }
  std::span<const std::int32_t> generated(RequestId id, std::size_t count) override {
    return drawn_.generated(id, count);
  }
  std::span<const std::vector<TokenChance>> chances(RequestId id) override { return drawn_.chances(id); }
  bool stopped(RequestId id) override { return drawn_.stopped(id); }
  void forget(RequestId id) override { drawn_.forget(id); }

  std::vector<std::uint64_t> entered; ///< salts
  int disk_asked = 0;                 ///< searches that wanted records

 private:
  DrawnTokens drawn_;
  std::uint64_t begun_ = 0;
  std::int64_t found_ = 0;
  std::map<std::uint64_t, Generation> searches_;
  Generation last_; ///< of the last `find`
};

} // namespace

TEST_CASE("EngineLoop looks up the prompt of a generation that was held again, and it gets no other prompt's KV") {
  TierTokens tokens;
  Told told;
  EngineLoop<Simulated8b, HoldsWhileBusy> loop(tokens, told, {});
  REQUIRE(loop.make([&](EventListener& feed) {
                Simulated8b::Config config = configure<Simulated8b>(simulated_server(1000));
                config.observers = std::tuple{GenerationFeed{&feed}};
                return config;
              })
              .ok());
  const auto enter = [&](std::uint64_t id) {
    Generation one = generation(200, 5);
    one.prompt.front() = static_cast<std::int32_t>(id);
    one.salt = one.sequence = id; // of another key
    loop.enter(GenerationId{id}, one);
  };
  enter(1);
  CHECK(loop.step() == Stepped::ran);
  for (const std::uint64_t id : {2U, 3U, 4U}) enter(id);
  while (loop.step() == Stepped::ran) {
  }
  loop.tell(loop.engine().now());
  CHECK(tokens.entered == std::vector<std::uint64_t>{1, 4, 3, 2});
  CHECK(tokens.disk_asked == 4); // a held one does not wait for the disk again
  for (const std::uint64_t id : {1U, 2U, 3U, 4U}) CHECK(tokens_of(told.all().at(GenerationId{id})).size() == 5);
}

namespace {

/// Holds newcomers while the engine is not empty, for three seconds.
struct HoldsThreeSeconds {
  template <class E>
  GateAnswer answer(const Generation& /*newcomer*/, const Outlook<E>& outlook) const {
    GateAnswer answer;
    if (outlook.engine().alive() == 0 || outlook.engine().now() >= outlook.arrival() + Seconds{3}) return answer;
    answer.admit = false;
    answer.hold = Hold{.until = outlook.arrival() + Seconds{3}};
    return answer;
  }
};

} // namespace

TEST_CASE("EngineLoop is not idle while a gate holds somebody and the engine is empty, and says when it must ask") {
  using E = With<Scorpio, GenerationFeed>;
  DrawnTokens tokens(hundred());
  Told told;
  EngineLoop<E, HoldsThreeSeconds> loop(tokens, told, {});
  REQUIRE(loop.make([&](EventListener& feed) {
                E::Config config = configure<E>(simulated_server(1000));
                config.observers = std::tuple{GenerationFeed{&feed}};
                return config;
              })
              .ok());
  loop.engine().idle_until(Seconds{10});
  CHECK(loop.next_due() == never_due);
  Generation late = generation(100, 5);
  late.slo = {Seconds{0.001}, Seconds{1}}; // its deadline has passed: the step refuses it
  loop.enter(GenerationId{1}, late, Seconds{1});
  loop.enter(GenerationId{2}, generation(100, 5));
  CHECK(loop.next_due() == Seconds{13});
  CHECK(loop.step() == Stepped::ran);
  CHECK(loop.next_due() == never_due);
  while (loop.step() == Stepped::ran) {
  }
  loop.tell(loop.engine().now());
  CHECK(told.all().at(GenerationId{1}).back().kind == Kind::refused);
  CHECK(tokens_of(told.all().at(GenerationId{2})).size() == 5);
}

TEST_CASE("EngineLoop reports when the engine got a request that a gate has held: a replay submits it then") {
  struct Heard final : ServedListener {
    void over(const ServedRequest& request) override { all.push_back(request); }
    std::vector<ServedRequest> all;
  } heard;
  DrawnTokens tokens(hundred());
  Told told;
  EngineLoop<Simulated8b, HoldsWhileBusy> loop(tokens, told, {});
  REQUIRE(loop.make([&](EventListener& feed) {
                Simulated8b::Config config = configure<Simulated8b>(simulated_server(1000));
                config.observers = std::tuple{GenerationFeed{&feed}};
                return config;
              })
              .ok());
  loop.figures().tell(&heard);
  loop.enter(GenerationId{1}, generation(100, 5));
  CHECK(loop.step() == Stepped::ran);
  const Seconds arrived = loop.engine().now();
  loop.enter(GenerationId{2}, generation(100, 5));
  while (loop.step() == Stepped::ran) {
  }
  REQUIRE(heard.all.size() == 2);
  CHECK(heard.all[0].submitted < Seconds{0}); // on arrival
  CHECK(heard.all[1].spec.arrival == arrived);
  CHECK(heard.all[1].submitted == heard.all[0].ended);
}

TEST_CASE("EngineThread delivers every generation's tokens in order and once, and its finish reason") {
  RunningThread<Simulated8b> running(simulated_server(1000));
  for (std::uint64_t i = 0; i < 40; ++i)
    running.thread.submit(GenerationId{i}, generation(10 + static_cast<int>(i), 1 + static_cast<std::int64_t>(i), i));
  CHECK(running.told.wait([](const Of& of) {
    int over = 0;
    for (const auto& [id, events] : of) over += is_over(events) ? 1 : 0;
    return over == 40;
  }));
  for (const auto& [id, events] : running.told.all()) {
    const auto i = static_cast<std::uint64_t>(id);
    CHECK(events.front().kind == Kind::accepted);
    CHECK(events.back().kind == Kind::ended);
    CHECK(events.back().reason == FinishReason::length);
    DrawnTokens again(hundred());
    again.enter(RequestId{0}, generation(1, 1, i));
    const auto expected = again.generated(RequestId{0}, i + 1);
    CHECK(tokens_of(events) == std::vector<std::int32_t>(expected.begin(), expected.end()));
  }
}

TEST_CASE(
    "EngineThread cancels generations in every state; they have no later events, and the other generations continue") {
  RunningThread<Simulated8b> running(simulated_server(200, 2));
  for (std::uint64_t i = 0; i < 30; ++i) running.thread.submit(GenerationId{i}, generation(100, 50, i));
  CHECK(running.told.wait(
      [](const Of& of) { return of.count(GenerationId{0}) != 0 && of.at(GenerationId{0}).size() > 3; }));
  for (std::uint64_t i = 0; i < 30; i += 2) running.thread.cancel(GenerationId{i});
  running.thread.cancel(GenerationId{999});
  CHECK(running.told.wait([](const Of& of) {
    for (std::uint64_t i = 1; i < 30; i += 2)
      if (of.count(GenerationId{i}) == 0 || !is_over(of.at(GenerationId{i}))) return false;
    return true;
  }));
  for (std::uint64_t i = 1; i < 30; i += 2) CHECK(tokens_of(running.told.all().at(GenerationId{i})).size() == 50);
  const std::string metrics = sluice::testing::metrics_text(running.thread);
  CHECK(metrics.find("vllm:num_requests_running 0\n") != std::string::npos);
  CHECK(metrics.find("vllm:kv_cache_usage_perc 0\n") != std::string::npos);
}

TEST_CASE("EngineThread frees a cancelled generation's memory, in every phase, before it asks gates about a newcomer") {
  std::vector<Probe::Seen> seen;
  Server small = simulated_server(40, 8);
  small.limits.batch_tokens = Tokens{64}; // a prompt takes several steps
  RunningThread<With<VllmSwap, GenerationFeed>, Probe> running(small, Probe{&seen});
  std::uint64_t next = 0;
  const auto probe = [&] {
    Generation one = generation(1, 1);
    one.sequence = 7;
    const GenerationId id{next++};
    running.thread.submit(id, std::move(one));
    return id;
  };
  Probe::Seen covered;
  for (int round = 0; round < 200 && (covered.waiting == 0 || covered.prefill == 0 || covered.decode == 0 ||
                                      covered.preempted == 0 || covered.host == 0);
       ++round) {
    std::vector<GenerationId> clients;
    for (std::uint64_t i = 0; i < 12; ++i) {
      clients.push_back(GenerationId{next++});
      running.thread.submit(clients.back(), generation(20 + 10 * static_cast<int>(i), 300, i));
    }
    // Waits for the oldest one's progress, not for a time: the others' progress is then independent of a clock.
    const std::size_t least = static_cast<std::size_t>(round * 13 % 160);
    REQUIRE(running.told.wait(
        [&](const Of& of) { return least == 0 || (of.count(clients[0]) != 0 && of.at(clients[0]).size() >= least); }));
    probe();
    for (const GenerationId id : clients) running.thread.cancel(id);
    const GenerationId last = probe();
    REQUIRE(running.told.wait([&](const Of& of) { return of.count(last) != 0; }));
    REQUIRE(seen.size() == 2 * static_cast<std::size_t>(round) + 2);
    const Probe::Seen before = seen[seen.size() - 2];
    covered.waiting += before.waiting;
    covered.prefill += before.prefill;
    covered.decode += before.decode;
    covered.preempted += before.preempted;
    covered.host += before.host;
    CHECK(seen.back() == Probe::Seen{});
  }
  CHECK(covered.waiting > 0);
  CHECK(covered.prefill > 0);
  CHECK(covered.decode > 0);
  CHECK(covered.preempted > 0);
  CHECK(covered.host > 0);
}

TEST_CASE("EngineThread refuses requests that can never fit or that a gate refuses, with the reason") {
  RunningThread<Simulated8b, QueueLimit> running(simulated_server(100, 1), QueueLimit{3});
  running.thread.submit(GenerationId{100}, generation(5000, 10));
  CHECK(running.told.wait([](const Of& of) { return of.count(GenerationId{100}) != 0; }));
  const GenerationEvent never = running.told.all().at(GenerationId{100}).front();
  CHECK(never.kind == Kind::refused);
  CHECK(never.error.status == 400);
  CHECK(!never.error.message.empty());

  {
    const auto held = running.told.hold(); // on one core the engine could otherwise serve each before the next arrives
    for (std::uint64_t i = 0; i < 50; ++i) running.thread.submit(GenerationId{i}, generation(100, 200, i));
  }
  CHECK(running.told.wait([](const Of& of) {
    int over = 0;
    for (const auto& [id, events] : of) over += is_over(events) ? 1 : 0;
    return over == 51;
  }));
  int full = 0, served = 0;
  for (const auto& [id, events] : running.told.all()) {
    full += events.back().error.code == "queue_full" ? 1 : 0;
    served += events.back().kind == Kind::ended ? 1 : 0;
    if (events.back().error.code == "queue_full") CHECK(events.back().retry_after_s > 0);
  }
  CHECK(full > 0);
  CHECK(served > 0);
  CHECK(full + served == 50);
}

TEST_CASE("EngineThread: a request arrives in the present, however long a simulated engine was idle") {
  RunningThread<Simulated8b> running(simulated_server(1000));
  std::this_thread::sleep_for(200ms);
  Generation one = generation(100, 1);
  one.slo.ttft = Seconds{0.1}; // on the engine's clock, where the device takes microseconds
  running.thread.submit(GenerationId{1}, one);
  CHECK(running.told.wait(
      [](const Of& of) { return of.count(GenerationId{1}) != 0 && is_over(of.at(GenerationId{1})); }));
  CHECK(running.thread.live().find(R"("slo":"met")") != std::string::npos);
}

TEST_CASE("EngineThread ends with generations under way") {
  RunningThread<Simulated8b> running(simulated_server(1000));
  for (std::uint64_t i = 0; i < 10; ++i) running.thread.submit(GenerationId{i}, generation(100, 2000, i));
  CHECK(running.told.wait([](const Of& of) { return of.size() == 10; }));
  running.thread.stop();
  running.thread.stop();
}

TEST_CASE("EngineThread runs a Cpu engine in a simulated world, at the wall clock's pace") {
  using E = With<OrbitFlow, Cpu, GenerationFeed>;
  Server server = simulated_server(1000);
  server.device = *find_device("h100"); // a decode step takes about 5 ms
  const Roofline cost{server.model, server.device};
  DrawnTokens tokens(hundred());
  Told told;
  EngineThread<E> thread(tokens, told);
  const auto began = std::chrono::steady_clock::now();
  const Status started = thread.start([&](EventListener& feed) {
    const auto simulated = configure<With<OrbitFlow, GenerationFeed>>(server);
    return E::Config{.limits = simulated.limits,
                     .geometry = simulated.geometry,
                     .device_blocks = simulated.device_blocks,
                     .host_blocks = simulated.host_blocks,
                     .cost = cost,
                     .backend = Cpu{world_of(Paced{BasicSimulated{cost}})},
                     .observers = std::tuple{GenerationFeed{&feed}}};
  });
  REQUIRE(started.ok());
  thread.submit(GenerationId{1}, generation(100, 20));
  CHECK(told.wait([](const Of& of) { return of.count(GenerationId{1}) != 0 && is_over(of.at(GenerationId{1})); }));
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  CHECK(tokens_of(told.all().at(GenerationId{1})).size() == 20);
  Work one;
  one.decodes = 1;
  one.decode_context = Tokens{100};
  CHECK(took >= 20 * cost.step(one).total(server.model.layers).count() * 0.9);
}

TEST_CASE("EngineThread refuses a priority if its engine ignores priorities, and obeys it with PriorityFirst") {
  Generation urgent = generation(10, 5);
  urgent.priority = -1;
  {
    RunningThread<Simulated8b> running(simulated_server(1000));
    running.thread.submit(GenerationId{1}, urgent);
    CHECK(running.told.wait([](const Of& of) { return of.count(GenerationId{1}) != 0; }));
    const GenerationEvent refused = running.told.all().at(GenerationId{1}).front();
    CHECK(refused.kind == Kind::refused);
    CHECK(refused.error.status == 400);
    CHECK(refused.error.param == "priority");
  }
  using Urgent = Engine<PriorityFirst, GenerationFeed>;
  DrawnTokens tokens(hundred());
  Told told;
  EngineLoop<Urgent> loop(tokens, told);
  const Server server = simulated_server(1000, 1);
  const Status made = loop.make([&](EventListener& feed) {
    Urgent::Config config = configure<Urgent>(server);
    config.observers = std::tuple{GenerationFeed{&feed}};
    return config;
  });
  REQUIRE(made.ok());
  for (std::uint64_t i = 0; i < 20; ++i) loop.enter(GenerationId{i}, generation(100, 20, i));
  loop.enter(GenerationId{99}, urgent);
  std::vector<std::uint64_t> order; // in which they ended
  while (loop.step() == Stepped::ran) {
    loop.tell(loop.engine().now());
    for (const auto& [id, events] : told.all())
      if (is_over(events) && std::count(order.begin(), order.end(), static_cast<std::uint64_t>(id)) == 0)
        order.push_back(static_cast<std::uint64_t>(id));
  }
  REQUIRE(order.size() == 21);
  CHECK(order.front() == 99);
  CHECK(std::is_sorted(order.begin() + 1, order.end()));
}

TEST_CASE("EngineThread refuses hints that its engine does not read, and names those that it does") {
  Generation said = generation(10, 5);
  said.hints = {.ttl = Seconds{20}, .prefetch = Seconds{10}};
  const auto refusal = [&]<class E>(std::type_identity<E>) {
    DrawnTokens tokens(hundred());
    Told told;
    EngineLoop<E> loop(tokens, told);
    const Server server = simulated_server(1000, 1);
    const Status made = loop.make([&](EventListener& feed) {
      typename E::Config config = configure<E>(server);
      config.observers = std::tuple{GenerationFeed{&feed}};
      return config;
    });
    REQUIRE(made.ok());
    loop.enter(GenerationId{1}, said);
    while (loop.step() == Stepped::ran) {
    }
    loop.tell(loop.engine().now());
    const GenerationEvent first = told.all().at(GenerationId{1}).front();
    if (first.kind != Kind::refused) return std::string{};
    CHECK(first.error.status == 400);
    CHECK(first.error.param == "kv_hints");
    return first.error.message;
  };
  CHECK(refusal(std::type_identity<Engine<GenerationFeed>>{}) ==
        "kv_hints: this server does not use ttl, prefetch; expected no kv_hints, or a server that keeps KV on its host "
        "(--host-cache)");
  CHECK(refusal(std::type_identity<With<Continuum, GenerationFeed>>{}) ==
        "kv_hints: this server does not use prefetch; expected no other than ttl, release");
  CHECK(refusal(std::type_identity<With<HiCacheHints, GenerationFeed>>{}).empty());
}

TEST_CASE("EngineThread reports each finished request with its SLO attainment") {
  struct Heard final : ServedListener {
    void over(const ServedRequest& request) override {
      const std::lock_guard lock{mutex};
      all.push_back(request);
    }
    std::mutex mutex;
    std::vector<ServedRequest> all;
  } heard;
  DrawnTokens tokens(hundred());
  Told told;
  EngineThread<Simulated8b> thread(tokens, told);
  thread.tell_served(heard);
  for (std::uint64_t i = 0; i < 20; ++i) {
    Generation one = generation(10 + static_cast<int>(i), 5, i);
    if (i % 2 == 1) one.slo = {Seconds{60}, Seconds{60}};
    thread.submit(GenerationId{i}, std::move(one));
  }
  thread.cancel(GenerationId{0}); // before the engine starts: request 0 is cancelled while it waits
  REQUIRE(thread.start([&](EventListener& feed) {
    Simulated8b::Config config = configure<Simulated8b>(simulated_server(200, 2));
    config.observers = std::tuple{GenerationFeed{&feed}};
    return config;
  }));
  CHECK(told.wait([](const Of& of) {
    for (std::uint64_t i = 1; i < 20; ++i)
      if (of.count(GenerationId{i}) == 0 || !is_over(of.at(GenerationId{i}))) return false;
    return true;
  }));
  thread.stop();
  REQUIRE(heard.all.size() == 20);
  std::vector<int> times(20);
  for (const ServedRequest& one : heard.all) {
    const std::uint32_t i = index(one.id);
    REQUIRE(i < 20);
    ++times[i];
    CHECK(one.spec.prompt == Tokens{10 + static_cast<std::int64_t>(i)});
    CHECK(one.cancelled == (i == 0));
    if (i == 0) continue;
    CHECK(one.generated == Tokens{5});
    CHECK(one.scheduled >= one.spec.arrival);
    CHECK(one.scheduled <= one.kept.first);
    CHECK(one.kept.last <= one.ended);
    CHECK(one.kept.verdict(one.ended) == (i % 2 == 1 ? SloAttainment::Verdict::met : SloAttainment::Verdict::none));
    if (i % 2 == 1) CHECK(one.kept.on_time == 4);
  }
  CHECK(times == std::vector<int>(20, 1));
}
