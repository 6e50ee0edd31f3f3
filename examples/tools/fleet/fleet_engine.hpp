// SPDX-License-Identifier: Apache-2.0
// FleetEngine: an engine of the registry as a fleet runs it, so that a fleet is compiled once for all systems.
#pragma once

#include "sluice/fleet/pool.hpp"
#include "sluice/report/observer/any_observer.hpp"

#include "engines/system.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace fleets {

/// What one engine told beyond the ends of its requests.
struct Told {
  std::vector<double> tokens;                                    ///< delivered, by second of the run
  std::vector<std::pair<std::uint32_t, sluice::Seconds>> firsts; ///< each session's first token here
};

/// An engine of any system, with the functions that `sluice::Pool` calls.
class FleetEngine {
 public:
  struct composition {
    using observer_types = sluice::Parts<>;
  };
  struct Config {
    const engines::System* system = nullptr;
    const engines::Setup* setup = nullptr; ///< outlives the engine
    sluice::Slo slo{};
    bool deposit = false;
    sluice::Limits limits{};     ///< the setup's
    sluice::Geometry geometry{}; ///< the setup's
    Told* told = nullptr;        ///< null: only ends are kept
    sluice::Seconds copies{0};   ///< for which a connector that copies a request's arrived KV holds up the engine
    std::tuple<sluice::FleetWatch> observers{};
  };

  /// Makes an `In` from an engine. Errors: those of `System::simulate`.
  template <class In>
  static sluice::Expected<In> make_in(Config config) {
    auto listener = std::make_unique<Listener>(std::get<0>(config.observers), config.told);
    sluice::Expected<engines::Simulated> made =
        config.system->simulate({*config.setup, config.slo, config.deposit, {}, listener.get()});
    if (!made) return made.error();
    return In(FleetEngine(std::move(made->engine), std::move(listener), config.setup->cost, config.copies));
  }

  sluice::Expected<sluice::RequestId> submit(const sluice::RequestSpec& spec, std::span<const sluice::BlockKey> keys,
                                             sluice::Tokens on_host, sluice::Tokens arrived) {
    if (arrived > sluice::Tokens{0} && copies_ > sluice::Seconds{0}) engine_.idle_until(engine_.now() + copies_);
    return engine_.submit(spec, keys, on_host, arrived);
  }
  sluice::Stepped step() { return engine_.step(); }
  void idle_until(sluice::Seconds when) { engine_.idle_until(when); }
  [[nodiscard]] sluice::Seconds now() const { return engine_.now(); }
  [[nodiscard]] sluice::Seconds next_load() const { return engine_.next_load(); }
  [[nodiscard]] const sluice::Status& status() const { return engine_.status(); }
  [[nodiscard]] sluice::View view() const { return engine_.view(); }
  [[nodiscard]] std::size_t finds(std::span<const sluice::BlockKey> keys) const { return engine_.finds(keys); }
  [[nodiscard]] bool may_find(std::span<const sluice::BlockKey> keys) const { return engine_.may_find(keys); }
  [[nodiscard]] sluice::EngineCounts counts() const { return engine_.counts(); }
  [[nodiscard]] std::int64_t alive() const { return engine_.alive(); }
  [[nodiscard]] std::int64_t steps() const { return engine_.steps(); }
  [[nodiscard]] const engines::CostChoice& predictor() const { return cost_; }
  /// Why it refused a request first; empty if it refused none.
  [[nodiscard]] const std::string& refusal() const { return listener_->refusal; }

 private:
  /// Forwards to the fleet's watch, and notes tokens and the first refusal.
  struct Listener final : sluice::EventListener {
    Listener(sluice::FleetWatch to, Told* notes) : watch(to), told(notes) {}
    void hear(const sluice::AnyEvent& event) override {
      sluice::tell(watch, state, event);
      if (const auto* refused = event.get<sluice::events::Refused>(); refused != nullptr && refusal.empty())
        refusal = refused->reason;
      if (told == nullptr) return;
      if (const auto* delivered = event.get<sluice::events::Delivered>()) {
        const auto second = static_cast<std::size_t>(delivered->when.count());
        if (told->tokens.size() <= second) told->tokens.resize(second + 1);
        told->tokens[second] += static_cast<double>(delivered->count.count());
        if (delivered->row.delivered == delivered->count)
          told->firsts.emplace_back(delivered->row.spec.session, delivered->when);
      }
    }
    sluice::FleetWatch watch;
    sluice::FleetWatch::State state;
    Told* told;
    std::string refusal{};
  };

  FleetEngine(engines::SimulatedEngine engine, std::unique_ptr<Listener> listener, engines::CostChoice cost,
              sluice::Seconds copies)
      : listener_(std::move(listener)), engine_(std::move(engine)), cost_(std::move(cost)), copies_(copies) {}

  std::unique_ptr<Listener> listener_; ///< the engine has its address
  engines::SimulatedEngine engine_;
  engines::CostChoice cost_;
  sluice::Seconds copies_;
};

} // namespace fleets

/// It watches already.
template <>
struct sluice::detail::WatchedEngine<fleets::FleetEngine, sluice::Parts<>> {
  using type = fleets::FleetEngine;
};
