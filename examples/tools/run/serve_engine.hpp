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
  using E = With<System, compared::CostChoice, Cpu, Watch>;
  if constexpr (knows_lengths<E>) {
    return Error{ErrorCode::unsupported, "--system",
                 "its admission looks at how long each request will be, which a server cannot know",
                 "a system that does not; --list names them"};
  } else {
    auto thread = std::make_unique<EngineThread<E, QueueLimit>>(job.tokens, job.listener, job.queue);
    const Status started = thread->start([&](FeedListener& feed) {
      typename E::Config config = compared::config_of<E>(job.setup, job.slo, Cpu{job.world});
      if constexpr (has_prefix_states<typename E::Config>) config.placement.states = PrefixStates::passed;
      job.recorded.feed = &feed;
      config.observers = std::tuple{Watch{&job.recorded}};
      return config;
    });
    if (!started) return started.error();
    return std::unique_ptr<GenerationEngine>(std::move(thread));
  }
}

} // namespace running
