// SPDX-License-Identifier: Apache-2.0
// Engine: one model on one device, served by the policies it is composed of.
#pragma once

#include "sluice/admission/admission.hpp"
#include "sluice/backend/backend.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/engine/decision.hpp"
#include "sluice/engine/finder.hpp"
#include "sluice/engine/rejected.hpp"
#include "sluice/engine/state.hpp"
#include "sluice/memory/ledger.hpp"
#include "sluice/observer/observer.hpp"
#include "sluice/view/view.hpp"
#include "sluice/weights/streamed_step.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// An engine of the given composition; `Engine<Policies...>` below names it from a list of policies.
///
/// Life of an iteration (docs/architecture.md): `submit` absorbs arrivals; `step` decides (admission, placement,
/// relief), commits (moves, plan delta, ledger), launches the iteration on the backend and accounts its tokens. Only
/// `commit` and `account` write rows, ledger and the plan in force; the policies see a `View`.
///
/// Memory grows with the requests that are alive, not with those that have been: rows are reused. In the steady state
/// a step allocates nothing.
template <class C>
class BasicEngine : private detail::EngineState {
 public:
  using composition = C;
  using admission_type = typename C::admission_type;
  using placement_type = typename C::placement_type;
  using weights_type = typename C::weights_type;
  using cost_type = typename C::cost_type;
  using transfer_type = typename C::transfer_type;
  using replan_type = typename C::replan_type;
  using relief_type = typename C::relief_type;
  using retention_type = typename C::retention_type;
  using delivery_type = typename C::delivery_type;
  using lookahead_type = typename C::lookahead_type;
  using layout_type = typename C::layout_type;
  using backend_type = typename C::backend_type;
  using observer_types = typename C::observer_types;

  template <class List>
  struct ObserverSet;
  template <class... Os>
  struct ObserverSet<Parts<Os...>> {
    using policies = std::tuple<Os...>;
    using states = std::tuple<typename Os::State...>;
    static constexpr bool replays = (Os::wants_timeline || ...);
    static constexpr bool none = sizeof...(Os) == 0;
  };

  /// Everything an engine is made from. Policies are values: those that are not set are default-constructed. The models
  /// of cost, the planner's and the one in a simulated backend, have no default: they are somebody's hardware.
  struct Config {
    Limits limits;
    Geometry geometry;
    /// Device memory for KV beside all weights, blocks in flight included. Below 0 where the weights alone are larger
    /// than the device, for engines whose weights can stream.
    LayerBlocks device_blocks{0};
    LayerBlocks host_blocks{0}; ///< host memory for KV
    cost_type cost;             ///< the planner's
    backend_type backend;
    admission_type admission{};
    placement_type placement{};
    weights_type weights{};
    replan_type replan{};
    relief_type relief{};
    retention_type retention{};
    delivery_type delivery{};
    lookahead_type lookahead{};
    typename ObserverSet<observer_types>::policies observers{};
  };

  /// Only `make` has one: an engine is made of a configuration that was checked.
  class Checked {
    friend class BasicEngine;
    explicit Checked() = default;
  };
  [[gnu::cold]] BasicEngine(Checked, Config&& config);
  /// An engine, or what is wrong with its configuration.
  [[gnu::cold]] static Expected<BasicEngine> make(Config config);

