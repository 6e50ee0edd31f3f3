// SPDX-License-Identifier: Apache-2.0
// Honesty: a server's loop on a virtual clock under more than it can serve, and what its gates promised and refused.
#pragma once

#include "sluice/backend/cpu/cpu.hpp"
#include "sluice/backend/machine/simulated_world.hpp"
#include "sluice/backend/simulated.hpp"
#include "sluice/core/random.hpp"
#include "sluice/device/named.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/drawn_tokens.hpp"
#include "sluice/serve/engine_loop.hpp"
#include "sluice/serve/feed_relay.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/measured_lengths.hpp"

#include "serve/metrics_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::testing {

/// A generation and when its client sends it.
struct Sent {
  Seconds at{0};
  Generation generation;
};

/// Poisson arrivals of `rate` a second; prompts of 50 to 1,500 tokens and answers of 20 to 300, short ones more often.
inline std::vector<Sent> clients(std::size_t count, double rate, const Slo& slo, std::uint64_t seed) {
  Random random(seed);
  std::vector<Sent> all;
  double now = 0;
  const auto between = [&](double least, double most) {
    return static_cast<std::int64_t>(least * std::pow(most / least, random.uniform()));
  };
  for (std::size_t i = 0; i < count; ++i) {
    now += -std::log(1 - random.uniform()) / rate;
    Sent sent;
    sent.at = Seconds{now};
    sent.generation.prompt.assign(static_cast<std::size_t>(between(50, 1500)), 5);
    sent.generation.max_tokens = between(20, 300);
    sent.generation.slo = slo;
    sent.generation.sequence = i;
    all.push_back(std::move(sent));
  }
  return all;
}

/// What became of a client.
struct Became {
  bool admitted = false;
  bool kept = false;        ///< both promises
  double retry_after_s = 0; ///< of a refusal
  std::string forecast;     ///< of who is admitted
  ApiError error;           ///< of a refusal
  Seconds ttft{-1};
};

struct Served {
  std::vector<Became> of; ///< by client
  Seconds end{0};
  std::string metrics;

  [[nodiscard]] std::int64_t admitted() const {
    return std::count_if(of.begin(), of.end(), [](const Became& one) { return one.admitted; });
  }
  [[nodiscard]] std::int64_t kept() const {
    return std::count_if(of.begin(), of.end(), [](const Became& one) { return one.kept; });
  }
  [[nodiscard]] double share_kept() const { return static_cast<double>(kept()) / static_cast<double>(admitted()); }
  [[nodiscard]] double goodput() const { return static_cast<double>(kept()) / end.count(); }
};

/// The gate, but that one client is let in whatever it says.
struct LettingIn {
  ForecastSlo gate;
  std::optional<std::uint64_t> sequence;
  bool open = false; ///< for all

  template <class E>
  [[nodiscard]] GateAnswer answer(const Generation& newcomer, const Outlook<E>& outlook) const {
    if (open || newcomer.sequence == sequence) return {};
    return gate.answer(newcomer, outlook);
  }
};

/// Passes on to the loop what its engine does, and keeps how promises are kept, by arrival.
class Keeping final : public FeedListener {
 public:
  FeedListener* loop = nullptr;
  std::map<double, KeptPromises> of;

  void released(const RequestRow& row, Tokens count, Seconds when) override {
    auto& promises =
        of.try_emplace(row.spec.arrival.count(), KeptPromises{row.spec.slo, row.spec.arrival}).first->second;
    (void)promises.release(count.count(), when);
    loop->released(row, count, when);
  }
  void ended(const RequestRow& row, Seconds now) override { loop->ended(row, now); }
  void refused(RequestId id, std::string_view reason) override { loop->refused(id, reason); }
  void cancelled(const RequestRow& row, Seconds now) override { loop->cancelled(row, now); }
  void preempted(const RequestRow& row, Kept kept, Seconds now) override { loop->preempted(row, kept, now); }
  void resumed(const RequestRow& row, Seconds now) override { loop->resumed(row, now); }
  void planned(const View& view, const Plan& plan, Seconds wall) override { loop->planned(view, plan, wall); }
  void iterated(const IterationRecord& record) override { loop->iterated(record); }
};

class Answers final : public GenerationListener {
 public:
  std::vector<Became> of;

  void happened(std::vector<GenerationEvent> events) override {
    for (const GenerationEvent& event : events) {
      Became& became = of[static_cast<std::size_t>(event.id)];
      if (event.kind == GenerationEvent::Kind::accepted) {
        became.admitted = true;
        became.forecast = event.forecast;
      }
      if (event.kind == GenerationEvent::Kind::refused) {
        became.retry_after_s = event.retry_after_s;
        became.error = event.error;
      }
    }
  }
};

/// What iterations really take: `model`, and up to the share `jitter` more or less, drawn by what an iteration
/// computes.
struct Truth {
  using role = roles::Cost;
  struct State {};

  Roofline model;
  double jitter = 0;

