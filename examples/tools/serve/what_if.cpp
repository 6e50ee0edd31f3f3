// SPDX-License-Identifier: Apache-2.0
// Selects the systems with which a server replays its requests.
#include "serve/what_if.hpp"

#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include "run/engine_setup.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace serving {

using namespace sluice;

namespace {

/// Requests in memory, for an engine's run.
class Replayed final : public running::Arrivals {
 public:
  explicit Replayed(std::span<const RequestSpec> requests) : requests_(requests) {}
  [[nodiscard]] std::optional<Seconds> next_arrival() const override {
    return next_ == requests_.size() ? std::nullopt : std::optional{requests_[next_].arrival};
  }
  [[nodiscard]] RequestSpec take() override { return requests_[next_++]; }
  void submitted(const Expected<RequestId>& /*id*/) override {} // the judge receives refusals

 private:
  std::span<const RequestSpec> requests_;
  std::size_t next_ = 0;
};

/// Returns the engine type with which this program was compiled, in a world where time passes instantly.
WhatIfSystem replay_of(const engines::System& system, const Served& served, Slo slo) {
  return {std::string{system.name}, [&system, &served, slo](std::span<const RequestSpec> requests, EventListener& judge,
                                                            const std::function<bool()>& enough) {
            Replayed arrivals(requests);
            running::Recorded recorded;
            recorded.keeps_summary = false;
            recorded.feed = &judge;
            engines::Setup setup = served.setup;
            if (setup.groups != nullptr && running::needs_all_blocks(system, setup.groups->blocks) != nullptr)
              setup.geometry.groups = nullptr; // its machine would keep them
            running::Job job{setup, slo, world_of(BasicSimulated{setup.cost}), arrivals, recorded};
            job.enough = enough;
            return running::run(system, job);
          }};
}

} // namespace

Expected<std::vector<WhatIfSystem>> what_if_systems(const engines::System& own, const std::string& wanted,
                                                    const Served& served, Slo slo) {
  std::vector<WhatIfSystem> all;
  if (wanted == "none") return all;
  all.push_back(replay_of(own, served, slo));
  // The default: a server that swaps, one that rotates by lag, and one that offloads by layers.
  const std::string_view names = wanted.empty() ? "VllmSwap,SuperInfer,OrbitFlow" : std::string_view{wanted};
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    begin = end + 1;
    const Expected<const engines::System*> system = running::find_system(name);
    if (!system && wanted.empty()) continue; // this program was compiled with fewer systems
    if (!system) {
      Error error = system.error();
      error.where = "--what-if";
      return error;
    }
    const bool there = std::any_of(all.begin(), all.end(), [&](const WhatIfSystem& one) { return one.name == name; });
    if (!there) all.push_back(replay_of(**system, served, slo));
  }
  return all;
}

} // namespace serving
