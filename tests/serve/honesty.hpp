// SPDX-License-Identifier: Apache-2.0
// Runs an overloaded server on a virtual clock, to check its gate's forecasts against the requests' SLO attainment.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/engine_loop.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/real/paced.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include "serve/metrics_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::testing {

/// A generation and the time its client sends it.
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

/// One client's result.
struct Became {
  bool admitted = false;
  int tries = 1;            ///< how often it came; only the last try counts in the other members
  int told = 0;             ///< how often it returned at the time named to it
  bool kept = false;        ///< its SLO was met
  double retry_after_s = 0; ///< of a refusal
  std::string forecast;     ///< of an admission
  ApiError error;           ///< of a refusal
  Seconds ttft{-1};
  Seconds longest{0}; ///< gap between two tokens
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
  /// Mean over those that got a first token, in seconds.
  [[nodiscard]] double mean_ttft() const {
    double sum = 0, count = 0;
    for (const Became& one : of)
      if (one.ttft.count() >= 0) sum += one.ttft.count(), ++count;
    return sum / count;
  }
};

/// The gates, which one client passes whatever their answer.
struct LettingIn {
  ForecastSlo gate;
  std::optional<std::uint64_t> sequence;
  bool open = false;           ///< all clients pass the forecast
  QueueLimit queue{1'000'000}; ///< all clients must pass it

  template <class E>
  [[nodiscard]] GateAnswer answer(const Generation& newcomer, const Outlook<E>& outlook) {
    if (newcomer.sequence == sequence) return {};
    GateAnswer queued = queue.answer(newcomer, outlook);
    return open || !queued.admit ? queued : gate.answer(newcomer, outlook);
  }
};

/// Passes the engine's events to the loop, and records SLO attainment by arrival time, against the clients' own SLOs.
class Keeping final : public EventListener {
 public:
  explicit Keeping(const std::vector<Sent>& sent) {
    for (const Sent& one : sent) follow(one);
  }
  void follow(const Sent& one) {
    of.try_emplace(one.at.count(), SloAttainment{.slo = one.generation.slo, .arrival = one.at});
  }
  EventListener* loop = nullptr;
  std::map<double, SloAttainment> of;

  void hear(const AnyEvent& event) override {
    if (const auto* delivered = event.get<events::Delivered>()) {
      (void)of.at(delivered->row.spec.arrival.count()).release(delivered->count.count(), delivered->when);
    }
    loop->hear(event);
  }
};

class Answers final : public GenerationListener {
 public:
  std::vector<Became> of;
  std::vector<std::size_t> client;  ///< of each generation
  std::vector<std::size_t> refused; ///< clients whose last try was refused, since it was emptied

  void happened(std::vector<GenerationEvent> events) override {
    for (const GenerationEvent& event : events) {
      const std::size_t at = client[static_cast<std::size_t>(event.id)];
      Became& became = of[at];
      if (event.kind == GenerationEvent::Kind::accepted) {
        became.admitted = true;
        became.forecast = event.forecast;
      }
      if (event.kind == GenerationEvent::Kind::refused) {
        became.retry_after_s = event.retry_after_s;
        became.error = event.error;
        refused.push_back(at);
      }
    }
  }
};

/// The true times of iterations: the model's times a factor from 1 - `jitter` to 1 + `jitter`, seeded by the
/// iteration's work.
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

/// A machine, its true speed, and the clients.
struct Case {
  Server server;
  double slowdown = 1; ///< true times over those that planner and forecast assume
  double jitter = 0;   ///< of true times
  double shortest = 1; ///< answers' true lengths are drawn from this share of their bounds up to 1; only OnCpu
  std::vector<Sent> sent;
  int retries = 0;        ///< clients that are refused return exactly when they are told, so often
  bool by_bounds = false; ///< forecasts use bounds as lengths, whatever was measured
  double charge_s = 0;    ///< seconds that each step of a forecast takes from the engine, on the virtual clock
};

/// An engine's backend: simulated, or `Cpu` with a simulated world.
struct OnSimulated {
  using backend = BasicSimulated<Truth>;
  static backend starting(const Truth& truth, Seconds now, const OutputLength& /*length*/) {
    backend made(truth);
    made.idle_until(now);
    return made;
  }
};
struct OnCpu {
  using backend = Cpu;
  static backend starting(const Truth& truth, Seconds now, const OutputLength& length) {
    return Cpu{world_of(EndsAt{BasicSimulated{truth, now}, length})};
  }
};

