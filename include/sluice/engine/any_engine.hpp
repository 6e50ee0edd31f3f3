// SPDX-License-Identifier: Apache-2.0
// AnyEngine: an engine whose policies are chosen at run time, for programs that link engines instead of compiling them.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/fork.hpp"
#include "sluice/engine/with.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// Any engine on the backend `Backend` with the cost model `Cost` and the one observer `ObserverP`; the other policies
/// are behind virtual calls, a few per step. What an engine does is what the same type does by itself.
///
/// `EngineThread`, `simulate` and everything else that steps an engine accept an AnyEngine, and are then compiled once
/// for all systems. Rejected: erasing backend, cost model and observer as well. A kind of run has one of each, and the
/// backend decides at compile time whether time is virtual.
template <class Backend, class Cost, class ObserverP>
class AnyEngine {
 public:
  using backend_type = Backend;
  using cost_type = Cost;
  using observer_values = std::tuple<ObserverP>;

  /// How to make an engine: a function, so that a Config says nothing of the policies. `observers` replace those that
  /// the engine's own configuration has.
  struct Config {
    std::function<Expected<AnyEngine>(observer_values)> make;
    observer_values observers{};
  };
  static Expected<AnyEngine> make(Config config) { return config.make(std::move(config.observers)); }

  template <class C>
    requires std::is_same_v<typename C::backend_type, Backend> && std::is_same_v<typename C::cost_type, Cost> &&
        std::is_same_v<typename C::observer_values, observer_values>
  explicit AnyEngine(BasicEngine<C> engine)
      : engine_(std::make_unique<Model<BasicEngine<C>>>([&engine] { return std::move(engine); })) {}
  /// For `BasicEngine::make_in`.
  template <class C>
  AnyEngine(typename BasicEngine<C>::Checked checked, EngineConfig<C>&& config)
      : engine_(std::make_unique<Model<BasicEngine<C>>>([&] { return BasicEngine<C>(checked, std::move(config)); })) {}