  /// A request arrives now. Refused at once, with the reason, if it could never be placed even alone.
  /// `prompt_keys` names the full blocks of its prompt, for engines that find released blocks; without, the prompt is
  /// like no other.
  Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys = {});
  /// Runs one iteration, if anybody can run: `begin` and `finish`.
  Stepped step();
  /// Decides and commits: the iteration is under way, and must be finished before anything else is asked of the engine.
  Begun begin();
  /// What the iteration under way takes from now on in such surroundings; `sink` is told its timeline. Changes nothing.
  template <class Sink>
  [[nodiscard]] Seconds predict(const Surroundings& around, Sink&& sink);
  /// Runs the iteration under way and accounts its tokens.
  void finish(const Surroundings& around = {});
  /// Nothing to do until `when`.
  void idle_until(Seconds when) { backend_.idle_until(when); }
  [[nodiscard]] Seconds now() const { return backend_.now(); }

  [[nodiscard]] View view() const { return view_at(now()); }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }
  /// What the weights offered when last asked, the preferred first.
  [[nodiscard]] std::span<const WeightsLevel> levels() const { return levels_; }
  /// What its batch needs, and what it wanted when it last decided; while it decides, the batch that it would like.
  [[nodiscard]] const BatchNeeds& needs() const { return needs_; }
  [[nodiscard]] const Geometry& geometry() const { return config_.geometry; }
  /// KV memory while all weights are resident.
  [[nodiscard]] LayerBlocks own_blocks() const { return config_.device_blocks; }
  /// From the next decision on it asks a node. (A node moves: it says so anew before each.)
  void join_node(const Coordination& coordination) { coordination_ = coordination; }
  /// The most layers whose memory it could lend while it does not run: what the prefill of a prompt of mean length, the
  /// first thing it will do, has time to bring back.
  [[nodiscard]] int most_lent() const;
  /// Others have the memory of so many of its layers from its next decision on. What they had and give back comes over
  /// the link with its next iteration.
  void lend(int layers) {
    quiet_ = quiet_ && layers == lent_layers_;
    lent_layers_ = layers;
    most_lent_layers_ = std::max(most_lent_layers_, layers);
  }
  /// What it has of others' memory by the plan in force, and layers' memory of its own that its KV has.
  [[nodiscard]] LayerBlocks borrowed() const { return borrowed_in_force_; }
  [[nodiscard]] int lent_to_itself() const { return own_level_; }
  /// Nothing is alive: of others' memory it keeps `borrowed`, and of its own layers' none, where it lends them.
  void rest(LayerBlocks borrowed);
  /// The planner's figure of its own lane to the device.
  [[nodiscard]] LinkCost link() const { return config_.cost.predictor(cost_state_).link(); }
  [[nodiscard]] std::int64_t alive() const { return alive_; }
  [[nodiscard]] std::int64_t steps() const { return step_; }
  /// Where iterations run: a backend that computes real tokens is told there what a request's are.
  [[nodiscard]] backend_type& backend() { return backend_; }
  [[nodiscard]] const backend_type& backend() const { return backend_; }
  /// What an observer has collected.
  template <class O>
  [[nodiscard]] const typename O::State& observed() const {
    return std::get<typename O::State>(observer_states_);
  }

 private:
  using Observers = ObserverSet<observer_types>;
  using PlacementState = typename placement_type::template State<transfer_type>;
  using TransferState = typename transfer_type::State;
  using Predictor = std::remove_cvref_t<decltype(std::declval<const cost_type&>().predictor(
      std::declval<const typename cost_type::State&>()))>;
  using Task = PlacementTask<Predictor, transfer_type, layout_type>;
  static constexpr bool watches_time =
      !(std::is_empty_v<typename replan_type::State> && std::is_empty_v<typename cost_type::State>);

  /// The next step may be this one once more, without asking: see `remember_quiet`.
  static constexpr bool copies_ahead = CopiesAhead<retention_type>;
  static constexpr bool real_time = is_real_time<backend_type>;
  static constexpr bool ends_requests = EndsRequests<backend_type>;
  /// The next decision is made on another thread, from a copy of what this engine knows (engine/beside.hpp).
  static constexpr bool plans_async = lookahead_type::ahead && real_time;
  static_assert(!plans_async || PlansAsync<backend_type>,
                "sluice: OneStepAhead needs a Backend in real time to have `async(work, what)`, `async_done()` and "
                "`join_async()`: a thread on which to plan");
  static constexpr bool may_be_quiet = !lookahead_type::ahead && !real_time && admission_type::steady && !copies_ahead;
  static constexpr bool offers_weights = !std::is_same_v<weights_type, ResidentWeights>;
  static constexpr bool finds = retention_type::finds_released;
  static_assert(!finds || !is_real_time<backend_type>,
                "sluice: a backend in real time keeps no released blocks, so that this Retention policy "
                "(KeepUntilOverwritten) would find KV that is gone; expected another, or a simulated backend");

  // decide (engine/decide.hpp): policies run, nothing but their own state is written ----------------------------------
  void decide(Seconds now, Decision& decision);
  void gate_returns(const View& view);
  [[nodiscard]] bool look_up_newcomers();
  [[nodiscard]] LayerBlocks copied_blocks() const;
  void place(const View& view, Decision& decision);
  void drop_victim(const View& view, Decision& decision, std::size_t& required);
  [[nodiscard]] Task task_of(const View& view, const Predictor& predictor, const Decision& decision,
                             std::size_t required, bool enforce_slo) const;
  [[nodiscard]] Verdict apply_plan(const Task& task, Decision& decision);
  [[nodiscard]] Verdict solve(const Task& task, Decision& decision);
  void keep_after_all(Slot slot, Decision& decision);
  void offer_weights(const View& view, const Decision& decision);
  [[nodiscard]] bool offers_otherwise(const View& view, const Decision& decision);
  [[nodiscard]] Work steady_within(const Decision& decision, LayerBlocks room) const;
  [[nodiscard]] BatchNeeds needs_of(const Decision& decision) const;
  [[nodiscard]] WeightsPlan granted() const;
  [[nodiscard]] LayerBlocks capacity_with(const WeightsPlan& weights) const;
  [[nodiscard]] Holding holding_in_force(const RequestRow& row) const {
    return row.plan_serial == plan_serial_ ? row.holding : plan_.unseen;
  }
  [[nodiscard]] bool covered(const RequestRow& row) const {
    return plan_.covers_unseen || row.plan_serial == plan_serial_;
  }

  // commit (engine/commit.hpp): moves, phases, plan delta, ledger -----------------------------------------------------
  void commit(Decision& decision);
  void return_weights(const WeightsPlan& before, const WeightsPlan& after, int overwritten);
  void preempt(Slot slot);
  void join(Slot slot);
  [[gnu::cold]] void refuse(Slot slot, std::string_view reason);
  void move_claim(const Claim& claim, const Holding& target);
  void rebuild(const Holding& from, const Holding& target, TokenBlocks held);
  void grow(RequestRow& who, Tokens tokens);
  [[nodiscard]] Holding target_of(std::size_t i, const Claim& claim) const;
  void forget_prefetches();
  void reclaim(LayerBlocks needed, const Decision& decision);
  [[nodiscard]] Holding with_copies(const RequestRow& who, Holding target) const;
  void give_up_copies(LayerBlocks needed);
  void drop(RequestRow& who);
  [[nodiscard]] Footprint footprint_of(const Holding& holding, TokenBlocks blocks) const {
    return footprint<layout_type>(holding, blocks, config_.limits.block_tokens, config_.geometry.layers,
                                  config_.geometry.hidden_size());
  }
  void release(Slot slot);

  // run (engine/run.hpp): the iteration, its tokens, deliveries and ends ----------------------------------------------
  [[nodiscard]] Seconds take_decision(bool& repeated);
  [[nodiscard]] bool still_fits(Decision& decision);
  [[nodiscard]] bool repeat_last();
  void add_streams(std::vector<LayerStream>& streams, const Holding& holding, TokenBlocks blocks) const;
  [[nodiscard]] LayerBlocks in_flight_of(std::span<const LayerStream> streams) const;
  void remember_quiet();
  [[nodiscard]] bool begin_quietly();
  void prepare(Seconds planning, bool repeated);
  [[nodiscard]] Iteration iteration_in(const View& view, const Surroundings& around) const;
  void run(const Surroundings& around);
  [[nodiscard]] LayerBlocks copy_ahead(const View& view, double out_blocks, double in_blocks);
  void learn(const Iteration& iteration, const IterationCost& cost, bool repeated);
  void account(Seconds now);
  void account_decodes(Seconds now);
  void decide_ahead(Seconds start, Seconds predicted);
  void decide_async(const Iteration& iteration);
  void collect_async();
  void take_outcomes();
  void end_finished(Seconds now);
  void advance_deliveries(Seconds now);

  [[nodiscard]] View view_at(Seconds now) const;
  /// Calls `tell(policy, state)` for each observer.
  template <class Tell>
  void observe(Tell&& tell) {
    if constexpr (plans_async)
      if (imagined_) return;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (tell(std::get<I>(config_.observers), std::get<I>(observer_states_)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<typename Observers::policies>>{});
  }
  auto delivery_sink() {
    return [this](const RequestRow& who, Tokens count, Seconds when) {
      observe([&](const auto& observer, auto& state) { observer.delivered(state, who, count, when); });
    };
  }

  Config config_;
  backend_type backend_;

  // What policies remember.
  typename admission_type::State admission_state_;
  PlacementState placement_state_;
  [[no_unique_address]] typename weights_type::State weights_state_;
  [[no_unique_address]] std::conditional_t<offers_weights, StreamedStep, std::monostate> level_times_;
  [[no_unique_address]] typename cost_type::State cost_state_;
  [[no_unique_address]] typename replan_type::State replan_state_;
  [[no_unique_address]] typename relief_type::State relief_state_;
  typename Observers::states observer_states_;

  // The rest of what it remembers is in EngineState.
  [[no_unique_address]] detail::Finder<finds> finder_;

  // Planning beside a real iteration. The copy plans: what it decides is in its `pending_` and `next_plan_`.
  bool imagined_ = false;                            ///< this is the copy
  bool async_ = false;                               ///< the copy is planning, or has planned and was not asked yet
  Seconds async_since_{0};                           ///< when it began
  std::shared_ptr<BasicEngine> copy_;                ///< made by the first decision beside an iteration
  Seconds imagined_at_{0};                           ///< the copy's present: when the iteration is expected to end
  std::vector<detail::ImaginedPlan> imagined_plans_; ///< for observers, who are told when the decision is taken
  TransferState transfer_state_;
  TransferState predicted_state_;
  TransferState predicted_ahead_;
};

