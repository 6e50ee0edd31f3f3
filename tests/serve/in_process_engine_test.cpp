// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/scorpio.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include "serve/in_process_engine.hpp"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// The engine's own record of its requests, independent of the server, in order of acceptance.
struct Witness {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Preempted, events::Resumed, events::Delivered>;
  static constexpr bool wants_timeline = false;
  struct Release {
    double at = 0;
    std::int64_t tokens = 0, held = 0; ///< released; left in the deposit
  };
  struct Request {
    std::vector<Release> releases;
    std::vector<std::pair<double, double>> pauses;
  };
  struct State {
    std::map<std::uint32_t, Request> requests;
  };

  void on(State& state, const events::Submitted& event) const { state.requests[index(event.row.id)]; }
  void on(State& state, const events::Preempted& event) const {
    state.requests[index(event.row.id)].pauses.emplace_back(event.now.count(), 1e300);
  }
  void on(State& state, const events::Resumed& event) const {
    state.requests[index(event.row.id)].pauses.back().second = event.now.count();
  }
  void on(State& state, const events::Delivered& event) const {
    state.requests[index(event.row.id)].releases.push_back(
        {event.when.count(), event.count.count(), event.row.deposit().count()});
  }
};

using Deposits = With<OrbitFlow, GenerationFeed, Witness>;
using AtOnce = With<Deposits, Immediate>;

std::vector<std::int32_t> letters() {
  std::vector<std::int32_t> tokens(26);
  std::iota(tokens.begin(), tokens.end(), 'a');
  return tokens;
}

constexpr double tbt = 0.06;

