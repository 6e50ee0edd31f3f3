// SPDX-License-Identifier: Apache-2.0
// simulate: runs a workload through an engine, from the first arrival to the last token.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/closed_loop.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/progress_watch.hpp"
#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// What `simulate` reports while it runs.
struct SimulationProgress {
  std::int64_t submitted = 0;
  std::int64_t alive = 0; ///< submitted, and neither ended nor refused
  std::int64_t steps = 0;
  Seconds now{0};
};

/// Runs the requests of `reader` through `engine`. Each is submitted when the engine's clock has reached its arrival;
/// the engine idles while no request can run. The trace is read on demand, one request ahead. In a session, a request
/// arrives when the one before it has been answered and its delay is over.
///
/// A refused request is no error; observers see it. Errors: an unreadable trace, a policy's impossible answer
/// (`BasicEngine::status`), and an engine without progress (`ErrorCode::livelocked`); observers keep what was served
/// until then. `tell` is called every `tell_every` iterations and at the end with a SimulationProgress; it returns
/// false to stop.
template <class E, TraceReader Reader, class Tell>
Status simulate(E& engine, Reader& reader, Tell&& tell, std::int64_t tell_every = 4096) {
  std::int64_t submitted = 0;
  const auto progress = [&] { return SimulationProgress{submitted, engine.alive(), engine.steps(), engine.now()}; };
  ProgressWatch watch;
  ClosedLoop<Reader> loop(reader, engine.view().limits.block_tokens);
  if (Status status = loop.start(); !status) return status;
  std::vector<Answered> answers;
  engine.take_answers(answers); // from now on the engine keeps them
  for (;;) {
    for (std::optional<Seconds> next = loop.next(); next && *next <= engine.now(); next = loop.next()) {
      const Expected<KeyedRequest> request = loop.take();
      if (!request) return request.error();
      if (!engine.submit(request->spec, request->keys)) loop.answered({request->spec.session, engine.now()});
      ++submitted;
    }
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) return engine.status();
    if (Status status = watch.check(engine); !status) return status;
    engine.take_answers(answers);
    for (const Answered& answer : answers) loop.answered(answer);
    if (stepped == Stepped::idle && answers.empty()) {
      const std::optional<Seconds> next = loop.next();
      const Seconds loaded = engine.next_load();
      if (!next && loaded == never_due) break;
      engine.idle_until(next ? std::min(*next, loaded) : loaded);
    }
    if (engine.steps() % tell_every == 0 && !tell(progress())) return {};
  }
  tell(progress());
  return {};
}

template <class E, TraceReader Reader>
Status simulate(E& engine, Reader& reader) {
  return simulate(engine, reader, [](const SimulationProgress&) { return true; });
}

} // namespace sluice
