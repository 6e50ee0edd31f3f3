// SPDX-License-Identifier: Apache-2.0
// Node: several engines on one clock, with what they share: a bus, a device's time, its memory.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/node/bus.hpp"
#include "sluice/engine/node/coordinator.hpp"
#include "sluice/engine/node/sharing.hpp"
#include "sluice/workload/content.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// Several engines in one simulation. Each engine decides and runs as it would alone; the node decides when the engine
/// may run, which share of the bus its transfers have at every moment, and what the coordinator grants and lends it.
///
/// If lanes share a bus, an iteration's end is unknown when it starts: every other engine that starts or stops
/// transfers changes it. So iterations are started, evaluated ahead, and finished when their time has come
/// (`SharedBus`).
///
/// Requests that arrive during an engine's iteration are submitted at its end, as `simulate` does for one engine.
template <class CoordinatorP, class SharingP, class... Engines>
class BasicNode {
  static_assert(sizeof...(Engines) > 0, "sluice: a node needs at least one engine");
  static_assert(((!Engines::lookahead_type::ahead || std::is_same_v<CoordinatorP, Uncoordinated>)&&...),
                "sluice: a coordinator's grant holds only for the decision that asked for it: engines of a node must "
                "decide in step (`InStep`)");
  static_assert((Predicts<typename Engines::backend_type> && ...),
                "sluice: a node predicts its engines' iterations: the Backend of each engine needs predicts = true and "
                "`predict`, as BasicSimulated has them");

 public:
  static constexpr std::size_t count = sizeof...(Engines);
  using coordinator_type = CoordinatorP;
  using sharing_type = SharingP;
  template <std::size_t I>
  using engine_type = std::tuple_element_t<I, std::tuple<Engines...>>;

  struct Config {
    std::tuple<typename Engines::Config...> engines;
    CoordinatorP coordinator{};
    SharingP sharing{};
    /// The rate of all lanes to the devices together; infinite: each engine has its own bus.
    BytesPerSecond bus{std::numeric_limits<double>::infinity()};
    std::array<int, count> priorities{}; ///< the lowest lends its memory first
    /// Engines that cache have one set of tiers, the first one's: host memory or a pool that all of them reach, each
    /// over its own link.
    bool shares_tiers = false;
  };

  /// Makes a node; the error says what is wrong with the configuration of one of its engines.
  [[gnu::cold]] static Expected<BasicNode> make(Config config) {
    if (!(config.bus.count() > 0))
      return Error{ErrorCode::bad_input, "node configuration", "the bus moves nothing", "a positive rate"};
    Status status;
    auto made =
        std::apply([&](auto&... each) { return std::tuple<Expected<Engines>...>{Engines::make(std::move(each))...}; },
                   config.engines);
    std::apply(
        [&](auto&... each) {
          ((status.ok() && !each ? static_cast<void>(status = each.error()) : static_cast<void>(0)), ...);
        },
        made);
    if constexpr ((has_tiers<Engines> || ...))
      if (status.ok() && config.shares_tiers) status = check_shared_tiers(made);
    if (!status.ok()) return status.error();
    return std::apply(
        [&](auto&... each) {
          return Expected<BasicNode>{std::in_place, Checked{}, std::move(config),
                                     std::tuple<Engines...>{std::move(*each)...}};
        },
        made);
  }

  class Checked {
    friend class BasicNode;
    explicit Checked() = default;
  };
  BasicNode(Checked, Config&& config, std::tuple<Engines...>&& engines)
      : config_(std::move(config)), engines_(std::move(engines)), bus_(count, config_.bus) {
    now_.has_work.resize(count);
    now_.runs.resize(count);
    if (config_.shares_tiers) share_tiers();
  }
  /// Rejected: copies, whose engines would each have tiers of their own. `BasicEngine::fork` copies an engine.
  BasicNode(const BasicNode&) = delete;
  BasicNode& operator=(const BasicNode&) = delete;
  BasicNode(BasicNode&&) noexcept = default;
  BasicNode& operator=(BasicNode&&) noexcept = default;
  ~BasicNode() = default;

