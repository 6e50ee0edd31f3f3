// SPDX-License-Identifier: Apache-2.0
// Findable: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/observer/findable.hpp"
#include "sluice/report/observer/metrics.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE void Findable::State::submitted(RequestId id, const RequestSpec& spec, std::span<const BlockKey> keys,
                                              Tokens block_tokens) {
  if (index(id) >= uses.size()) uses.resize(std::size_t{index(id)} + 1);
  Use& use = uses[index(id)];
  const auto blocks = [&](Tokens tokens) {
    return std::min(keys.size(), static_cast<std::size_t>(tokens.count() / block_tokens.count()));
  };
  const auto known = keys.first(blocks(spec.prompt + spec.output - Tokens{1}));
  use.keys.assign(known.begin(), known.end());
  use.looked_up = blocks(spec.prompt - Tokens{1});
  use.prompt = spec.prompt;
  use.life.begin = spec.arrival;
}

SLUICE_INLINE double Findable::State::share(TokenBlocks capacity, Tokens block_tokens) const {
  std::vector<const Use*> order;
  for (const Use& use : uses)
    if (!use.keys.empty()) order.push_back(&use);
  std::stable_sort(order.begin(), order.end(),
                   [](const Use* a, const Use* b) { return a->life.begin < b->life.begin; });
  std::vector<PrefixUse> requests;
  std::vector<Lifetime> lives;
  for (const Use* use : order) {
    requests.push_back({use->keys, use->served ? use->looked_up : 0});
    lives.push_back(use->life);
  }
  double prompts = 0;
  for (const Use& use : uses) prompts += use.served ? static_cast<double>(use.prompt.count()) : 0;
  if (prompts <= 0) return Metrics::absent;
  return static_cast<double>(belady_hits(requests, capacity, lives) * block_tokens.count()) / prompts;
}

SLUICE_INLINE void Findable::on(State& state, const events::Refused& event) const {
  if (index(event.id) < state.uses.size()) state.uses[index(event.id)].life.end = event.now;
}

SLUICE_INLINE void Findable::on(State& state, const events::Ended& event) const {
  Use& use = joined(state, event.row);
  use.life.end = event.now;
  use.served = true;
}

SLUICE_INLINE Findable::Use& Findable::joined(State& state, const RequestRow& row) {
  SLUICE_ASSERT(index(row.id) < state.uses.size(), "a driver that calls submitted for each request");
  Use& use = state.uses[index(row.id)];
  if (!use.joined) use.life.begin = row.running_since;
  use.joined = true;
  return use;
}

} // namespace sluice
