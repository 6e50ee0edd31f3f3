// SPDX-License-Identifier: Apache-2.0
// replay: serves the requests of a recording under vLLM's composition, and compares when their tokens came.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/engine/node/lock_step.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/fleet/group_front.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include "validate/prompts.hpp"
#include "validate/world.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace recorded {

/// vLLM as recorded: with automatic prefix caching (its default) or without, and deciding one step ahead or in step.
using Gpu = sluice::BasicSimulated<World>;
template <class Base, class Lookahead>
using Recorded = sluice::With<Base, Gpu, World, Lookahead, sluice::Summary>;

/// One engine behind the interface of a group.
template <class E>
class Alone {
 public:
  explicit Alone(E engine) : engine_(std::move(engine)) {}
  [[nodiscard]] std::size_t size() const { return 1; }
  [[nodiscard]] const E& rank(std::size_t /*i*/) const { return engine_; }
  [[nodiscard]] sluice::Seconds now() const { return engine_.now(); }
  [[nodiscard]] const sluice::Status& status() const { return engine_.status(); }
  [[nodiscard]] std::int64_t alive() const { return engine_.alive(); }
  sluice::Expected<sluice::RequestId> submit(std::size_t /*rank*/, const sluice::RequestSpec& spec,
                                             std::span<const sluice::BlockKey> keys) {
    return engine_.submit(spec, keys);
  }
  void idle_until(sluice::Seconds when) { engine_.idle_until(when); }
  sluice::Stepped step() { return engine_.step(); }

 private:
  E engine_;
};

/// When a request's client sent it and got its tokens, in seconds of the replay.
struct Served {
  double sent = 0, first = 0, last = 0;
  std::int64_t tokens = 0;
};

/// A request reaches the engine `front_end` after its client has sent it (and counts as in flight from then on). A
/// client sends a request when its time has come, and not before fewer than `in_flight` of its requests are under way
/// (0: no limit), as a load generator with a maximum concurrency does.
template <class Group>
sluice::Expected<std::vector<Served>> drive(Group group, const std::vector<sluice::VllmRunRecord>& records,
                                            const std::vector<sluice::Seconds>& due, const PromptKeys& prompts,
                                            std::int64_t in_flight, sluice::Seconds front_end) {
  using namespace sluice;
  GroupFront<LeastLoaded> front;
  std::vector<std::pair<std::size_t, RequestId>> places; // rank and id of each record
  std::vector<Seconds> sent;
  const auto full = [&] { return in_flight > 0 && group.alive() >= in_flight; };
  Seconds room_since{0}; // with a limit: since when the client may send
  for (std::size_t next = 0;;) {
    const auto arrives = [&] { return std::max(due[next], room_since) + front_end; };
    for (; next < records.size() && arrives() <= group.now() && !full(); ++next) {
      const Seconds when = std::max(due[next], room_since);
      const RequestSpec spec{when + front_end, records[next].prompt, records[next].output, {}};
      const std::span<const BlockKey> keys = prompts.empty() ? std::span<const BlockKey>{} : prompts[next];
      const std::size_t rank = group.size() == 1 ? 0 : front.choose(group, spec, keys);
      const Expected<RequestId> id = group.submit(rank, spec, keys);
      if (!id) return id.error();
      places.emplace_back(rank, *id);
      sent.push_back(when);
    }
    const bool was_full = full();
    const Stepped stepped = group.step();
    if (was_full && !full()) room_since = group.now();
    if (stepped == Stepped::failed) return group.status().error();
    if (stepped == Stepped::ran) continue;
    if (next == records.size()) break;
    group.idle_until(arrives());
  }
  std::vector<Served> served;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& [rank, id] = places[i];
    const RequestRecord& record = group.rank(rank).template observed<Summary>().requests[index(id)];
    served.push_back({sent[i].count(), record.first.count(), record.last.count(), record.delivered.count()});
  }
  return served;
}

/// Serves the records in `world`; `due` says when their client wants to send them.
template <class E>
sluice::Expected<std::vector<Served>> replay_on(const Server& server, const Mechanisms& mechanisms,
                                                const BuiltWorld& world,
                                                const std::vector<sluice::VllmRunRecord>& records,
                                                const std::vector<sluice::Seconds>& due, const PromptKeys& prompts) {
  using namespace sluice;
  const ModelShape& shape = world.shape;
  const auto make = [&] {
    typename E::Config config{
        .limits = server.limits,
        .geometry = {shape.layers, shape.layer_block_bytes(server.limits.block_tokens), shape.layer_weight_bytes()},
        .device_blocks = across_layers(server.kv_blocks, shape.layers),
        .cost = world.rank,
        .backend = Gpu(world.rank)};
    // vLLM's scheduler is faster than the shortest iteration, and finds nothing that takes a search.
    config.lookahead.per_effort = Seconds{0};
    return E::make(std::move(config));
  };
  const std::int64_t in_flight = mechanisms.closed ? server.in_flight : 0;
  if (!world.group) {
    Expected<E> engine = make();
    if (!engine) return engine.error();
    return drive(Alone<E>(std::move(*engine)), records, due, prompts, in_flight, Seconds{server.front_end_s});
  }
  std::vector<E> ranks;
  for (int i = 0; i < server.data_parallel; ++i) {
    Expected<E> engine = make();
    if (!engine) return engine.error();
    ranks.push_back(std::move(*engine));
  }
  return drive(LockStep<E, ExpertParallel>(std::move(ranks), *world.group), records, due, prompts, in_flight,
               Seconds{server.front_end_s});
}

inline sluice::Expected<std::vector<Served>> replay(const Server& server, const Mechanisms& mechanisms,
                                                    const BuiltWorld& world,
                                                    const std::vector<sluice::VllmRunRecord>& records,
                                                    const std::vector<sluice::Seconds>& due,
                                                    const PromptKeys& prompts) {
  using namespace sluice;
  const bool ahead = mechanisms.ahead && server.async_scheduling;
  const auto on = [&]<class E>(E*) { return replay_on<E>(server, mechanisms, world, records, due, prompts); };
  if (server.prefix_caching)
    return ahead ? on(static_cast<Recorded<VllmPrefixCaching, OneStepAhead>*>(nullptr))
                 : on(static_cast<Recorded<VllmPrefixCaching, InStep>*>(nullptr));
  return ahead ? on(static_cast<Recorded<VllmRecompute, OneStepAhead>*>(nullptr))
               : on(static_cast<Recorded<VllmRecompute, InStep>*>(nullptr));
}

} // namespace recorded