namespace detail {

template <class List>
struct ComposeEngine {
  using type = RejectedEngine<decltype(explain_all(List{}))>;
};
template <class List>
  requires WorksTogether<List>
struct ComposeEngine<List> {
  using type = BasicEngine<typename Compose<List>::type>;
};

/// The policies of a composition, as a list, with the observers last.
template <class C>
struct PoliciesOf;
template <class... Ps>
struct PoliciesOf<Composition<Ps...>> {
  using type = Parts<Ps...>;
};

/// A list without the policies whose role another list plays.
template <class Keep, class Others>
struct Without;
template <class... Ks, class Others>
struct Without<Parts<Ks...>, Others>
    : Concat<std::conditional_t<std::is_same_v<typename OfRole<typename Ks::role, Others>::type, Parts<>>, Parts<Ks>,
                                Parts<>>...> {};

template <class E, class Overrides>
struct Override {
  using kept = typename Without<typename PoliciesOf<typename E::composition>::type, Overrides>::type;
  using type = typename ComposeEngine<typename Concat<kept, Overrides>::type>::type;
};

/// What was rejected once has been explained.
template <class Explained, class Overrides>
struct Override<RejectedEngine<Explained>, Overrides> {
  using type = RejectedEngine<Explained>;
};

} // namespace detail

/// The engine composed of these policies, by role and in any order; roles not named take their defaults. A wrong
/// composition is one sentence per mistake.
///
///     using MyEngine = sluice::Engine<DistancePlacement, TokenDeposit, PauseResume>;
template <class... Policies>
using Engine = typename detail::ComposeEngine<typename detail::Unpack<Parts<Policies...>>::type>::type;

/// The engine `E` with some roles played by others: `With<OrbitFlow, DeadlinePool>`.
template <class E, class... Policies>
using With = typename detail::Override<E, typename detail::Unpack<Parts<Policies...>>::type>::type;

} // namespace sluice

#include "sluice/engine/beside.hpp" // IWYU pragma: keep
#include "sluice/engine/commit.hpp" // IWYU pragma: keep
#include "sluice/engine/decide.hpp" // IWYU pragma: keep
#include "sluice/engine/run.hpp"    // IWYU pragma: keep
