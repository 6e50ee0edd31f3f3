// SPDX-License-Identifier: Apache-2.0
// Engine: one model on one device, served by the policies of its composition.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/config.hpp"
#include "sluice/engine/core/checks.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/engine/decision_source.hpp"
#include "sluice/engine/policies.hpp"
#include "sluice/engine/steady_steps.hpp"
#include "sluice/engine/token_accounts.hpp"
#include "sluice/engine/with.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// How many requests an engine has, and how much of its device memory they hold.
struct EngineCounts {
  std::int64_t waiting = 0, preempted = 0, running = 0;
  LayerBlocks used{0}, capacity{0};

  /// The share of the memory that they hold.
  [[nodiscard]] double used_share() const {
    return capacity.count() > 0 ? static_cast<double>(used.count()) / static_cast<double>(capacity.count()) : 0;
  }
};

/// An engine of the given composition; `Engine<Policies...>` (engine/with.hpp) makes one from a list of policies.
///
/// Life of an iteration (docs/architecture.md): `submit` takes arrivals; `begin` decides and commits; `finish` runs the
/// iteration on the backend and counts its tokens. Policies see a `View`; only the functions of core/writers.hpp and
/// `TokenAccounts` write what it shows.
///
/// Memory grows with the number of live requests, not with all requests so far: rows are reused. In the steady state a
/// step allocates nothing.
///
/// The types of its policies, such as `E::cost_type`, are members of the composition.
template <class C>
class BasicEngine : public C {
 public:
  using composition = C;
  using typename C::backend_type; // the body names these two
  using typename C::transfer_type;
  using Config = EngineConfig<C>;

  /// Only `make` creates one: an engine needs a checked configuration.
  class Checked {
    friend class BasicEngine;
    explicit Checked() = default;
  };
  [[gnu::cold]] BasicEngine(Checked, Config&& config);
  /// Makes an engine; the error says what is wrong with its configuration.
  [[gnu::cold]] static Expected<BasicEngine> make(Config config);
  /// Makes a `Holder`, whose constructor passes its arguments to the engine's: an engine is large, and the code that
  /// moves one is a tenth of all its code.
  template <class Holder>
  [[gnu::cold]] static Expected<Holder> make_in(Config&& config) {
    if (const Status status = check(config); !status.ok()) return status.error();
    return Expected<Holder>{std::in_place, Checked{}, std::move(config)};
  }