  [[nodiscard]] StepTime step(const Work& work) const {
    StepTime time = model.step(work);
    const auto drawn = static_cast<std::uint64_t>(work.tokens().count() * 1000003 + work.decode_context.count());
    const double factor = 1 + jitter * (2 * Random(drawn).uniform() - 1);
    time.before = time.before * factor;
    time.layer = time.layer * factor;
    time.after = time.after * factor;
    return time;
  }
  [[nodiscard]] LinkCost link() const { return model.link(); }
  [[nodiscard]] const Truth& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

/// A machine, how fast it is in truth, and who comes.
struct Case {
  Server server;
  double slowdown = 1; ///< of the truth, beside what planner and forecast believe
  double jitter = 0;   ///< of the truth
  double shortest = 1; ///< of the truth: answers come to this share of what they may, or more, drawn; OnCpu alone
  std::vector<Sent> sent;
  bool by_bounds = false; ///< forecasts take bounds for lengths, whatever was measured
};

/// On what an engine runs: on a simulated backend, or on a simulated world behind the backend of programs.
using Length = SimulatedWorld<Truth>::Length;
struct OnSimulated {
  using backend = BasicSimulated<Truth>;
  static backend starting(const Truth& truth, Seconds now, const Length& /*length*/) {
    backend made(truth);
    made.idle_until(now);
    return made;
  }
};
struct OnCpu {
  using backend = Cpu;
  static backend starting(const Truth& truth, Seconds now, const Length& length) {
    return Cpu{std::make_shared<SimulatedWorld<Truth>>(truth, SimulatedPace::virtual_, now, length)};
  }
};

/// Serves them all to the end.
template <class System, class On = OnSimulated>
Served serve_clients(const Case& of, const LettingIn& gate) {
  using E = With<System, typename On::backend, GenerationFeed>;
  const Roofline believed{of.server.model, of.server.device};
  Device slower = of.server.device;
  slower.memory_bandwidth = slower.memory_bandwidth / of.slowdown;
  slower.half_precision_peak = slower.half_precision_peak / of.slowdown;
  slower.host_to_device = slower.host_to_device / of.slowdown;
  slower.device_to_host = slower.device_to_host / of.slowdown;
  const Truth truth{Roofline{of.server.model, slower}, of.jitter};

  const Length length = [&](const RequestRow& row) {
    const auto drawn = static_cast<std::uint64_t>(row.spec.arrival.count() * 1e6);
    return MeasuredLengths::expected(row, of.shortest + (1 - of.shortest) * Random(drawn).uniform());
  };

  DrawnTokens tokens({1, 2, 3});
  Answers answers;
  answers.of.resize(of.sent.size());
  Keeping keeping;
  EngineLoop<E, LettingIn> loop(tokens, answers, gate);
  const Status made = loop.make(
      [&](FeedListener& feed) {
        const auto planned = configure<With<System, GenerationFeed>>(of.server, believed);
        const bool first = keeping.loop == nullptr; // then come the copies' observers
        if (first) keeping.loop = &feed;
        return typename E::Config{.limits = planned.limits,
                                  .geometry = planned.geometry,
                                  .device_blocks = planned.device_blocks,
                                  .host_blocks = planned.host_blocks,
                                  .cost = believed,
                                  .backend = On::starting(truth, Seconds{0}, length),
                                  .observers = std::tuple{GenerationFeed{first ? &keeping : &feed}}};
      },
      [&](const E& engine, const Correction& correction) {
        return On::starting(Truth{believed}, engine.now(),
                            [share = of.by_bounds ? 1 : correction.length_share](const RequestRow& row) {
                              return MeasuredLengths::expected(row, share);
                            });
      });
  SLUICE_ASSERT(made.ok(), "an engine");
  for (std::size_t next = 0;;) {
    for (; next < of.sent.size() && of.sent[next].at <= loop.engine().now(); ++next)
      loop.enter(GenerationId{next}, of.sent[next].generation, of.sent[next].at);
    const Stepped stepped = loop.step();
    SLUICE_ASSERT(stepped != Stepped::failed, "an engine that goes on");
    loop.tell(loop.engine().now());
    if (stepped == Stepped::ran) continue;
    if (next == of.sent.size()) break;
    loop.engine().idle_until(of.sent[next].at);
  }
  Served served{std::move(answers.of), loop.engine().now(), metrics_text(loop.figures())};
  for (std::size_t i = 0; i < served.of.size(); ++i) {
    const auto found = keeping.of.find(of.sent[i].at.count());
    if (found == keeping.of.end()) continue;
    const KeptPromises& promises = found->second;
    served.of[i].ttft = promises.first - promises.arrival;
    served.of[i].kept = promises.verdict(promises.last) == KeptPromises::Verdict::met;
  }
  return served;
}

/// Requests a second that the system ends when it has always enough to do.
template <class System>
double capacity(const Server& server, const Slo& slo) {
  Case rush{server, 1, 0, 1, clients(200, 1e6, slo, 99)};
  LettingIn gate;
  gate.open = true;
  const Served served = serve_clients<System>(rush, gate);
  return static_cast<double>(rush.sent.size()) / served.end.count();
}

/// Refusals that are provably wrong: let in by force, with the gate as it is for all others, the client is kept, and so
/// are all who were kept without it. Every `each`-th refusal is replayed.
struct Replayed {
  std::int64_t refusals = 0, wrong = 0;
};
template <class System, class On = OnSimulated>
Replayed replay_refusals(const Case& of, const LettingIn& gate, const Served& served, std::size_t each) {
  Replayed replayed;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < served.of.size(); ++i) {
    if (served.of[i].admitted || seen++ % each != 0) continue;
    LettingIn forced = gate;
    forced.sequence = i;
    const Served again = serve_clients<System, On>(of, forced);
    bool wrong = again.of[i].kept;
    for (std::size_t k = 0; k < served.of.size() && wrong; ++k) wrong = !served.of[k].kept || again.of[k].kept;
    ++replayed.refusals;
    replayed.wrong += wrong ? 1 : 0;
  }
  return replayed;
}

/// Llama 3 8B on an A5000.
inline Server small_server() {
  Limits limits;
  limits.batch = 24;
  limits.batch_tokens = Tokens{256};
  limits.max_context = Tokens{4096};
  const Device device = *find_device("a5000");
  const ModelShape model = llama3_8b();
  return {model, device, kv_blocks_beside_weights(model, device, limits.block_tokens), limits};
}

} // namespace sluice::testing
