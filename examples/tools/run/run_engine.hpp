// SPDX-License-Identifier: Apache-2.0
// run_engine<System>: the system's engine type on the CPU backend, from its first request to its last.
#pragma once

#include "sluice/cost/calibrated.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/progress_watch.hpp"

#include "compare/config_of.hpp"
#include "run/job.hpp"

#include <cstdint>
#include <tuple>
#include <utility>

namespace running {

/// Whether the system makes K and V of a prefix again: an iteration's buffers then need rows for it. Of a placement
/// that forgets KV (eLLM), or a retention that keeps hidden states instead (HCache).
template <class System>
inline constexpr bool rebuilds_kv = requires(typename System::Config config) {
  config.placement.states;
}
|| System::composition::retention_type::keeps_hidden;

/// What planners of a machine believe: what was measured before the run, and with `Setup::calibrates` what its
/// iterations show.
using Believed = sluice::Calibrated<compared::CostChoice>;

/// `Cpu` is the backend's name whatever the machine computes on: a handle of one real backend is that of another (an
/// engine sees a BackendWorld and nothing of a device), and thirty systems are not compiled twice for a name.
template <class System>
sluice::Status run_engine(const Job& job) {
  using namespace sluice;
  using E = With<System, Believed, Cpu, Watch>;
  typename E::Config config = compared::config_of<E>(job.setup, job.slo, Cpu{job.world});
  config.observers = std::tuple{Watch{&job.recorded}};
  Expected<E> engine = E::make(std::move(config));
  if (!engine) return engine.error();
  Arrivals& arrivals = job.arrivals;
  std::int64_t submitted = 0;
  ProgressWatch watch;
  while (engine->steps() < job.most_steps) {
    if (job.enough && engine->steps() % 64 == 0 && job.enough()) break;
    if (job.replay != nullptr && job.replay->repeat(*engine, submitted)) continue;
    const std::optional<Seconds> next = arrivals.next_arrival();
    if (next && *next <= engine->now()) {
      arrivals.submitted(engine->submit(arrivals.take()));
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

} // namespace running
