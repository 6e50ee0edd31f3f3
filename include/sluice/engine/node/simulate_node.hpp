// SPDX-License-Identifier: Apache-2.0
// simulate_node: runs tenants' workloads through a node, from the first arrival to the last token.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/node/node.hpp"
#include "sluice/engine/progress_watch.hpp"
#include "sluice/engine/serve.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// Runs the requests of `readers`, one per engine, through `node`. Each request is submitted when it arrives. The
/// traces are read on demand, each one request ahead.
///
/// `tell(SimulationProgress)` is called every `tell_every` events and at the end; it returns false to stop. Errors: an
/// unreadable trace, and an engine without progress (`ErrorCode::livelocked`). A refused request is none.
template <class N, class Reader, class Tell>
  requires TraceReader<Reader> Status simulate_node(N& node, std::array<Reader, N::count>& readers, Tell&& tell,
                                                    std::int64_t tell_every = 4096) {
    if (std::any_of(readers.begin(), readers.end(), [](const Reader& one) { return arrivals_in_steps(one); }))
      return Error{ErrorCode::bad_input, "arrivals", "they count engine steps, and engines of a node share one clock",
                   "arrivals in seconds"};
    std::int64_t submitted = 0;
    std::vector<ClosedLoop<Reader>> loops;
    node.for_each_engine(
        [&](std::size_t i, const auto& engine) { loops.emplace_back(readers[i], engine.view().limits.block_tokens); });
    std::vector<Answered> answers;
    std::array<ProgressWatch, N::count> watches;
    const auto progress = [&] { return SimulationProgress{submitted, node.alive(), node.steps(), node.now()}; };
    for (auto& loop : loops)
      if (Status status = loop.start(); !status) return status;
    for (std::int64_t events = 1;; ++events) {
      Seconds arrival{std::numeric_limits<double>::infinity()};
      for (std::size_t i = 0; i < N::count; ++i) {
        node.take_answers(i, answers);
        for (const Answered& answer : answers) loops[i].answered(answer);
        std::optional<Seconds> next = loops[i].next();
        for (; next && *next <= node.now(); next = loops[i].next()) {
          Expected<KeyedRequest> request = loops[i].take(node.now());
          if (!request) return request.error();
          node.submit(i, *std::move(request));
          ++submitted;
        }
        if (next) arrival = std::min(arrival, *next);
      }
      node.launch();
      if (!node.status().ok()) return node.status();
      Status moves;
      node.for_each_engine([&](std::size_t i, const auto& engine) {
        if (Status status = watches[i].check(engine); !status && moves.ok()) moves = status;
      });
      if (!moves.ok()) return moves;
      if (node.has_answers()) continue; // a refusal may bring the next request of its session
      const Seconds event = std::min(arrival, node.next_event());
      if (event == Seconds{std::numeric_limits<double>::infinity()}) break;
      node.advance(event);
      if (events % tell_every == 0 && !tell(progress())) return {};
    }
    tell(progress());
    return {};
  }

template <class N, class Reader>
  requires TraceReader<Reader> Status simulate_node(N& node, std::array<Reader, N::count>& readers) {
    return simulate_node(node, readers, [](const SimulationProgress&) { return true; });
  }

} // namespace sluice