  /// As the functions of that name of BasicEngine.
  [[nodiscard]] Status load() { return engine_->load(); }
  [[nodiscard]] AnyEngine fork(Backend backend, observer_values observers) const {
    return AnyEngine{engine_->fork(std::move(backend), std::move(observers))};
  }
  Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys = {},
                             Tokens on_host = Tokens{0}, Tokens arrived = Tokens{0}) {
    return engine_->submit(spec, prompt_keys, on_host, arrived);
  }
  void take_answers(std::vector<Answered>& answers) { engine_->take_answers(answers); }
  [[nodiscard]] Tokens would_load(const RequestSpec& spec, const FoundPrefix& found) {
    return engine_->would_load(spec, found);
  }
  Status cancel(RequestId id) { return engine_->cancel(id); }
  Stepped step() { return engine_->step(); }
  Begun begin() { return engine_->begin(); }
  void finish(const Surroundings& around = {}) { engine_->finish(around); }
  [[nodiscard]] Seconds next_due() const { return engine_->next_due(); }
  [[nodiscard]] Seconds next_load() const { return engine_->next_load(); }
  void release_due(Seconds until) { engine_->release_due(until); }
  void idle_until(Seconds when) { engine_->idle_until(when); }
  void idle_until(Seconds when, Doorbell& bell) requires is_real_time<Backend> { engine_->idle_until(when, bell); }
  [[nodiscard]] Seconds now() const { return engine_->now(); }
  [[nodiscard]] const Status& status() const { return engine_->status(); }
  [[nodiscard]] View view() const { return engine_->view(); }
  [[nodiscard]] std::size_t finds(std::span<const BlockKey> keys) const { return engine_->finds(keys); }
  [[nodiscard]] bool may_find(std::span<const BlockKey> keys) const { return engine_->may_find(keys); }
  [[nodiscard]] EngineCounts counts() const { return engine_->counts(); }
  [[nodiscard]] std::int64_t alive() const { return engine_->alive(); }
  [[nodiscard]] std::int64_t steps() const { return engine_->steps(); }
  [[nodiscard]] const typename Cost::State& learned() const { return engine_->learned(); }
  template <class O>
    requires std::is_same_v<O, ObserverP>
  [[nodiscard]] const typename O::State& observed() const { return engine_->observed(); }
  /// `sluice::heeds_priority` of the engine's type.
  [[nodiscard]] bool heeds_priority() const { return engine_->heeds_priority(); }
  /// `sluice::hints_read` of the engine.
  [[nodiscard]] HintSet hints_read() const { return engine_->hints_read(); }

 private:
  struct Interface {
    Interface() = default;
    Interface(const Interface&) = delete;
    Interface& operator=(const Interface&) = delete;
    virtual ~Interface() = default;

    virtual Status load() = 0;
    [[nodiscard]] virtual std::unique_ptr<Interface> fork(Backend backend, observer_values observers) const = 0;
    virtual Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys, Tokens on_host,
                                       Tokens arrived) = 0;
    virtual void take_answers(std::vector<Answered>& answers) = 0;
    virtual Tokens would_load(const RequestSpec& spec, const FoundPrefix& found) = 0;
    virtual Status cancel(RequestId id) = 0;
    virtual Stepped step() = 0;
    virtual Begun begin() = 0;
    virtual void finish(const Surroundings& around) = 0;
    [[nodiscard]] virtual Seconds next_due() const = 0;
    [[nodiscard]] virtual Seconds next_load() const = 0;
    virtual void release_due(Seconds until) = 0;
    virtual void idle_until(Seconds when) = 0;
    virtual void idle_until(Seconds when, Doorbell& bell) = 0;
    [[nodiscard]] virtual Seconds now() const = 0;
    [[nodiscard]] virtual const Status& status() const = 0;
    [[nodiscard]] virtual View view() const = 0;
    [[nodiscard]] virtual std::size_t finds(std::span<const BlockKey> keys) const = 0;
    [[nodiscard]] virtual bool may_find(std::span<const BlockKey> keys) const = 0;
    [[nodiscard]] virtual EngineCounts counts() const = 0;
    [[nodiscard]] virtual std::int64_t alive() const = 0;
    [[nodiscard]] virtual std::int64_t steps() const = 0;
    [[nodiscard]] virtual const typename Cost::State& learned() const = 0;
    [[nodiscard]] virtual const typename ObserverP::State& observed() const = 0;
    [[nodiscard]] virtual bool heeds_priority() const = 0;
    [[nodiscard]] virtual HintSet hints_read() const = 0;
  };

  template <class E>
  struct Model final : Interface {
    /// What `make` returns becomes the engine without a move.
    template <class Make>
    explicit Model(Make make) : engine(make()) {}

    Status load() override { return engine.load(); }
    std::unique_ptr<Interface> fork(Backend backend, observer_values observers) const override {
      return std::make_unique<Model>([&] { return engine.fork(std::move(backend), std::move(observers)); });
    }
    Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys, Tokens on_host,
                               Tokens arrived) override {
      return engine.submit(spec, prompt_keys, on_host, arrived);
    }
    void take_answers(std::vector<Answered>& answers) override { engine.take_answers(answers); }
    Tokens would_load(const RequestSpec& spec, const FoundPrefix& found) override {
      return engine.would_load(spec, found);
    }
    Status cancel(RequestId id) override { return engine.cancel(id); }
    Stepped step() override { return engine.step(); }
    Begun begin() override { return engine.begin(); }
    void finish(const Surroundings& around) override { engine.finish(around); }
    Seconds next_due() const override { return engine.next_due(); }
    Seconds next_load() const override { return engine.next_load(); }
    void release_due(Seconds until) override { engine.release_due(until); }
    void idle_until(Seconds when) override { engine.idle_until(when); }
    void idle_until(Seconds when, [[maybe_unused]] Doorbell& bell) override {
      if constexpr (is_real_time<Backend>)
        engine.idle_until(when, bell);
      else
        engine.idle_until(when);
    }
    Seconds now() const override { return engine.now(); }
    const Status& status() const override { return engine.status(); }
    View view() const override { return engine.view(); }
    std::size_t finds(std::span<const BlockKey> keys) const override { return engine.finds(keys); }
    bool may_find(std::span<const BlockKey> keys) const override { return engine.may_find(keys); }
    EngineCounts counts() const override { return engine.counts(); }
    std::int64_t alive() const override { return engine.alive(); }
    std::int64_t steps() const override { return engine.steps(); }
    const typename Cost::State& learned() const override { return engine.learned(); }
    const typename ObserverP::State& observed() const override { return engine.template observed<ObserverP>(); }
    bool heeds_priority() const override { return sluice::heeds_priority<E>; }
    HintSet hints_read() const override { return sluice::hints_read(engine); }

    E engine;
  };

  explicit AnyEngine(std::unique_ptr<Interface> engine) : engine_(std::move(engine)) {}

  std::unique_ptr<Interface> engine_;
};

/// Makes an engine of the type `E` and hides the type. Errors: as `E::make`.
template <class E>
[[nodiscard]] auto make_any(typename E::Config config) -> Expected<
    AnyEngine<typename E::backend_type, typename E::cost_type, std::tuple_element_t<0, typename E::observer_values>>> {
  return E::template make_in<
      AnyEngine<typename E::backend_type, typename E::cost_type, std::tuple_element_t<0, typename E::observer_values>>>(
      std::move(config));
}

/// As for an engine type that is known (engine/with.hpp).
template <class B, class Co, class O>
[[nodiscard]] bool orders_by_priority(const AnyEngine<B, Co, O>& engine) {
  return engine.heeds_priority();
}
template <class B, class Co, class O>
[[nodiscard]] HintSet hints_read(const AnyEngine<B, Co, O>& engine) {
  return engine.hints_read();
}

} // namespace sluice
