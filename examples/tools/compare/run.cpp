// SPDX-License-Identifier: Apache-2.0
#include "compare/run.hpp"

#include "sluice/engine/serve.hpp"

#include "compare/collect.hpp"
#include "compare/recorder.hpp"
#include "compare/tenants.hpp"

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// Returns the description of a livelock. A livelocked run is a result, which its row reports.
std::string livelock_of(const Status& status) {
  return !status.ok() && status.error().code == ErrorCode::livelocked ? status.error().what : "";
}

/// An engine whose driver also tells `findable` the blocks of its requests.
struct Noting : engines::SimulatedEngine {
  Noting(engines::SimulatedEngine&& engine, Findable::State* state)
      : engines::SimulatedEngine(std::move(engine)), findable(state) {}
  Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> keys) {
    Expected<RequestId> id = engines::SimulatedEngine::submit(spec, keys);
    if (id && findable != nullptr) findable->submitted(*id, spec, keys, view().limits.block_tokens);
    return id;
  }
  Findable::State* findable;
};

Status run_tenants(const System& system, const Request& request, Outcome& outcome) {
  const Tenants& tenants = *request.setup.tenants;
  std::deque<Recorder> recorders; // a deque: listeners must not move
  std::vector<engines::Simulation> simulations;
  std::vector<Requests> workloads;
  for (std::size_t i = 0; i < tenants.each.size(); ++i) {
    const Setup& setup = tenants.each[i].setup;
    simulations.push_back({setup, request.slo, request.deposit, {}, &recorders.emplace_back(request)});
    Expected<Requests> opened = setup.open(tenants.slo(request, i));
    if (!opened) return opened.error();
    workloads.push_back(*std::move(opened));
  }
  const Expected<engines::NodeEnd> ended =
      system.simulate_node({simulations, workloads, tenants.sharing, tenants.bus, tenants.order, request.tell});
  if (!ended) return ended.error();
  std::vector<const Recorded*> recorded;
  for (const Recorder& recorder : recorders) recorded.push_back(&recorder.kept);
  collect(request, {ended->composed, livelock_of(ended->status), ended->now}, recorded, outcome);
  return {};
}

} // namespace

Expected<Ended> simulate(Expected<engines::Simulated> (*simulate)(const engines::Simulation&), const Request& request,
                         EventListener& listener, Findable::State* findable) {
  Expected<engines::Simulated> made =
      simulate({request.setup, request.slo, request.deposit, request.rule, &listener, request.why});
  if (!made) return made.error();
  Expected<Requests> requests = request.setup.open(request.slo);
  if (!requests) return requests.error();
  Noting engine(std::move(made->engine), findable);
  const Status status = sluice::simulate(engine, *requests, [&request](const SimulationProgress& at) {
    request.tell(at.submitted - at.alive);
    return true;
  });
  if (!status.ok() && status.error().code != ErrorCode::livelocked) return status.error();
  return Ended{std::move(made->composed), livelock_of(status), engine.now()};
}

Status run(const System& system, const Request& request, Outcome& outcome) {
  if (request.setup.tenants) return run_tenants(system, request, outcome);
  Recorder recorder(request);
  const Expected<Ended> ended =
      simulate(system.simulate, request, recorder, request.findable ? &recorder.kept.findable : nullptr);
  if (!ended) return ended.error();
  collect(request, *ended, recorder.kept, outcome);
  return {};
}

} // namespace compared