  [[nodiscard]] Seconds now() const { return at_; }
  template <std::size_t I>
  [[nodiscard]] const engine_type<I>& engine() const {
    return std::get<I>(engines_);
  }
  /// Calls `visit(index, engine)` for each engine.
  template <class Visit>
  void for_each_engine(Visit&& visit) const {
    each([&]<std::size_t I>() { visit(I, std::get<I>(engines_)); });
  }
  /// How many layers' memory `borrower` has of engine `lender`.
  [[nodiscard]] int lent(std::size_t lender, std::size_t borrower) const { return lent_[borrower][lender]; }
  [[nodiscard]] std::int64_t alive() const {
    std::int64_t sum = 0;
    each(
        [&]<std::size_t I>() { sum += std::get<I>(engines_).alive() + static_cast<std::int64_t>(waiting_[I].size()); });
    return sum;
  }
  [[nodiscard]] std::int64_t steps() const {
    std::int64_t sum = 0;
    each([&]<std::size_t I>() { sum += std::get<I>(engines_).steps(); });
    return sum;
  }

  /// A request for one of the engines arrives now. If the engine refuses it, only its observers see that.
  void submit(std::size_t engine, KeyedRequest request) {
    SLUICE_ASSERT(engine < count, "an engine of this node");
    waiting_[engine].push_back(std::move(request));
    with(engine, [&]<std::size_t I>() {
      if (!bus_[I].under_way()) hand_over<I>();
    });
  }
  void submit(std::size_t engine, const RequestSpec& spec) { submit(engine, KeyedRequest{spec, {}}); }
  /// Moves the answers of an engine's sessions since the last call into `answers`.
  void take_answers(std::size_t engine, std::vector<Answered>& answers) {
    with(engine, [&]<std::size_t I>() {
      std::get<I>(engines_).take_answers(answers);
      answers.insert(answers.end(), refused_[I].begin(), refused_[I].end());
      refused_[I].clear();
    });
  }
  [[nodiscard]] bool has_answers() const {
    bool any = false;
    each([&]<std::size_t I>() { any = any || std::get<I>(engines_).has_answers() || !refused_[I].empty(); });
    return any;
  }

  /// Ok, or the mistake of an engine's policy that ended the run (`BasicEngine::status`).
  [[nodiscard]] const Status& status() const { return status_; }

  /// Starts every iteration that can start now. Call it after arrivals and after `advance`.
  void launch() {
    if (config_.shares_tiers)
      each([&]<std::size_t I>() { // what an idle engine has written, others find
        if (bus_[I].under_way()) return;
        std::get<I>(engines_).idle_until(at_);
        std::get<I>(engines_).move_idle_blocks();
      });
    for (bool began = true; began;) {
      began = false;
      each([&]<std::size_t I>() {
        if (!bus_[I].under_way()) began = launch_one<I>() || began;
      });
    }
    divide();
  }
  /// The next event without an arrival; infinite if no iteration runs and no request waits for a load.
  [[nodiscard]] Seconds next_event() const {
    Seconds next = bus_.next_change(at_);
    each([&]<std::size_t I>() {
      const Seconds loaded = bus_[I].under_way() ? never_due : std::get<I>(engines_).next_load();
      if (loaded > at_) next = std::min(next, loaded);
    });
    return next;
  }
  /// Advances the clock to `when`, at most `next_event()`, and finishes the iterations that end by then.
  void advance(Seconds when) {
    at_ = std::max(at_, when);
    each([&]<std::size_t I>() {
      Flight& flight = bus_[I];
      if (!flight.under_way() || flight.ends() > at_ + Flight::moment) return;
      auto& engine = std::get<I>(engines_);
      engine.finish({flight.spells(), flight.slowdown()});
      at_ = std::max(at_, engine.now());
      active_until_[I] = at_;
      flight.end();
      now_.runs[I] = false;
      hand_over<I>();
    });
    divide();
  }

