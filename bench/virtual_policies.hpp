// SPDX-License-Identifier: Apache-2.0
// Virtual policies: every role that is an object, behind an abstract base. They show the cost of an engine whose
// policies are chosen at run time, for the comparison in bench_engine. They are no part of the library.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/world/simulated.hpp"

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

// Each role has three parts: the interface; `…Object<P>`, a policy of Sluice with its state, behind it; and a policy
// that meets the role's concept by forwarding. The transfer rule and the layout stay types: they have no object, and
// are called within loops that would have to be duplicated for each of them.
namespace sluice::bench {

template <class Interface, class Object>
[[gnu::noinline]] std::shared_ptr<Interface> make_object() { // in one function that the optimizer cannot inline
  return std::make_shared<Object>();
}

// ---- cost
// ------------------------------------------------------------------------------------------------------------
struct CostInterface {
  virtual ~CostInterface() = default;
  virtual StepTime step(const Work& work) const = 0;
  virtual LinkCost link() const = 0;
  virtual void observe(const Observation& observation) = 0;
};
template <class P>
struct CostObject final : CostInterface {
  explicit CostObject(P model) : policy(std::move(model)) {}
  StepTime step(const Work& work) const override { return policy.predictor(state).step(work); }
  LinkCost link() const override { return policy.predictor(state).link(); }
  void observe(const Observation& observation) override { policy.observe(state, observation); }
  P policy;
  typename P::State state;
};
struct VirtualCost {
  using role = roles::Cost;
  struct State {};
  std::shared_ptr<CostInterface> object;
  [[nodiscard]] StepTime step(const Work& work) const { return object->step(work); }
  [[nodiscard]] LinkCost link() const { return object->link(); }
  [[nodiscard]] const VirtualCost& predictor(const State&) const { return *this; }
  void observe(State&, const Observation& observation) const { object->observe(observation); }
};

// ---- admission
// -------------------------------------------------------------------------------------------------------
struct AdmissionInterface {
  virtual ~AdmissionInterface() = default;
  virtual void enter(Slot slot, const RequestRow& row) = 0;
  virtual void leave(Slot slot, const RequestRow& row) = 0;
  virtual void propose(const View& view, Proposal& proposal) = 0;
  virtual void settle(const View& view, std::span<Claim> accepted) const = 0;
};
template <class P>
struct AdmissionObject final : AdmissionInterface {
  void enter(Slot slot, const RequestRow& row) override { policy.enter(state, slot, row); }
  void leave(Slot slot, const RequestRow& row) override { policy.leave(state, slot, row); }
  void propose(const View& view, Proposal& proposal) override { policy.propose(view, state, proposal); }
  void settle(const View& view, std::span<Claim> accepted) const override { policy.settle(view, accepted); }
  P policy;
  typename P::State state;
};
template <class P>
struct VirtualAdmission {
  using role = roles::Admission;
  static constexpr bool knows_lengths = P::knows_lengths;
  static constexpr bool steady = P::steady; // a fact about the engine's code, not about one call
  struct State {};
  std::shared_ptr<AdmissionInterface> object = make_object<AdmissionInterface, AdmissionObject<P>>();
  void enter(State&, Slot slot, const RequestRow& row) const { object->enter(slot, row); }
  void leave(State&, Slot slot, const RequestRow& row) const { object->leave(slot, row); }
  void propose(const View& view, State&, Proposal& proposal) const { object->propose(view, proposal); }
  void settle(const View& view, std::span<Claim> accepted) const { object->settle(view, accepted); }
};

// ---- placement
// -------------------------------------------------------------------------------------------------------
using VirtualTask = PlacementTask<VirtualCost, DeadlinePool, PerLayer>;
struct PlacementInterface {
  virtual ~PlacementInterface() = default;
  virtual Verdict solve(const VirtualTask& task, Plan& plan) = 0;
  virtual Holding least(int layers) const = 0;
};
template <class P>
struct PlacementObject final : PlacementInterface {
  Verdict solve(const VirtualTask& task, Plan& plan) override { return policy.solve(task, state, plan); }
  Holding least(int layers) const override { return policy.least(layers); }
  P policy;
  typename P::template State<DeadlinePool> state;
};
template <class P>
struct VirtualPlacement {
  using role = roles::Placement;
  static constexpr bool places_layers = P::places_layers;
  template <class>
  struct State {};
  std::shared_ptr<PlacementInterface> object = make_object<PlacementInterface, PlacementObject<P>>();
  [[nodiscard]] Holding least(int layers) const { return object->least(layers); }
  template <class Task, class S>
  Verdict solve(const Task& task, S&, Plan& plan) const {
    if constexpr (std::is_same_v<Task, VirtualTask>)
      return object->solve(task, plan);
    else
      return {};
  }
};

// ---- replan
// ----------------------------------------------------------------------------------------------------------
struct ReplanInterface {
  virtual ~ReplanInterface() = default;
  virtual bool due(const View& view, std::uint64_t candidates) const = 0;
  virtual Window window() const = 0;
  virtual void observe(Seconds predicted, Seconds measured) = 0;
  virtual void planned() = 0;
};
template <class P>
struct ReplanObject final : ReplanInterface {
  bool due(const View& view, std::uint64_t candidates) const override { return policy.due(view, state, candidates); }
  Window window() const override { return policy.window(); }
  void observe(Seconds predicted, Seconds measured) override { policy.observe(state, predicted, measured); }
  void planned() override { policy.planned(state); }
  P policy;
  typename P::State state;
};
template <class P>
struct VirtualReplan {
  using role = roles::Replan;
  struct State {};
  std::shared_ptr<ReplanInterface> object = make_object<ReplanInterface, ReplanObject<P>>();
  bool due(const View& view, const State&, std::uint64_t candidates) const { return object->due(view, candidates); }
  [[nodiscard]] Window window() const { return object->window(); }
  void observe(State&, Seconds predicted, Seconds measured) const { object->observe(predicted, measured); }
  void planned(State&) const { object->planned(); }
};

// ---- weights, relief, retention, lookahead
// -----------------------------------------------------------------------------
struct WeightsInterface {
  virtual ~WeightsInterface() = default;
  virtual void offer(const View& view, LayerBlocks demand, std::vector<WeightsLevel>& levels) = 0;
  virtual LayerBlocks most_freed(const Geometry& geometry) const = 0;
};
template <class P>
struct WeightsObject final : WeightsInterface {
  struct Task { // the task as a virtual call passes it, without template parameters
    const View& view;
    LayerBlocks demand;
  };
  void offer(const View& view, LayerBlocks demand, std::vector<WeightsLevel>& levels) override {
    policy.offer(Task{view, demand}, state, levels);
  }
  LayerBlocks most_freed(const Geometry& geometry) const override { return policy.most_freed(geometry); }
  P policy;
  typename P::State state;
};
struct VirtualWeights {
  using role = roles::Weights;
  static constexpr bool promises = false;
  static constexpr bool lends = false;
  struct State {};
  std::shared_ptr<WeightsInterface> object = make_object<WeightsInterface, WeightsObject<ResidentWeights>>();
  template <class Task>
  void offer(const Task& task, State&, std::vector<WeightsLevel>& levels) const {
    object->offer(task.view, task.demand, levels);
  }
  [[nodiscard]] LayerBlocks most_freed(const Geometry& geometry) const { return object->most_freed(geometry); }
};

struct ReliefInterface {
  virtual ~ReliefInterface() = default;
  virtual std::size_t choose(const View& view, std::span<const Claim> candidates) = 0;
  virtual bool may_return(const View& view, const RequestRow& row) const = 0;
};
template <class P>
struct ReliefObject final : ReliefInterface {
  std::size_t choose(const View& view, std::span<const Claim> candidates) override {
    return policy.choose(view, state, candidates);
  }
  bool may_return(const View& view, const RequestRow& row) const override { return policy.may_return(view, row); }
  P policy;
  typename P::State state;
};
struct VirtualRelief {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::preempt;
  std::shared_ptr<ReliefInterface> object = make_object<ReliefInterface, ReliefObject<PreemptNewest>>();
  std::size_t choose(const View& view, State&, std::span<const Claim> candidates) const {
    return object->choose(view, candidates);
  }
  [[nodiscard]] bool may_return(const View& view, const RequestRow& row) const { return object->may_return(view, row); }
};

struct RetentionInterface {
  virtual ~RetentionInterface() = default;
  virtual Kept on_preempt(const View& view, const RequestRow& row) const = 0;
  virtual Kept on_reclaim(const View& view, const RequestRow& row) const = 0;
};
template <class P>
struct RetentionObject final : RetentionInterface {
  Kept on_preempt(const View& view, const RequestRow& row) const override { return policy.on_preempt(view, row); }
  Kept on_reclaim(const View& view, const RequestRow& row) const override { return policy.on_reclaim(view, row); }
  P policy;
};
struct VirtualRetention {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = Drop::returns_layerwise;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;
  std::shared_ptr<RetentionInterface> object = make_object<RetentionInterface, RetentionObject<Drop>>();
  [[nodiscard]] Kept on_preempt(const View& view, const RequestRow& row) const { return object->on_preempt(view, row); }
  [[nodiscard]] Kept on_reclaim(const View& view, const RequestRow& row) const { return object->on_reclaim(view, row); }
};

struct LookaheadInterface {
  virtual ~LookaheadInterface() = default;
  virtual Seconds planning_time(std::int64_t effort) const = 0;
};
template <class P>
struct LookaheadObject final : LookaheadInterface {
  Seconds planning_time(std::int64_t effort) const override { return policy.planning_time(effort); }
  P policy;
};
struct VirtualLookahead {
  using role = roles::Lookahead;
  static constexpr bool ahead = false;
  std::shared_ptr<LookaheadInterface> object = make_object<LookaheadInterface, LookaheadObject<InStep>>();
  [[nodiscard]] Seconds planning_time(std::int64_t effort) const { return object->planning_time(effort); }
};

// ---- delivery
// --------------------------------------------------------------------------------------------------------
struct DeliverySinkInterface {
  virtual ~DeliverySinkInterface() = default;
  virtual void operator()(const RequestRow& row, Tokens count, Seconds when) const = 0;
};
template <class Sink>
struct DeliverySinkObject final : DeliverySinkInterface {
  explicit DeliverySinkObject(const Sink& to) : sink(to) {}
  void operator()(const RequestRow& row, Tokens count, Seconds when) const override { sink(row, count, when); }
  const Sink& sink;
};
struct DeliveryInterface {
  virtual ~DeliveryInterface() = default;
  virtual void generated(RequestRow& row, Seconds now, const DeliverySinkInterface& sink) const = 0;
  virtual void advance(RequestRow& row, Seconds now, const DeliverySinkInterface& sink) const = 0;
  virtual void finish(RequestRow& row, Seconds now, const DeliverySinkInterface& sink) const = 0;
};
template <class P>
struct DeliveryObject final : DeliveryInterface {
  void generated(RequestRow& row, Seconds now, const DeliverySinkInterface& sink) const override {
    policy.generated(row, now, sink);
  }
  void advance(RequestRow& row, Seconds now, const DeliverySinkInterface& sink) const override {
    policy.advance(row, now, sink);
  }
  void finish(RequestRow& row, Seconds now, const DeliverySinkInterface& sink) const override {
    policy.finish(row, now, sink);
  }
  P policy;
};
struct VirtualDelivery {
  using role = roles::Delivery;
  static constexpr bool deposits = false;
  std::shared_ptr<DeliveryInterface> object = make_object<DeliveryInterface, DeliveryObject<Immediate>>();
  template <class Sink>
  void generated(RequestRow& row, Seconds now, const Sink& sink) const {
    object->generated(row, now, DeliverySinkObject<Sink>(sink));
  }
  template <class Sink>
  void advance(RequestRow& row, Seconds now, const Sink& sink) const {
    object->advance(row, now, DeliverySinkObject<Sink>(sink));
  }
  [[nodiscard]] Seconds next_due(const RequestRow&) const { return never_due; } // as `deposits` says
  template <class Sink>
  void finish(RequestRow& row, Seconds now, const Sink& sink) const {
    object->finish(row, now, DeliverySinkObject<Sink>(sink));
  }
};

// ---- backend
// ---------------------------------------------------------------------------------------------------------
struct BackendInterface {
  virtual ~BackendInterface() = default;
  virtual Seconds now() const = 0;
  virtual void idle_until(Seconds when) = 0;
  virtual void launch(const Iteration& iteration) = 0;
  virtual IterationCost wait(const Iteration& iteration, DeadlinePool::State& state) = 0;
};
template <class P>
struct BackendObject final : BackendInterface {
  explicit BackendObject(P backend) : policy(std::move(backend)) {}
  Seconds now() const override { return policy.now(); }
  void idle_until(Seconds when) override { policy.idle_until(when); }
  void launch(const Iteration& iteration) override { policy.template launch<DeadlinePool>(iteration); }
  IterationCost wait(const Iteration& iteration, DeadlinePool::State& state) override {
    return policy.template wait<DeadlinePool>(iteration, state);
  }
  P policy;
};
struct VirtualBackend {
  using role = roles::Backend;
  static constexpr bool keeps_requests = false;
  static constexpr bool real_time = false;
  static constexpr bool ends_requests = false;
  static constexpr bool plans_async = false;
  static constexpr bool predicts = false;
  std::shared_ptr<BackendInterface> object;
  [[nodiscard]] Seconds now() const { return object->now(); }
  void idle_until(Seconds when) { object->idle_until(when); }
  template <class Transfer>
  void launch(const Iteration& iteration) {
    object->launch(iteration);
  }
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    return object->wait(iteration, state); // DeadlinePool is this engine's only rule
  }
  template <class Transfer, class Sink>
  void replay(const Iteration&, typename Transfer::State&, Sink&&) {} // no timeline is needed
};

/// `Engine<Admit, AllResident, When>` with the same policies behind virtual calls.
template <class Admit = Fcfs, class When = OnBatchChange>
using VirtualEngine =
    Engine<VirtualAdmission<Admit>, VirtualPlacement<AllResident>, VirtualWeights, VirtualCost, VirtualReplan<When>,
           VirtualRelief, VirtualRetention, VirtualDelivery, VirtualLookahead, VirtualBackend>;

} // namespace sluice::bench
