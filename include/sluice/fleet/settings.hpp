// SPDX-License-Identifier: Apache-2.0
// FleetSettings: what a fleet has besides its router and its engines, and the check of a whole configuration.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/fleet/failures.hpp"
#include "sluice/fleet/handoff.hpp"
#include "sluice/state/view/view.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

namespace sluice {

struct FleetSettings {
  Handoff handoff{};   ///< of a fleet with two pools
  Failures failures{}; ///< none by default
  Scaler scaler{};     ///< none by default; of the first pool
  int threads = 1;     ///< of this process; results do not depend on them
};

namespace detail {

/// `config`: a `Fleet`'s. The error is the first that is found.
template <class Config>
[[nodiscard]] Status check_fleet(const Config& config) {
  Status status;
  Tokens block{0};
  std::size_t all = 0;
  const auto bad = [&](std::string where, std::string what, std::string expected) {
    if (status.ok()) status = Error{ErrorCode::bad_input, std::move(where), std::move(what), std::move(expected)};
  };
  const auto is_time = [](Seconds one) { return one >= Seconds{0} && std::isfinite(one.count()); };
  const auto seconds = [](Seconds one) { return std::to_string(one.count()) + " s"; };
  const auto check_pool = [&](const auto& engines) {
    all += engines.size();
    if (engines.empty()) bad("fleet", "a pool has no engine", "at least one");
    for (const auto& one : engines) {
      if (block.count() == 0) block = one.limits.block_tokens;
      if (one.limits.block_tokens != block)
        bad("fleet",
            "engines have blocks of " + std::to_string(block.count()) + " and of " +
                std::to_string(one.limits.block_tokens.count()) + " tokens",
            "blocks of one size");
    }
  };
  std::apply([&](const auto&... engines) { (check_pool(engines), ...); }, config.engines);
  if constexpr (std::tuple_size_v<decltype(config.engines)> == 2) {
    const Geometry* first = nullptr;
    const auto check_kv = [&](const auto& engines) {
      for (const auto& one : engines) {
        const Geometry& kv = one.geometry;
        if (first == nullptr) first = &kv;
        if (!kv.alike())
          bad("handoff", "layers of a pool's model keep different amounts of KV",
              "a model whose layers keep the same KV");
        if (kv.layers != first->layers)
          bad("handoff",
              "engines have KV of " + std::to_string(first->layers) + " and of " + std::to_string(kv.layers) +
                  " layers",
              "engines of one model");
        if (kv.layer_block_bytes != first->layer_block_bytes)
          bad("handoff",
              "engines have layer blocks of " + std::to_string(first->layer_block_bytes.count()) + " and of " +
                  std::to_string(kv.layer_block_bytes.count()) + " bytes",
              "engines of one model, type of KV and number of devices");
      }
    };
    std::apply([&](const auto&... engines) { (check_kv(engines), ...); }, config.engines);
  }
  for (const auto& router : config.routers)
    if (const Seconds every{router.every}; !(every > Seconds{0}))
      bad("router", "its `every` is not above 0 s", "0.1 s, for example");
    else if (every < Seconds{1e-9} || !is_time(every))
      bad("router", "its `every` is " + std::string(is_time(every) ? "below a nanosecond" : "infinite"),
          "0.1 s, for example");
  if (config.routers.front().every != config.routers.back().every)
    bad("router", "the two pools' routers have windows of different lengths", "the same `every`");
  const FleetSettings& settings = config.settings;
  if (settings.scaler.first > std::get<0>(config.engines).size())
    bad("scaler", "it starts with more engines than the first pool has", "at most their number");
  if (settings.scaler.first > 0 && !(settings.scaler.every > Seconds{0}))
    bad("scaler", "it looks every 0 s", "a time above 0");
  if (!is_time(settings.scaler.delay))
    bad("scaler", "its delay is " + seconds(settings.scaler.delay), "a time from 0 s");
  if (!(settings.scaler.most_waiting >= 0))
    bad("scaler", "its most waiting requests are " + std::to_string(settings.scaler.most_waiting), "a number from 0");
  for (const Failure& failure : settings.failures.at) {
    if (!(failure.at >= Seconds{0}))
      bad("failures", "engine " + std::to_string(failure.engine) + " dies at " + seconds(failure.at),
          "a time from 0 s");
    if (failure.engine >= all)
      bad("failures", "engine " + std::to_string(failure.engine) + " dies, and there is none of that number",
          "0 to " + std::to_string(all - 1));
  }
  if (!(settings.handoff.rate > BytesPerSecond{0}))
    bad("handoff", "its rate is not above 0 bytes per second", "25 GB/s, for example");
  if (!is_time(settings.handoff.latency))
    bad("handoff", "its latency is " + seconds(settings.handoff.latency), "a time from 0 s");
  return status;
}

} // namespace detail

} // namespace sluice