 private:
  template <class Call>
  static void each(Call&& call) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (call.template operator()<I>(), ...); }
    (std::make_index_sequence<count>{});
  }
  template <class Call>
  static void with(std::size_t engine, Call&& call) {
    each([&]<std::size_t I>() {
      if (I == engine) call.template operator()<I>();
    });
  }

  /// Engines that share tiers find each other's blocks by their keys: a key must name the same bytes in all of them.
  [[gnu::cold]] static Status check_shared_tiers(const std::tuple<Expected<Engines>...>& made) {
    Status status;
    std::optional<View> shared; // the first caching engine's
    Feed feed{};
    std::vector<Tier> tiers;
    bool explains = false, shares_host = false;
    std::size_t first = 0;
    each([&]<std::size_t I>() {
      if constexpr (has_tiers<engine_type<I>>) {
        const View view = std::get<I>(made)->view();
        const char* differs = nullptr;
        shares_host = shares_host || !engine_type<I>::retention_type::finds_released;
        if (!shared) {
          shared = view;
          feed = engine_type<I>::caching_type::feed;
          tiers = std::get<I>(made)->tiers().facts();
          explains = std::get<I>(made)->tiers().explains();
          first = I;
        } else if (shares_host) { // its ledger is its own
          differs = "a Retention with finds_released = true";
        } else if (view.geometry.layers != shared->geometry.layers ||
                   view.geometry.layer_weight_bytes != shared->geometry.layer_weight_bytes) {
          differs = "the same model";
        } else if (view.limits.block_tokens != shared->limits.block_tokens) {
          differs = "the same number of tokens in a block";
        } else if (view.geometry.layer_block_bytes != shared->geometry.layer_block_bytes) {
          differs = "the same bytes of KV in a block";
        } else if (engine_type<I>::caching_type::feed != feed) {
          differs = "the same Feed of their Caching policies";
        } else if (std::get<I>(made)->tiers().facts() != tiers) { // each engine can use its own
          differs = "the same tiers";
        } else if (std::get<I>(made)->tiers().explains() != explains) {
          differs = "the same explains_misses";
        }
        if (status.ok() && differs != nullptr)
          status = Error{ErrorCode::bad_input, "node configuration",
                         "engines " + std::to_string(first + 1) + " and " + std::to_string(I + 1) +
                             " share tiers, but one cannot use the other's blocks",
                         differs};
      }
    });
    return status;
  }

  void share_tiers() {
    const Tiers* first = nullptr;
    each([&]<std::size_t I>() {
      if constexpr (has_tiers<engine_type<I>>) {
        auto& engine = std::get<I>(engines_);
        if (first == nullptr)
          first = &engine.tiers();
        else
          engine.share_tiers(*first, I);
      }
    });
  }

  template <std::size_t I>
  void hand_over() {
    auto& engine = std::get<I>(engines_);
    if (waiting_[I].empty()) return;
    engine.idle_until(at_);
    for (const KeyedRequest& request : waiting_[I])
      if (!engine.submit(request.spec, request.keys) && request.spec.session != 0)
        refused_[I].push_back({request.spec.session, at_});
    waiting_[I].clear();
  }

  /// Whether anything happened: engine I started an iteration, or a request was refused.
  template <std::size_t I>
  bool launch_one() {
    auto& engine = std::get<I>(engines_);
    refresh();
    if (engine.alive() == 0) {
      keep_borrowed<I>();
      return false;
    }
    if (!config_.sharing.may_run(sharing_, now_, I, at_)) return false;
    engine.idle_until(at_);
    if constexpr (!std::is_same_v<CoordinatorP, Uncoordinated>)
      engine.port().join({this, I, CoordinatorP::lends ? &BasicNode::lend_to : nullptr,
                          CoordinatorP::grants ? &BasicNode::grant_to : nullptr});
    const std::int64_t alive = engine.alive();
    Begun begun = Begun::again;
    while (begun == Begun::again) {
      wanted_ = lent_[I];
      wanted_blocks_ = engine.port().borrowed();
      begun = engine.begin();
      moved_out<I>();
    }
    if (begun == Begun::failed) {
      status_ = engine.status();
      return false;
    }
    if (begun != Begun::under_way) return engine.alive() != alive; // another engine may have the turn now
    refresh();
    now_.runs[I] = true;
    bus_[I].begin(engine.now(), engine.port().link().rate.count(), config_.sharing.slowdown(now_));
    look_ahead<I>();
    return true;
  }
  template <std::size_t I>
  void look_ahead() {
    Flight& flight = bus_[I];
    auto& engine = std::get<I>(engines_);
    flight.look_ahead([&](auto& sink) { return engine.predict({flight.spells(), flight.slowdown()}, sink); });
  }
  void divide() {
    bus_.divide(at_, [this](std::size_t engine) { with(engine, [&]<std::size_t I>() { look_ahead<I>(); }); });
  }
  void refresh() {
    each([&]<std::size_t I>() {
      now_.has_work[I] = std::get<I>(engines_).alive() > 0 || !waiting_[I].empty();
      now_.runs[I] = bus_[I].under_way();
    });
  }

  /// The coordinator's view of the engines.
  [[nodiscard]] std::array<Member, count> members() {
    refresh();
    std::array<Member, count> all;
    each([&]<std::size_t I>() {
      const auto& engine = std::get<I>(engines_);
      Member& member = all[I];
      member.levels = engine.port().levels();
      member.batch = engine.port().needs();
      member.own = engine.port().own_blocks();
      member.layer_weight_bytes = engine.port().geometry().layer_weight_bytes;
      member.block_bytes = engine.port().geometry().layer_block_bytes;
      member.link = engine.port().link().rate;
      member.alive = now_.has_work[I];
      member.inactive = config_.sharing.inactive(sharing_, I) && !now_.runs[I];
      member.active_until = active_until_[I];
      member.priority = config_.priorities[I];
      member.lendable = member.inactive ? engine.port().most_lent() : 0;
      member.lent = engine.port().lent_to_itself();
      for (const auto& borrower : lent_) member.lent += borrower[I];
    });
    return all;
  }
  /// Asks the coordinator how much of the others' memory `borrower` gets, in KV blocks of the borrower. No other engine
  /// decides meanwhile, so the memory belongs to the borrower, or to the lenders again, once the decision is in force
  /// (`moved_out`).
  LayerBlocks ask_to_lend(std::size_t borrower, Bytes missing) {
    const auto all = members();
    wanted_ = lent_[borrower];
    config_.coordinator.lend(all, borrower, missing, wanted_);
    Bytes sum{0};
    for (std::size_t i = 0; i < count; ++i) sum += all[i].layer_weight_bytes * static_cast<std::int64_t>(wanted_[i]);
    wanted_blocks_ = LayerBlocks{sum.count() / all[borrower].block_bytes.count()};
    return wanted_blocks_;
  }
  /// If engine I's decision is in force, the memory that it has now is its own, and what it no longer uses belongs to
  /// the lenders again.
  template <std::size_t I>
  void moved_out() {
    if (std::get<I>(engines_).port().borrowed() != wanted_blocks_ || lent_[I] == wanted_) return;
    lent_[I] = wanted_;
    tell_lenders();
  }
  void tell_lenders() {
    each([&]<std::size_t I>() {
      int lent = 0;
      for (const auto& borrower : lent_) lent += borrower[I];
      std::get<I>(engines_).port().lend(lent);
    });
  }
  /// Engine I has no request: it keeps as much of the others' memory as the coordinator leaves it, and all of its own
  /// can be lent.
  template <std::size_t I>
  void keep_borrowed() {
    if constexpr (CoordinatorP::lends) {
      auto& engine = std::get<I>(engines_);
      const bool borrows = std::any_of(lent_[I].begin(), lent_[I].end(), [](int layers) { return layers > 0; });
      if (!borrows && engine.port().lent_to_itself() == 0) return;
      engine.port().keep_borrowed(ask_to_lend(I, Bytes{std::numeric_limits<std::int64_t>::min() / 2}));
      moved_out<I>();
    }
  }
  static LayerBlocks lend_to(void* self, std::size_t engine, LayerBlocks demand, LayerBlocks own) {
    BasicNode& node = *static_cast<BasicNode*>(self);
    Bytes block{0};
    with(engine, [&]<std::size_t I>() { block = std::get<I>(node.engines_).port().geometry().layer_block_bytes; });
    return node.ask_to_lend(engine, block * (demand - own).count());
  }
  static int grant_to(void* self, std::size_t engine) {
    BasicNode& node = *static_cast<BasicNode*>(self);
    return node.config_.coordinator.grant(node.members(), engine);
  }

  Config config_;
  std::tuple<Engines...> engines_;
  SharedBus bus_;
  typename SharingP::State sharing_;
  Occupancy now_;
  Seconds at_{0};
  std::array<std::vector<KeyedRequest>, count> waiting_;
  std::array<std::vector<Answered>, count> refused_; ///< requests of sessions that were refused when they arrived
  std::array<Seconds, count> active_until_{};
  std::array<std::array<int, count>, count> lent_{}; ///< [borrower][lender], layers
  std::array<int, count> wanted_{};                  ///< of `lent_`, by the decision in progress
  LayerBlocks wanted_blocks_{0};
  Status status_;
};