/// Serves all clients to the end.
template <class System, class On = OnSimulated>
Served serve_clients(const Case& of, LettingIn gate) {
  using E = With<System, typename On::backend, GenerationFeed>;
  const Roofline believed{of.server.model, of.server.device};
  Device slower = of.server.device;
  slower.memory_bandwidth = slower.memory_bandwidth / of.slowdown;
  slower.half_precision_peak = slower.half_precision_peak / of.slowdown;
  slower.host_to_device = slower.host_to_device / of.slowdown;
  slower.device_to_host = slower.device_to_host / of.slowdown;
  const Truth truth{Roofline{of.server.model, slower}, of.jitter};

  const OutputLength length = [&](const RequestRow& row) {
    const auto drawn = static_cast<std::uint64_t>(row.spec.arrival.count() * 1e6);
    return MeasuredLengths::expected(row, of.shortest + (1 - of.shortest) * Random(drawn).uniform());
  };

  DrawnTokens tokens({1, 2, 3});
  Answers answers;
  answers.of.resize(of.sent.size());
  Keeping keeping(of.sent);
  double looked_s = 0; // forecasts read their clock at each step
  if (of.charge_s > 0) gate.gate.clock = [&looked_s, &of] { return looked_s += of.charge_s; };
  EngineLoop<E, LettingIn> loop(tokens, answers, std::move(gate));
  const Status made = loop.make(
      [&](EventListener& feed) {
        const auto planned = configure<With<System, GenerationFeed>>(of.server, believed);
        const bool first = keeping.loop == nullptr; // the second call is for the copies' observers
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
  std::multimap<double, std::size_t> coming; // clients by time
  std::vector<Seconds> came(of.sent.size()); // the last time
  for (std::size_t i = 0; i < of.sent.size(); ++i) coming.emplace(of.sent[i].at.count(), i);
  const auto send_back = [&] {
    for (const std::size_t i : std::exchange(answers.refused, {})) {
      Became& became = answers.of[i];
      if (became.retry_after_s <= 0 || became.tries > of.retries) continue;
      ++became.tries;
      ++became.told;
      double at = loop.engine().now().count() + became.retry_after_s;
      while (coming.contains(at) || keeping.of.contains(at)) // arrivals tell clients apart
        at = std::nextafter(at, std::numeric_limits<double>::infinity());
      coming.emplace(at, i);
    }
  };
  for (;;) {
    while (!coming.empty() && coming.begin()->first <= loop.engine().now().count()) {
      const double before = looked_s;
      const auto [at, i] = *coming.begin();
      coming.erase(coming.begin());
      came[i] = Seconds{at};
      keeping.follow({came[i], of.sent[i].generation});
      answers.client.push_back(i);
      loop.enter(GenerationId{answers.client.size() - 1}, of.sent[i].generation, came[i]);
      loop.tell(loop.engine().now());
      send_back();
      if (looked_s > before) loop.engine().idle_until(loop.engine().now() + Seconds{looked_s - before});
    }
    const double before = looked_s;
    const Stepped stepped = loop.step();
    SLUICE_ASSERT(stepped != Stepped::failed, "an engine that continues");
    loop.tell(loop.engine().now());
    send_back();
    if (looked_s > before) loop.engine().idle_until(loop.engine().now() + Seconds{looked_s - before});
    if (stepped == Stepped::ran) continue;
    if (coming.empty()) break;
    loop.engine().idle_until(Seconds{coming.begin()->first});
  }
  Served served{std::move(answers.of), loop.engine().now(), metrics_text(loop.figures())};
  for (std::size_t i = 0; i < served.of.size(); ++i) {
    const SloAttainment& attainment = keeping.of.at(came[i].count());
    if (!attainment.started()) continue;
    served.of[i].ttft = attainment.first - attainment.arrival;
    served.of[i].longest = attainment.longest;
    served.of[i].kept = attainment.verdict(attainment.last) == SloAttainment::Verdict::met;
  }
  return served;
}

/// What became of clients that return when they are told, and of short and long prompts.
struct Returns {
  static constexpr std::size_t long_from = 274; ///< tokens: about the median of `clients`

  struct Part {
    int asked = 0, kept = 0;
    [[nodiscard]] double share() const { return static_cast<double>(kept) / asked; }
  };
  int told = 0;     ///< times that a client returned when it was told
  int admitted = 0; ///< of them
  int untold = 0;   ///< refusals with 429 that name no time
  Part short_prompts, long_prompts;

  [[nodiscard]] double share_admitted() const { return static_cast<double>(admitted) / told; }
};
inline Returns returns_of(const Case& of, const Served& served) {
  Returns all;
  for (std::size_t i = 0; i < of.sent.size(); ++i) {
    const Became& one = served.of[i];
    all.told += one.told;
    all.admitted += one.admitted && one.told > 0 ? 1 : 0;
    all.untold += !one.admitted && one.error.status == 429 && one.retry_after_s <= 0 ? 1 : 0;
    Returns::Part& part =
        of.sent[i].generation.prompt.size() < Returns::long_from ? all.short_prompts : all.long_prompts;
    ++part.asked;
    part.kept += one.kept ? 1 : 0;
  }
  return all;
}

/// The system's throughput in requests per second when it is never idle.
template <class System>
double capacity(const Server& server, const Slo& slo) {
  Case rush{server, 1, 0, 1, clients(200, 1e6, slo, 99)};
  LettingIn gate;
  gate.open = true;
  const Served served = serve_clients<System>(rush, gate);
  return static_cast<double>(rush.sent.size()) / served.end.count();
}

/// Counts refusals that are provably wrong: if the client is admitted by force, with the same gate for all others, it
/// meets its SLO, and so do all clients that met it before. Replays every `each`-th refusal.
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

/// A small model on this kind of machine: a step takes two milliseconds, as long as a few hundred steps of a forecast.
inline Server quick_server() {
  Server server = small_server();
  server.device.memory_bandwidth = server.device.memory_bandwidth * 12.0;
  server.device.half_precision_peak = server.device.half_precision_peak * 12.0;
  server.device.host_to_device = server.device.host_to_device * 12.0;
  server.device.device_to_host = server.device.device_to_host * 12.0;
  server.limits.batch = 16;
  return server;
}

/// What a forecast's step takes of a core, copies included: measured with `sluice-serve --model demo`.
inline constexpr double forecast_step_s = 15e-6;

/// A third more than a quick server can serve, all of the same length; forecasts cost time.
template <class System>
Case crowd(std::size_t count) {
  const Slo slo{Seconds{0.5}, Seconds{0.1}};
  Case of{quick_server(), 1, 0, 1, clients(count, 1.35 * capacity<System>(quick_server(), slo), slo, 3)};
  of.charge_s = forecast_step_s;
  return of;
}

} // namespace sluice::testing