  /// Does the work that the first iteration would otherwise wait for: weights are on the device when this returns. A
  /// server calls it before it reports ready. A simulation has nothing to load.
  [[nodiscard]] Status load() {
    if constexpr (is_real_time<backend_type>)
      return backend_.load();
    else
      return {};
  }
  /// A copy of the engine between two steps, which from then on runs on `backend` with `observers`. It decides what the
  /// engine would decide, and is in no node. Does not change the engine. Include engine/fork.hpp.
  ///
  /// A template, so that an explicit instantiation of the engine compiles it only if it is used.
  template <class Observers = typename C::observer_values>
  [[nodiscard]] BasicEngine fork(backend_type backend, Observers observers) const;
  /// Submits a request that arrives now. The engine refuses it at once, with the reason, if it could not be placed even
  /// alone, or if the weights cannot guarantee its SLO. `prompt_keys` names the full blocks of its prompt, for engines
  /// that find released blocks; without keys the prompt shares no prefix. Further keys name the blocks of its answer,
  /// so that a later request finds them. `on_host`: how many of its oldest tokens have KV in the backend's host tier
  /// (`TokenWorld::find`), in whole blocks. In its first iteration it loads as many of these as Caching says, or all.
  /// `arrived`: how many of its oldest tokens, but not its last, have KV that came over a network (`arrive_with_kv`):
  /// in simulations, for models whose layers are alike, if the engine's policies rebuild no layers.
  Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys = {},
                             Tokens on_host = Tokens{0}, Tokens arrived = Tokens{0});
  /// Moves the ends of answers to requests of sessions, since the last call, into `answers`: those of requests that
  /// ended, and of requests that were refused later than by `submit`. The engine keeps them from the first call on, so
  /// that a driver that never calls it costs no memory: one that needs them calls it before the first `submit`.
  void take_answers(std::vector<Answered>& answers) { sluice::take_answers(core_, answers); }
  [[nodiscard]] bool has_answers() const { return !core_.requests.answers.empty(); }
  /// Ends a live request that its user has given up, in any phase. Called between steps. Its memory is free at once,
  /// and no decision made ahead runs it. Error: no live request has this id (it may have ended).
  [[gnu::cold]] Status cancel(RequestId id);
  /// How many of the oldest tokens that a request finds in the backend's tiers it wants on the host, for a backend that
  /// asks before it reads a disk: all of `found.below`, and of `found.lower` what Caching would fetch if the request
  /// joined now; without Caching all. If the policy throws, the run ends as in a decision (`status`).
  [[nodiscard]] Tokens would_load(const RequestSpec& spec, const FoundPrefix& found);
  /// Runs one iteration if any request can run: `begin` and `finish`.
  Stepped step();
  /// Decides and commits. The iteration is then under way, and `finish` must be the next call that changes the engine.
  Begun begin();
  /// How long the iteration under way takes from now on in these surroundings; `sink` receives its timeline. Changes
  /// nothing.
  template <class Sink>
  [[nodiscard]] Seconds predict(const Surroundings& around, Sink&& sink) requires Predicts<typename C::backend_type>;
  /// What the iteration under way computes; valid until `finish`. A group in lock step needs the work of all.
  [[nodiscard]] const Work& work_under_way() const { return prepared_.work; }
  /// Runs the iteration under way and counts its tokens.
  void finish(const Surroundings& around = {});
  /// When the next token that Delivery holds back is due; `never_due` if there is none.
  [[nodiscard]] Seconds next_due() const;
  /// Releases the tokens that are due by `until`, each at its own time: for a timer, between steps. Without this call
  /// they are released at the same times, but only at the next decision or iteration that looks. Decisions differ only
  /// as far as they use deposits.
  void release_due(Seconds until);
  /// Lets time pass until `when` with nothing to run.
  void idle_until(Seconds when) { backend_.idle_until(when); }
  /// The same, but at most until the bell rings because a request has arrived on another thread. `when` may be
  /// infinite. For backends in real time.
  void idle_until(Seconds when, Doorbell& bell) requires is_real_time<backend_type> {
    // clang 14 also instantiates such bodies if the class is explicitly instantiated.
    if constexpr (is_real_time<backend_type>) backend_.idle_until(when, bell);
  }
  [[nodiscard]] Seconds now() const { return backend_.now(); }
  /// Ok, or the policy's mistake that ended the run: `step` has returned `failed`.
  [[nodiscard]] const Status& status() const { return status_; }

  [[nodiscard]] View view() const { return core_.view(now()); }
  [[nodiscard]] const Plan& plan() const { return core_.plan; }
  [[nodiscard]] const Ledger& ledger() const { return core_.ledger; }
  /// The tiers below the device. Include engine/caching.hpp.
  [[nodiscard]] const Tiers& tiers() const requires has_tiers<C> { return *core_.tiers; }
  /// Device memory of ended requests whose blocks are pinned (`Worth::pinned`).
  [[nodiscard]] LayerBlocks pinned() const { return core_.prefix.pinned(); }
  /// For a node: from now on these are the tiers of another engine. `engine`: this one's number, not 0.
  void share_tiers(const Tiers& of, std::uint64_t engine) requires has_tiers<C> {
    sluice::share_tiers(core_, of, engine);
  }
  /// For a node: blocks that are on their way to or from the tiers have moved until now, while no iteration ran.
  void move_idle_blocks() {
    if constexpr (has_tiers<C>)
      transfer_.background_blocks = pass_idle_time(core_, now(), transfer_.background_blocks, calls());
    else if constexpr (pins_on_device<C>)
      unpin_expired(core_, now());
    if constexpr (keeps_on_host<C>)
      for (const Slot slot : core_.requests.running)
        if (core_.row(slot).waits && detail::has_loaded(backend_, slot)) end_load(core_, slot);
  }
  /// When the next load ends that a request waits for, if no iteration runs until then; `never_due` if there is none.
  /// An engine that is idle with live requests waits for it.
  [[nodiscard]] Seconds next_load() const {
    if constexpr (has_tiers<C>) return sluice::next_load(core_);
    return never_due;
  }
  /// How many of these blocks, from the first on, a request would find now: on the device, and then in the tiers below.
  /// With KV in groups, those from which a request could go on.
  [[nodiscard]] std::size_t finds(std::span<const BlockKey> keys) const;
  /// Whether a prompt that begins with these blocks may find what follows them. (A tier may evict a block before those
  /// behind it, so there only the last of `keys` counts.)
  [[nodiscard]] bool may_find(std::span<const BlockKey> keys) const {
    if constexpr (!has_tiers<C> && C::retention_type::finds_released) return core_.prefix.may_find(keys);
    return finds(keys.last(1)) > 0;
  }
  /// How many requests it has, and how much memory they hold. Cheaper than a view: a fleet asks before every iteration.
  [[nodiscard]] EngineCounts counts() const {
    return {core_.requests.waiting, static_cast<std::int64_t>(core_.requests.preempted.size()),
            static_cast<std::int64_t>(core_.requests.running.size()), core_.ledger.device().used(),
            core_.ledger.device().capacity()};
  }
  [[nodiscard]] std::int64_t alive() const { return core_.requests.alive; }
  [[nodiscard]] std::int64_t steps() const { return core_.step; }
  /// A node's access to the memory that engines share.
  [[nodiscard]] NodePort port() { return {core_, draft_.offer, &policies_}; }
  [[nodiscard]] NodeFacts port() const { return {core_, draft_.offer, &policies_}; }
  /// Where iterations run. A backend that computes real tokens learns the requests' tokens through this.
  [[nodiscard]] backend_type& backend() { return backend_; }
  [[nodiscard]] const backend_type& backend() const { return backend_; }
  /// The cost model for decisions, corrected by what it has learned; and what it has learned.
  [[nodiscard]] decltype(auto) predictor() const { return policies_.predictor(); }
  [[nodiscard]] const typename C::cost_type::State& learned() const { return policies_.cost_state; }
  /// The state of an observer.
  template <class O>
  [[nodiscard]] const typename O::State& observed() const {
    return std::get<typename O::State>(policies_.observer_states);
  }

 private:
  using All = Policies<C>;
  using TransferState = typename transfer_type::State;
  using Steady = SteadySteps<C>;

  [[nodiscard]] PolicyCalls calls() { return {policy_table<C>, &policies_}; }
  [[nodiscard]] EngineParts<C> parts() {
    return {core_, FactsWriter<C>(core_), draft_, policies_, backend_, decision_, accounts_};
  }
  [[gnu::cold]] static Status check(const Config& config);
  /// The memory that a request takes alone, at its longest, with the least device memory that the placement could
  /// choose on a host of this size.
  [[nodiscard]] Footprint least_room(const RequestSpec& spec) const;
  Begun decide_and_commit();
  /// Finds room for the blocks that the prepared iteration moves, and the KV that goes to a tier or is copied with it.
  void prepare_transfers();
  void run_iteration(const Surroundings& around);
  /// Ends the run with what a policy threw. Call it in a `catch (...)`.
  [[gnu::cold]] void fail_with_thrown() {
    status_ = thrown_by([] { return std::string{"a policy"}; }, now());
  }
  [[nodiscard]] Iteration iteration_in(const View& view, const Surroundings& around) const;
  void learn(const Iteration& iteration, const IterationCost& cost, TransferState& before);
  void keep_on_host(std::span<const Claim> ran, std::span<const Slot> ended) requires keeps_on_host<C>;

  Core core_;
  CommitState commit_;
  All policies_;
  DecisionSource<C> source_;
  TokenAccounts<C> accounts_;
  Steady steady_;
  backend_type backend_;
  TransferState transfer_; ///< what the last iteration left on the link, by the backend
  Draft draft_;
  Decision decision_; ///< to run next, or running
  Prepared prepared_;
  std::vector<KeptKv> kept_; ///< what the backend's host keeps of requests; used again
  Status status_;
};

} // namespace sluice

#include "sluice/engine/step.hpp"   // IWYU pragma: keep
#include "sluice/engine/submit.hpp" // IWYU pragma: keep