/// The demo's machine: four requests decode together, and their KV outgrows the device.
Server machine(std::int64_t kv_blocks = 700, int batch = demo_batch) {
  return {llama3_8b(), a5000(), TokenBlocks{kv_blocks}, {.batch = batch, .batch_tokens = Tokens{32'768}}};
}

template <class E>
typename E::Config config_of(const Server& server) {
  if constexpr (!E::backend_type::real_time) {
    return configure<E>(server);
  } else {
    const auto simulated = configure<With<E, Simulated>>(server);
    const Roofline cost{server.model, server.device};
    return {.limits = simulated.limits,
            .geometry = simulated.geometry,
            .device_blocks = simulated.device_blocks,
            .host_blocks = simulated.host_blocks,
            .cost = cost,
            .backend = Cpu{world_of(BasicSimulated{cost})}};
  }
}

template <class E, class... Gates>
struct ThreadedWorld {
  explicit ThreadedWorld(const Server& server, Gates... gates)
      : tokens(letters()), engine(transport, tokens, std::move(gates)...) {
    const Status made = engine.make([&](EventListener& feed) {
      typename E::Config config = config_of<E>(server);
      std::get<GenerationFeed>(config.observers).listener = &feed;
      return config;
    });
    REQUIRE(made.ok());
    OpenAiSetup setup;
    setup.model = "llama3-8b";
    setup.tokenizer = &tokenizer;
    setup.vocabulary = tokenizer.vocabulary().size();
    setup.context = 131'072;
    setup.slo = {Seconds{5}, Seconds{tbt}};
    setup.now_s = [this] { return static_cast<std::int64_t>(transport.now()); };
    setup.clock = [this] { return transport.now(); };
    setup.random = [this] { return ++drawn; };
    app = std::make_unique<OpenAiApp>(std::move(setup), transport, engine);
    engine.serve(*app);
  }
  InProcess::Reply ask(double when, std::int64_t prompt, std::int64_t most, bool stream = true) {
    return transport.send(when, {"POST",
                                 "/v1/completions",
                                 {},
                                 fmt::format(R"({{"prompt":"{}","max_tokens":{},"stream":{}}})",
                                             std::string(static_cast<std::size_t>(prompt) - 1, 'x'), most, stream)});
  }
  [[nodiscard]] const Witness::State& witness() const { return engine.engine().template observed<Witness>(); }

  std::function<double()> late; ///< seconds by which the transport's timers fire late; empty: they are punctual
  InProcess transport{[this] { return late ? late() : 0; }};
  ByteTokenizer tokenizer;
  DrawnTokens tokens;
  InProcessEngine<E, Gates...> engine;
  std::unique_ptr<OpenAiApp> app;
  std::uint64_t drawn = 0;
};

/// When each token of a stream came; a token is one letter.
std::vector<double> times_of(const InProcessReply& reply) {
  static constexpr std::string_view mark = R"("text":")";
  std::vector<double> times;
  for (const InProcessReply::Piece& piece : reply.pieces)
    for (std::size_t at = piece.text.find(mark); at != std::string::npos; at = piece.text.find(mark, at)) {
      at += mark.size();
      times.insert(times.end(), piece.text.find('"', at) - at, piece.at);
    }
  return times;
}
/// Whether a gap that ended at `when` is within the TBT.
bool on_time_by(double gap, double when) { return on_time(Seconds{gap}, Seconds{tbt}, Seconds{when}); }
/// /metrics without the times of planning and delivery, which are on the wall clock.
std::string without_wall_time(std::string text) {
  for (const char* name : {"\nsluice:planning_seconds_total", "\nsluice:delivery_seconds"})
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.erase(at + 1, text.find('\n', at + 1) - at);
  return text;
}
std::string transcript_of(const std::vector<InProcess::Reply>& replies) {
  std::string text;
  for (const InProcess::Reply& reply : replies) {
    text += fmt::format("{:a} {} {:a} {} {} {} {:a}\n", reply->sent, reply->head.status, reply->head_at,
                        reply->finished, reply->cut, reply->left, reply->ended_at);
    for (const auto& [name, value] : reply->head.headers) text += name + ": " + value + "\n";
    for (const InProcessReply::Piece& piece : reply->pieces)
      text += fmt::format("{:a} {}", piece.at, without_wall_time(piece.text));
  }
  return text;
}

/// The demo's first requests, sent by clients of the server.
template <class W>
std::vector<InProcess::Reply> ask_demo(W& world, std::int64_t requests) {
  GeneratorSpec spec = demo_workload();
  spec.requests = requests;
  Generator generator(spec, 1);
  std::vector<InProcess::Reply> replies;
  for (;;) {
    const auto request = generator.next();
    REQUIRE(request.has_value());
    if (!*request) return replies;
    const RequestSpec& one = **request;
    replies.push_back(world.ask(one.arrival.count(), one.prompt.count(), one.output.count()));
  }
}

/// The gaps between two tokens of which the second was in the deposit when the first was released.
std::vector<double> deposited_gaps(const std::vector<double>& times, const Witness::Request& said) {
  std::vector<double> gaps;
  std::size_t told = 0;
  for (const Witness::Release& release : said.releases) {
    told += static_cast<std::size_t>(release.tokens);
    // The second may come from the iteration that releases the first, and not exist yet when the first was due.
    if (release.held >= 2) gaps.push_back(times.at(told) - times.at(told - 1));
  }
  return gaps;
}
/// Tokens that came while the request was preempted.
std::int64_t during_pauses(const std::vector<double>& times, const Witness::Request& said) {
  std::int64_t tokens = 0;
  for (const double time : times)
    for (const auto& [from, to] : said.pauses) tokens += time > from && time < to ? 1 : 0;
  return tokens;
}

} // namespace

TEST_CASE("InProcessEngine delivers each token when the engine has made it, independent of the wall clock") {
  ThreadedWorld<AtOnce> world(machine());
  const std::vector<InProcess::Reply> replies = ask_demo(world, 8);
  world.engine.run();
  const auto& requests = world.witness().requests;
  REQUIRE(requests.size() == replies.size());
  std::size_t at = 0;
  for (const auto& [id, request] : requests) {
    CAPTURE(at);
    const InProcessReply& reply = *replies[at++];
    CHECK(reply.finished);
    CHECK(reply.body().ends_with("data: [DONE]\n\n"));
    const std::vector<double> times = times_of(reply);
    REQUIRE(times.size() == request.releases.size()); // one at a time
    double furthest = 0;
    for (std::size_t i = 0; i < times.size(); ++i)
      furthest = std::max(furthest, std::abs(times[i] - request.releases[i].at));
    CHECK(furthest < 1e-9);
    CHECK(times.front() > reply.sent);
  }
}

TEST_CASE("InProcessEngine: a server's run repeats to the byte, and to the last bit of every time") {
  const auto transcript = [](std::uint64_t drawn) {
    ThreadedWorld<Deposits, QueueLimit> world(machine(), QueueLimit{2});
    world.drawn = drawn;
    std::vector<InProcess::Reply> replies = ask_demo(world, 12);
    for (int i = 0; i < 4; ++i) replies.push_back(world.ask(200 + i, 500, 50, i % 2 == 0));
    for (int i = 0; i < 4; ++i) replies.push_back(world.transport.send(100, {"GET", "/metrics", {}, {}}));
    world.transport.leave(90, replies[1]);
    world.transport.leave(230, replies[5]);
    world.engine.run_until(500);
    return transcript_of(replies);
  };
  const std::string once = transcript(0);
  const bool same = once == transcript(0),
             of_other_seeds = once == transcript(1); // not compared in CHECK, which would print megabytes
  CHECK(same);
  CHECK(!of_other_seeds);
  CHECK(once.find(" 429 ") != std::string::npos);
}

TEST_CASE("InProcessEngine: a token of the deposit follows its predecessor within the TBT, even during preemptions") {
  ThreadedWorld<Deposits> deposits(machine());
  const std::vector<InProcess::Reply> deposited = ask_demo(deposits, 16);
  deposits.engine.run();
  ThreadedWorld<AtOnce> at_once(machine());
  const std::vector<InProcess::Reply> immediate = ask_demo(at_once, 16);
  at_once.engine.run();

  double longest = 0;
  std::int64_t gaps = 0, in_pauses = 0, pauses = 0, tokens = 0;
  std::size_t at = 0;
  for (const auto& [id, said] : deposits.witness().requests) {
    const std::vector<double> times = times_of(*deposited[at++]);
    for (const double gap : deposited_gaps(times, said)) {
      longest = std::max(longest, gap);
      ++gaps;
    }
    in_pauses += during_pauses(times, said);
    pauses += static_cast<std::int64_t>(said.pauses.size());
    tokens += static_cast<std::int64_t>(times.size());
  }
  CHECK(pauses > 3);
  CHECK(in_pauses > 100);
  CHECK(gaps > tokens / 4);
  CHECK(longest < tbt + 0.001); // the pacer may take half a millisecond

  // Without a deposit every preemption is a gap without tokens.
  pauses = 0, at = 0;
  for (const auto& [id, said] : at_once.witness().requests) {
    const std::vector<double> times = times_of(*immediate[at++]);
    CHECK(during_pauses(times, said) == 0);
    for (const auto& [from, to] : said.pauses) {
      if (from < times.front()) continue; // preempted in prefill
      ++pauses;
      const auto after = std::upper_bound(times.begin(), times.end(), from + 1e-9);
      REQUIRE(after != times.begin());
      REQUIRE(after != times.end());
      CHECK(*after - *(after - 1) >= to - from);
      CHECK(*after - *(after - 1) > tbt + 0.001);
    }
  }
  CHECK(pauses > 0);
}

TEST_CASE("InProcessEngine: tokens of the deposit are paced ahead of their deadlines by what delivery takes") {
  ThreadedWorld<Deposits> world(machine());
  Random random(3);
  world.late = [&] { return 0.024 * random.uniform(); }; // more than the fifth of the TBT that is kept at first
  std::vector<InProcess::Reply> replies;
  for (int i = 0; i < 40; ++i) replies.push_back(world.ask(100 * i, 500, 300)); // one after another
  world.engine.run();
  std::int64_t on_time = 0, missed = 0, kept = 0, missed_later = 0, kept_later = 0;
  for (std::size_t at = 0; at < replies.size(); ++at) {
    const InProcess::Reply& reply = replies[at];
    const std::vector<double> times = times_of(*reply);
    REQUIRE(times.size() == 300);
    std::int64_t late = 0;
    for (std::size_t i = 1; i < times.size(); ++i) late += on_time_by(times[i] - times[i - 1], times[i]) ? 0 : 1;
    CHECK(times.front() - reply->sent < 5);
    kept += late == 0 ? 1 : 0;
    on_time += 299 - late;
    missed += late;        // none is late by a TBT
    if (at < 20) continue; // until then too little has been measured
    missed_later += late;
    kept_later += late == 0 ? 1 : 0;
  }
  CHECK(missed > missed_later); // the first answers', after which delivery has been measured
  CHECK(missed_later <= 2);
  CHECK(kept_later >= 18);
  // The server counts what its clients see.
  const auto metrics = world.transport.send(5000, {"GET", "/metrics", {}, {}});
  world.engine.run();
  const std::string text = metrics->body();
  const auto metric = [&](const std::string& name) {
    const std::size_t at = text.find("\n" + name);
    REQUIRE(at != std::string::npos);
    return std::stod(text.substr(text.find(' ', at + name.size())));
  };
  CHECK(metric("sluice:tokens_on_time_total") == static_cast<double>(on_time));
  CHECK(metric("sluice:deadlines_missed_total") == static_cast<double>(missed));
  CHECK(metric(R"(sluice:slo_answers_total{model_name="llama3-8b",engine="0",ttft="5",tbt="0.06",met="true"})") ==
        static_cast<double>(kept));
}

TEST_CASE("InProcessEngine: the blocks of a client that leaves are free at once, whatever its request's state") {
  ThreadedWorld<Deposits> world(machine(700, 2));
  const auto used = [&] {
    const Ledger& ledger = world.engine.engine().ledger();
    return ledger.device().used() + ledger.host().used();
  };
  std::vector<InProcess::Reply> replies;
  for (int i = 0; i < 6; ++i) replies.push_back(world.ask(0, 2000, 1000));
  world.engine.run_until(10);
  REQUIRE(world.engine.engine().alive() == 6);
  REQUIRE(used() > LayerBlocks{0});
  for (std::size_t i = 0; i < 6; ++i) { // two decode, four wait
    const LayerBlocks before = used();
    world.transport.leave(10 + static_cast<double>(i), replies[i]);
    world.engine.run_until(10 + static_cast<double>(i));
    CHECK(world.engine.engine().alive() == 5 - static_cast<std::int64_t>(i));
    if (i < 2) CHECK(used() < before);
  }
  CHECK(used() == LayerBlocks{0});
  const std::vector<double> times = times_of(*replies[0]);
  REQUIRE(!times.empty());
  CHECK(times.back() <= 10);
  for (const InProcess::Reply& reply : replies) CHECK(reply->left);
  // The server continues.
  const auto next = world.ask(20, 2000, 10, false);
  world.engine.run();
  CHECK(next->finished);
  CHECK(next->head.status == 200);
}

TEST_CASE("InProcessEngine accepts requests that arrive during an iteration after it, and at once when idle") {
  ThreadedWorld<AtOnce> world(machine());
  const auto first = world.ask(3, 4000, 2);
  world.engine.run_until(3); // the prefill has been computed and still lasts
  CHECK(world.engine.engine().now().count() > 3.1);
  CHECK(times_of(*first).empty());
  const auto second = world.ask(3.05, 10, 1);
  world.engine.run();
  const std::vector<double> times = times_of(*first);
  REQUIRE(times.size() == 2);
  CHECK(second->head_at == doctest::Approx(times[0]).epsilon(1e-12)); // accepted when the prefill had ended
  CHECK(times_of(*second).size() == 1);
  const auto idle = world.ask(100, 10, 1);
  world.engine.run();
  CHECK(idle->head_at == 100);
  CHECK(times_of(*idle).at(0) > 100);
  CHECK(times_of(*idle).at(0) < 100.1);
  CHECK(world.transport.next_due() == InProcess::never);
}

TEST_CASE("InProcessEngine drives an engine that was compiled for a machine, in virtual time") {
  ThreadedWorld<With<Deposits, Cpu>> world(machine());
  const std::vector<InProcess::Reply> replies = ask_demo(world, 16);
  world.engine.run();
  std::vector<double> gaps;
  std::int64_t in_pauses = 0;
  std::size_t at = 0;
  for (const auto& [id, said] : world.witness().requests) {
    const InProcessReply& reply = *replies[at++];
    CHECK(reply.finished);
    const std::vector<double> times = times_of(reply);
    for (const double gap : deposited_gaps(times, said)) gaps.push_back(gap);
    in_pauses += during_pauses(times, said);
  }
  std::sort(gaps.begin(), gaps.end());
  REQUIRE(gaps.size() > 10'000);
  CHECK(gaps[gaps.size() * 99 / 100] <= tbt + 0.005); // a step's length is estimated, sometimes too short
  CHECK(in_pauses > 100);
}

TEST_CASE("InProcessEngine: a request that Admission gives up is refused, not failed, and its SLO is not counted") {
  using Refusing = With<Scorpio, GenerationFeed, Witness>;
  ThreadedWorld<Refusing> world(machine());
  std::vector<InProcess::Reply> plain, streams;
  for (int i = 0; i < 8; ++i) { // the first tokens of so many prompts cannot all come within 5 s
    plain.push_back(world.ask(0.01 * i, 8000, 4, false));
    streams.push_back(world.ask(0.01 * i, 8000, 4, true));
  }
  world.engine.run();
  int served = 0, refused = 0, refused_in_stream = 0;
  const auto is_refusal = [](const InProcessReply& reply) {
    return reply.body().find(R"("code":"refused_by_admission")") != std::string::npos;
  };
  for (const auto* replies : {&plain, &streams})
    for (const InProcess::Reply& reply : *replies) {
      CHECK(reply->finished);
      if (!is_refusal(*reply)) {
        CHECK(reply->head.status == 200);
        ++served;
        continue;
      }
      CHECK(reply->body().find("its first token would come after its deadline") != std::string::npos);
      CHECK(times_of(*reply).empty());
      ++refused;
      if (replies == &streams && reply->head.status == 200) { // its head had been sent
        CHECK(reply->body().find("[DONE]") == std::string::npos);
        ++refused_in_stream;
        continue;
      }
      CHECK(reply->head.status == 429);
      const auto& headers = reply->head.headers;
      CHECK(std::any_of(headers.begin(), headers.end(), [](const auto& one) { return one.first == "Retry-After"; }));
    }
  CHECK(served > 0);
  CHECK(refused - refused_in_stream > 0);
  CHECK(refused_in_stream > 0);

  const auto metrics = world.transport.send(1e6, {"GET", "/metrics", {}, {}});
  world.engine.run();
  const std::string text = metrics->body();
  // The sum of a metric's samples whose labels contain `label`.
  const auto sum = [&](const std::string& name, const std::string& label) {
    double all = 0;
    for (std::size_t at = 0; (at = text.find("\n" + name + "{", at)) != std::string::npos; ++at) {
      const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
      if (line.find(label) != std::string::npos) all += std::stod(line.substr(line.rfind(' ')));
    }
    return all;
  };
  CHECK(sum("sluice:refused_total", "") == refused);
  CHECK(sum("sluice:requests_total", "") == served + refused);
  CHECK(sum("vllm:request_success_total", R"("error")") == 0);
  CHECK(sum("vllm:request_success_total", R"("length")") == served);
  CHECK(sum("sluice:slo_answers_total", "") == served);
}
