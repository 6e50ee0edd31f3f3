// SPDX-License-Identifier: Apache-2.0
#include "run/job.hpp"

#include "sluice/engine/progress_watch.hpp"
#include "sluice/serve/engine_thread.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

namespace running {

using namespace sluice;
using engines::RealEngine;

Status run(const engines::System& system, const Job& job) {
  Expected<RealEngine> engine = system.run(job.setup, job.slo, Cpu{job.world}, {&job.recorded});
  if (!engine) return engine.error();
  Arrivals& arrivals = job.arrivals;
  std::int64_t submitted = 0;
  ProgressWatch watch;
  while (engine->steps() < job.most_steps) {
    if (job.enough && engine->steps() % 64 == 0 && job.enough()) break;
    if (job.replay != nullptr && job.replay->repeat(*engine, submitted)) continue;
    const std::optional<Seconds> next = arrivals.next_arrival();
    if (next && *next <= engine->now()) {
      const RequestSpec spec = arrivals.take();
      arrivals.submitted(engine->submit(spec, {}, arrivals.on_host()));
      ++submitted;
      continue;
    }
    const Stepped stepped = engine->step();
    if (stepped == Stepped::failed) return engine->status();
    if (Status status = watch.check(*engine); !status) return status;
    if (stepped == Stepped::ran) continue;
    if (!next) break;
    engine->idle_until(*next);
  }
  job.recorded.end = engine->now();
  job.recorded.learned = {engine->learned().compute, engine->learned().besides, engine->learned().learned};
  return {};
}

Expected<std::unique_ptr<GenerationEngine>> serve(const engines::System& system, const ServeJob& job) {
  if (system.knows_lengths)
    return Error{ErrorCode::unsupported, "--system",
                 "its admission uses each request's output length, which a server cannot know",
                 "a system that does not (see --list)"};
  auto thread = std::make_unique<EngineThread<RealEngine, QueueLimit, ForecastSlo>>(job.tokens, job.listener, job.queue,
                                                                                    job.forecast);
  if (job.served != nullptr) thread->tell_served(*job.served);
  // Called once for the engine, whose events are recorded, and once for each copy that looks ahead.
  bool first = true;
  const auto configure = [&](EventListener& feed) {
    if (std::exchange(first, false)) {
      job.recorded.feed = &feed;
      return RealEngine::Config{
          [&system, setup = job.setup, slo = job.slo, world = job.world](std::tuple<engines::Observer> observers) {
            return system.run(setup, slo, Cpu{world}, std::get<0>(observers));
          },
          {engines::Observer{&job.recorded}}};
    }
    return RealEngine::Config{nullptr, {engines::Observer{&feed}}};
  };
  const auto ahead = [world = job.ahead](const RealEngine& engine, const Correction& correction) {
    return Cpu{world(engine.now(), correction)};
  };
  if (job.made) job.made(*thread);
  const Status started = thread->start(configure, ahead);
  if (!started) return started.error();
  return std::unique_ptr<GenerationEngine>(std::move(thread));
}

} // namespace running