namespace detail {

template <class T>
inline constexpr bool is_engine = !DeclaresRole<T>;

template <class Engines, class... Ts>
struct EnginesOf;
template <class... Es>
struct EnginesOf<Parts<Es...>> {
  using type = Parts<Es...>;
};
template <class... Es, class T, class... Ts>
struct EnginesOf<Parts<Es...>, T, Ts...>
    : EnginesOf<std::conditional_t<is_engine<T>, Parts<Es..., T>, Parts<Es...>>, Ts...> {};

/// The one policy of a role among `Ts`, or the default.
template <class Role, class Default, class... Ts>
struct NodePolicy {
  using type = Default;
};
template <class Role, class Default, class T, class... Ts>
struct NodePolicy<Role, Default, T, Ts...> : NodePolicy<Role, Default, Ts...> {};
template <class Role, class Default, class T, class... Ts>
  requires PlaysRole<T, Role>
struct NodePolicy<Role, Default, T, Ts...> {
  static_assert((!PlaysRole<Ts, Role> && ...), "sluice: a node needs exactly one policy of each of its roles");
  using type = T;
};

template <class Coordinator, class Sharing, class Engines>
struct ComposeNode;
template <class CoordinatorP, class SharingP, class... Engines>
struct ComposeNode<CoordinatorP, SharingP, Parts<Engines...>> {
  // Qualified: clang 14 finds no unqualified `explain` here in a unit that names several nodes in generic lambdas.
  static_assert(sluice::explain<CoordinatorP>());
  static_assert(sluice::explain<SharingP>());
  using type = BasicNode<CoordinatorP, SharingP, Engines...>;
};

} // namespace detail

/// A node of these engines, coordinator and sharing, in any order. The coordinator defaults to `Uncoordinated`, the
/// sharing to `OwnDevices`: every engine has its own device.
///
///     using TwoOnABus = sluice::Node<BusCoordinator, SelectN, SelectN>;
///     using Tenants = sluice::Node<RemapController, TakeTurns, Mirage, Mirage, Mirage>;
template <class... Ts>
using Node = typename detail::ComposeNode<typename detail::NodePolicy<roles::Coordinator, Uncoordinated, Ts...>::type,
                                          typename detail::NodePolicy<roles::Sharing, OwnDevices, Ts...>::type,
                                          typename detail::EnginesOf<Parts<>, Ts...>::type>::type;

} // namespace sluice
