// SPDX-License-Identifier: Apache-2.0
// serve_engine<System>: the same engine type as run_engine's, behind a server.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/serve/engine_thread.hpp"

#include "compare/config_of.hpp"
#include "run/job.hpp"
#include "run/run_engine.hpp"

#include <memory>
#include <tuple>
#include <utility>

namespace running {

template <class System>
sluice::Expected<std::unique_ptr<sluice::GenerationEngine>> serve_engine(const ServeJob& job) {
  using namespace sluice;
  using E = With<System, Believed, Cpu, Watch>;
  if constexpr (knows_lengths<E>) {
    return Error{ErrorCode::unsupported, "--system",
                 "its admission looks at how long each request will be, which a server cannot know",
                 "a system that does not; --list names them"};
  } else {
    auto thread =
        std::make_unique<EngineThread<E, QueueLimit, ForecastSlo>>(job.tokens, job.listener, job.queue, job.forecast);
    if (job.served != nullptr) thread->tell_served(*job.served);
    const auto of_copies = std::make_shared<Recorded>(); // they keep nothing
    of_copies->keeps_summary = false;
    Recorded* into = &job.recorded;
    const auto configure = [&](FeedListener& feed) {
      typename E::Config config = compared::config_of<E>(job.setup, job.slo, Cpu{job.world});
      into->feed = &feed;
      config.observers = std::tuple{Watch{std::exchange(into, of_copies.get())}};
      return config;
    };
    const auto ahead = [world = job.ahead, of_copies](const E& engine, const Correction& correction) {
      return Cpu{world(engine.now(), correction)};
    };
    const Status started = thread->start(configure, ahead);
    if (!started) return started.error();
    return std::unique_ptr<GenerationEngine>(std::move(thread));
  }
}

} // namespace running
