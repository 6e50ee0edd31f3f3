// SPDX-License-Identifier: Apache-2.0
// Tiers: the memories below an engine's device: which blocks they have, and which are on their way to or from them.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/engine/core/policy_table.hpp"
#include "sluice/engine/core/tier_level.hpp"
#include "sluice/report/observer/event.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Blocks move in three ways; a block can be found when it has arrived.
///
/// - Writes to the first tier cross the link in the order in which they were offered, behind everything else. The tier
///   takes room for a block when it has crossed, and evicts others.
/// - Loads from the first tier that requests wait for cross the link in order, while iterations leave its lane to the
///   device idle.
/// - Between tiers blocks move on the tiers' own channels; when such a transfer ends is known when it starts. Blocks
///   that a tier evicts into the next one are in a buffer meanwhile.
///
/// Tiers count token blocks. The link counts layer blocks, and may have crossed a part of one.
class Tiers {
 public:
  /// Gets an abandoned load.
  static constexpr RequestId nobody{std::numeric_limits<std::uint32_t>::max()};
  /// A request that a load or fetch serves.
  struct Waiter {
    Slot slot{};
    RequestId id{};
    bool waits = true;                                      ///< else the fetch is ahead of its turn
    Seconds until{std::numeric_limits<double>::infinity()}; ///< it has patience so long
  };
  /// What a fetch has brought to the first tier: `keys` of a request, from its first block on, without the first
  /// `before`.
  struct Brought {
    std::span<const BlockKey> keys;
    std::size_t before = 0;
    bool all = true;

    /// How many of another request's blocks are among them.
    [[nodiscard]] std::size_t of(std::span<const BlockKey> other) const {
      return std::max(TierRequests::common(keys, other), before) - before;
    }
  };
  /// How many of a request's blocks can be found.
  struct Found {
    std::size_t first = 0; ///< the first tier, from the first block on
    std::size_t lower = 0; ///< after those, any tier
  };
  /// A load that has ended.
  struct Loaded {
    Waiter by;
    std::size_t arrived = 0, missing = 0; ///< blocks; missing ones were evicted meanwhile
  };

  LayerBlocks moved_idle{0};  ///< launched to the first tier between iterations, for the next iteration's account
  LayerBlocks loaded_idle{0}; ///< of loads that began since the last iteration, for the same

  Tiers(const TierList& tiers, Bytes token_block, Feed feed)
      : block_(token_block), feed_(feed), explains_(tiers.explains_misses) {
    add(tiers.first);
    for (const Tier& tier : tiers.lower) add(tier);
  }

  [[nodiscard]] std::size_t count() const { return levels_.size(); }
  [[nodiscard]] const TierLevel& level(std::size_t i) const { return levels_[i]; }
  [[nodiscard]] const TierStore& store() const { return levels_[0].store; }
  [[nodiscard]] std::vector<Tier> facts() const {
    std::vector<Tier> facts;
    for (const auto& level : levels_.all) facts.push_back(level->facts);
    return facts;
  }
  /// From now on these tiers are those of another engine of the same node. `engine`: a number of its own, not 0.
  void share(const Tiers& other, std::uint64_t engine) {
    levels_.all = other.levels_.all;
    levels_.requests = other.levels_.requests;
    levels_.requests->shared = true;
    engine_ = engine;
  }

  // Finding -----------------------------------------------------------------------------------------------------------

  [[nodiscard]] Found find(std::span<const BlockKey> keys) const {
    Found found{store().find(keys), 0};
    if (levels_.size() > 1)
      while (found.first + found.lower < keys.size() && nearest(keys[found.first + found.lower]) < levels_.size())
        ++found.lower;
    return found;
  }
  /// How long the first tier's own channel would take for `count` blocks.
  [[nodiscard]] Seconds read_time(std::size_t count, Seconds now) const {
    return read_end(levels_[0], static_cast<std::int64_t>(count), now) - now;
  }
  /// How long it would take to bring a request's blocks `keys` to the first tier, from position `first` on.
  [[nodiscard]] Seconds fetch_time(std::span<const BlockKey> keys, std::size_t first, Seconds now) const {
    Seconds end = now;
    for (const Fetch& fetch : fetches_)
      if (const std::size_t covered = TierRequests::common(fetch.keys, keys); fetch.first <= first && covered > first) {
        end = std::max(end, fetch.end);
        first = covered;
      }
    std::vector<std::int64_t> from(levels_.size() + 1);
    for (const BlockKey key : keys.subspan(first)) ++from[nearest(key)];
    for (std::size_t i = 1; i < levels_.size(); ++i)
      if (from[i] > 0) end = std::max(end, read_end(levels_[i], from[i], now));
    return end - now;
  }
  /// A request that waits from now on uses these blocks; they are worth at least `worth` as long as it waits.
  void want(Slot slot, std::span<const BlockKey> keys, double worth) {
    levels_.requests->want(by(slot), keys, worth);
    levels_[0].store.touch(keys, [&](std::size_t i) { return wanted(keys[i]); });
  }
  /// The request joins, and uses its blocks. They are worth `worth`, or what other requests that wait say.
  void join(Slot slot, std::span<const BlockKey> keys, double worth) {
    (void)levels_.requests->forget(by(slot));
    levels_[0].store.touch(keys, [&](std::size_t i) { return std::max(worth, wanted(keys[i])); });
  }
  /// The request will not join. Its blocks are worth what other requests that wait say.
  void leave(Slot slot) {
    const std::vector<BlockKey> keys = levels_.requests->forget(by(slot));
    levels_[0].store.weigh(keys, [&](std::size_t i) { return wanted(keys[i]); });
  }
  /// The first tier may have at most `room` blocks from now on, and evicts the excess.
  void limit(std::int64_t room, Seconds now) {
    std::vector<BlockKey> evicted;
    levels_[0].store.limit(std::min(levels_[0].facts.capacity, TokenBlocks{room}),
                           [&](BlockKey key) { evicted.push_back(key); });
    if (!evicted.empty() && levels_.size() > 1 && feed_ == Feed::evicted) send(1, {evicted, {}, 0, true}, now);
  }
  void touch(std::span<const BlockKey> keys, Seconds now) {
    levels_[0].store.touch(keys);
    used_again(keys, 0, now);
  }

  // Writes ------------------------------------------------------------------------------------------------------------

  /// Offers a request's blocks `keys`, from its first one on, of which the first `before` were offered before: those
  /// behind them are written, except for blocks that the tier has or that are on their way. If the tier has lost a
  /// block that was offered before, nothing is written: what follows it could never be found. `layers` of each block
  /// cross the link; the host has the others.
  void write(std::span<const BlockKey> keys, std::size_t before, double worth, Seconds now, int layers = 1) {
    std::size_t known = expected(0, keys);
    for (const Write& other : waiting_) known = std::max(known, Requests::common(keys, other.keys));
    if (known < before) return;
    for (std::size_t i = known; i < keys.size(); ++i) offered_ += store().holds(keys[i]) ? 0 : layers;
    waiting_.push_back({{keys.begin(), keys.end()}, before, known, worth, offered_});
    crossed(static_cast<double>(launched_) - crossed_, now); // if nothing moves, they are only used once more
  }
  /// The device overwrites these blocks, which no request's order says anything about. Returns how many cross the link,
  /// in the iteration that is launched.
  std::int64_t write_back(std::span<const BlockKey> keys, Seconds now) {
    std::int64_t missing = 0;
    for (const BlockKey key : keys) missing += store().holds(key) ? 0 : 1;
    transfer(0, {keys, {}, 0, true}, missing, now);
    return missing;
  }
  /// How many layer blocks were offered since the last call; they are on the link from now on.
  [[nodiscard]] std::int64_t launch() { return offered_ - std::exchange(launched_, offered_); }
  /// All blocks that were launched have crossed by `now`, except for the last `left`.
  void crossed(double left, Seconds now) {
    crossed_ = static_cast<double>(launched_) - left;
    std::size_t arrived = 0;
    // A block has crossed if nearly all of it has: the link's time is a sum of doubles.
    for (; arrived < waiting_.size() && static_cast<double>(waiting_[arrived].end) <= crossed_ + nearly; ++arrived) {
      const Write& write = waiting_[arrived];
      const std::span<const BlockKey> keys(write.keys);
      const std::size_t known = expected(0, keys);
      if (known < write.known) continue; // evicted meanwhile
      used_again(keys.first(write.known), write.before, now);
      send_behind(known, 0, {keys, {}, write.worth}, now);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(arrived));
  }
  /// Blocks that were launched and have not crossed.
  [[nodiscard]] double on_link() const { return static_cast<double>(launched_) - crossed_; }

  // Loads from the first tier -----------------------------------------------------------------------------------------

  /// Begins a load within an iteration that starts now. Returns how many blocks' worth of link time the load takes:
  /// more than `count` if the tier's own channel, which serves the same load, is slower. Loads of one iteration follow
  /// one another, so each takes the time from the end of the one before it.
  [[nodiscard]] double load_within(std::int64_t count, Seconds now, int layers = 1) {
    const Seconds begin = within_at_ == now ? std::max(now, within_end_) : now;
    within_at_ = now;
    within_end_ = read(levels_[0], count, now);
    const auto blocks = static_cast<double>(count);
    return within_end_ > begin ? std::max(blocks, (within_end_ - begin).count() * rate_ / layers) : blocks;
  }

  /// Begins a load of `layers` layers of `keys`, which the first tier has, for a request that waits for it.
  void load(Waiter by, std::span<const BlockKey> keys, Seconds now, int layers = 1) {
    const auto count = static_cast<std::int64_t>(keys.size());
    if (loads_.empty()) run_until_ = std::max(run_until_, now); // the link was idle for it only from now on
    wanted_ += count * layers;
    loads_.push_back({by, {keys.begin(), keys.end()}, {}, wanted_, read(levels_[0], count, now)});
  }
  /// Whether a load under way brings a block; the request then waits for it, too.
  bool join_load(BlockKey key, const Waiter& waiter) {
    for (Load& load : loads_)
      if (load.by.id != nobody && std::find(load.keys.begin(), load.keys.end(), key) != load.keys.end()) {
        load.waiters.push_back(waiter);
        return true;
      }
    return false;
  }
  /// If a fetch under way brings a request's block `first`, it serves the request, too. Returns the request's next
  /// block that it does not bring.
  std::size_t join_fetch(std::span<const BlockKey> keys, std::size_t first, const Waiter& waiter) {
    for (Fetch& fetch : fetches_) {
      const std::size_t end = TierRequests::common(fetch.keys, keys);
      if (fetch.first > first || end <= first) continue;
      const auto same = std::find_if(fetch.waiters.begin(), fetch.waiters.end(),
                                     [&](const Waiter& w) { return w.slot == waiter.slot && w.id == waiter.id; });
      if (same == fetch.waiters.end())
        fetch.waiters.push_back(waiter);
      else
        *same = waiter; // it was fetched ahead of its turn, and the turn has come
      return end;
    }
    return first;
  }
  /// The request leaves. Its load keeps the link until it has ended, and nobody gets the blocks.
  void abandon(Slot slot) {
    for (Load& load : loads_)
      if (load.by.slot == slot) load.by.id = nobody;
  }
  /// The lane to the device was idle for `blocks` layer blocks during an iteration that ended at `now`.
  void pass(double blocks, Seconds now) {
    arrived_ = std::min(static_cast<double>(wanted_), arrived_ + blocks);
    run_until_ = now;
  }
  /// Nothing has run until `now`, so that the link was idle, at `blocks_per_s`.
  void pass_idle(double blocks_per_s, Seconds now) {
    rate_ = blocks_per_s;
    double least = arrived_;
    for (const Load& load : loads_)
      if (idle_end(load) <= now) least = static_cast<double>(load.end);
    arrived_ = std::max(least, std::min(static_cast<double>(wanted_), arrived_ + idle_blocks(now)));
    run_until_ = now;
  }
  /// Layer blocks that the link's lane to the device could have moved since the last iteration.
  [[nodiscard]] double idle_blocks(Seconds now) const { return std::max(0.0, (now - run_until_).count()) * rate_; }
  [[nodiscard]] double loading() const { return static_cast<double>(wanted_) - arrived_; }
  [[nodiscard]] Seconds run_until() const { return run_until_; }
  /// Takes the next load that has ended by `now`, and calls `wake(waiter, {})` for the others that wait for it.
  template <class Wake>
  bool take_loaded(Seconds now, Loaded& loaded, Wake&& wake) {
    if (loads_.empty()) return false;
    const Load& load = loads_.front();
    if (static_cast<double>(load.end) > arrived_ + nearly || load.ready > now) return false;
    loaded.by = load.by;
    loaded.arrived = store().find(load.keys);
    loaded.missing = load.keys.size() - loaded.arrived;
    for (const Waiter& waiter : load.waiters) wake(waiter, Brought{});
    loads_.erase(loads_.begin());
    return true;
  }
  /// When the next load or fetch ends, if no iteration runs; infinite if there is none.
  [[nodiscard]] Seconds next_end() const {
    Seconds next{std::numeric_limits<double>::infinity()};
    if (!loads_.empty()) next = idle_end(loads_.front());
    for (const Fetch& fetch : fetches_)
      for (const Waiter& waiter : fetch.waiters) next = std::min(next, fetch.until(waiter));
    return next;
  }

  // Why blocks are not found ------------------------------------------------------------------------------------------

  [[nodiscard]] bool explains() const { return explains_; }
  /// A request computes blocks from now on, unless others bring them.
  void computes(std::span<const BlockKey> keys) {
    for (const BlockKey key : keys) ++levels_.requests->past[static_cast<std::uint64_t>(key)].computing;
  }
  /// The request leaves. It has computed the first `computed` of its blocks `all`, and would have computed `prompt`.
  void computed(std::span<const BlockKey> all, std::size_t computed, std::size_t prompt) {
    auto& past = levels_.requests->past;
    for (const BlockKey key : all.first(computed)) note(key, Past::computed);
    for (const BlockKey key : all.first(prompt)) {
      const auto known = past.find(static_cast<std::uint64_t>(key));
      if (--known->second.computing == 0 && known->second.latest == Past::none) past.erase(known);
    }
  }
  /// Why a request computes its blocks `from` to `to`. `on_device(key)`: whether the device has a block. Blocks that no
  /// request has had before are no miss, nor is what follows them; blocks after a miss count under that miss's cause.
  template <class OnDevice>
  void explain(std::span<const BlockKey> keys, std::size_t from, std::size_t to, bool fetched, OnDevice&& on_device,
               MissCauses& causes) const {
    const auto& of = levels_.requests->past;
    Tokens* behind = nullptr; // what is there behind a miss is missed for the same cause
    for (std::size_t i = from; i < to; ++i) {
      const auto past = of.find(static_cast<std::uint64_t>(keys[i]));
      if (past == of.end()) return;
      const Past latest = past->second.latest;
      const std::size_t in = nearest(keys[i]);
      if (in == levels_.size() && !on_device(keys[i]))
        behind = latest == Past::none || on_its_way(keys[i]) ? &causes.late
                 : latest == Past::arrived                   ? &causes.evicted
                                                             : &causes.unwritten;
      else if (behind == nullptr) // a fetch that has not brought it was too slow
        behind = fetched && in > 0 && in < levels_.size() ? &causes.late : &causes.cut;
      *behind += Tokens{1};
    }
  }

  // What clients say of ended requests --------------------------------------------------------------------------------

  /// Blocks that a request leaves and will not be used: the first to leave the first tier, the last one first, unless
  /// somebody uses them before. Engines that share tiers do not know each other's users: they discard nothing.
  void discard(std::span<const BlockKey> keys) {
    if (levels_.requests->shared) return;
    levels_[0].store.leave_first(keys, [&](std::size_t i) { return wanted(keys[i]) > 0; });
  }
  /// A session's request has ended in a slot at `now`, and its next one is expected `returns` later.
  struct Expectation {
    std::uint32_t session = 0;
    Slot slot{};
    double worth = 0;
    Seconds now{0}, returns{0};
  };
  /// These blocks of it are brought to the first tier by then, at the rates of an idle channel, and are worth as much
  /// as is said until the session comes, or is twice as late.
  void expect(const Expectation& of, std::span<const BlockKey> keys);
  /// The session's next request joins.
  void came(std::uint32_t session) {
    if (expected_.empty() || session == 0) return;
    std::erase_if(expected_, [session](const Expected& one) { return one.of.session == session; });
    (void)levels_.requests->forget(by(session));
  }

  // Between tiers -----------------------------------------------------------------------------------------------------

  /// Brings a request's blocks `keys`, from its first one on, to the first tier from position `first` on. It goes on
  /// until they have arrived or no request that it serves has patience left.
  void fetch(const Waiter& by, std::span<const BlockKey> keys, std::size_t first, double worth, Seconds now) {
    Fetch fetch{{keys.begin(), keys.end()}, {by}, first, worth, now, now};
    std::vector<std::int64_t> from(levels_.size() + 1);
    for (const BlockKey key : keys.subspan(first)) ++from[nearest(key)];
    for (std::size_t i = 1; i < levels_.size(); ++i) {
      if (from[i] == 0) continue;
      fetch.begin = std::max(fetch.begin, std::max(now, levels_[i].reads_until) + levels_[i].facts.latency);
      fetch.end = std::max(fetch.end, read(levels_[i], from[i], now));
      levels_[i].store.touch(keys.subspan(first));
    }
    fetches_.push_back(std::move(fetch));
  }
  /// Everything that has arrived by `now` is in its tier; calls `wake(waiter, brought)` for requests whose fetch is
  /// over or whose patience has ended.
  template <class Wake>
  void arrive_by(Seconds now, Wake&& wake) {
    if (!expected_.empty()) bring_expected(now);
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      TierLevel& level = levels_[i];
      std::size_t arrived = 0;
      for (; arrived < level.coming.size() && level.coming[arrived].end <= now; ++arrived) {
        const TierLevel::Coming& coming = level.coming[arrived];
        arrive(i, {coming.keys, coming.previous, coming.worth, coming.evicted}, coming.end);
      }
      level.coming.erase(level.coming.begin(), level.coming.begin() + static_cast<std::ptrdiff_t>(arrived));
    }
    for (std::size_t i = 0; i < fetches_.size();) {
      Fetch& fetch = fetches_[i];
      const auto due = std::stable_partition(fetch.waiters.begin(), fetch.waiters.end(),
                                             [&](const Waiter& waiter) { return fetch.until(waiter) > now; });
      if (due == fetch.waiters.end()) {
        ++i;
        continue;
      }
      Seconds until = now;
      if (due == fetch.waiters.begin()) { // nobody waits for the rest
        until = fetch.until(*due);
        for (auto other = due; other != fetch.waiters.end(); ++other) until = std::max(until, fetch.until(*other));
      }
      const std::size_t arrived = fetch.arrived(until);
      // Blocks before these stay in the tier if they are there. Those that only the device has are not written.
      std::size_t from = fetch.first;
      while (from > 0 && store().holds(fetch.keys[from - 1])) --from;
      arrive(0, run_of(fetch.keys, from, arrived, fetch.worth), until);
      const Brought brought{std::span<const BlockKey>(fetch.keys).first(arrived), fetch.first, until >= fetch.end};
      for (auto waiter = due; waiter != fetch.waiters.end(); ++waiter) wake(*waiter, brought);
      fetch.waiters.erase(due, fetch.waiters.end());
      if (fetch.waiters.empty())
        fetches_.erase(fetches_.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
  }

 private:
  static constexpr double nearly = 1e-5;

  /// Blocks of a request in order, the block before them if they are not its first, and their worth; or evicted blocks,
  /// of any requests, in the order of their evictions.
  struct Run {
    std::span<const BlockKey> keys;
    BlockKey previous{};
    double worth = 0;
    bool evicted = false;
  };
  static Run run_of(std::span<const BlockKey> keys, std::size_t from, std::size_t to, double worth) {
    return {keys.subspan(from, to - from), from > 0 ? keys[from - 1] : BlockKey{}, worth};
  }
  struct Write {
    std::vector<BlockKey> keys; ///< of the request, from its first block on
    std::size_t before = 0;     ///< of them, those that this request has offered before
    std::size_t known = 0;      ///< of them, those that are in the tier or on their way to it
    double worth = 0;
    std::int64_t end = 0; ///< layer blocks offered up to its last
  };
  struct Load {
    Waiter by;
    std::vector<BlockKey> keys;
    std::vector<Waiter> waiters;
    std::int64_t end = 0; ///< layer blocks loaded up to its last
    Seconds ready{0};     ///< when the tier's own channel has delivered them
  };
  struct Fetch {
    std::vector<BlockKey> keys; ///< of the request, from its first block on
    std::vector<Waiter> waiters;
    std::size_t first = 0;
    double worth = 0;
    Seconds begin{0}, end{0}; ///< its bytes move

    /// When it is over for a request.
    [[nodiscard]] Seconds until(const Waiter& waiter) const { return std::min(end, waiter.until); }
    /// How many of `keys` are in the first tier at `until`.
    [[nodiscard]] std::size_t arrived(Seconds until) const {
      if (until >= end) return keys.size();
      const double share = std::max(0.0, (until - begin) / (end - begin));
      return first + static_cast<std::size_t>(share * static_cast<double>(keys.size() - first));
    }
  };

  struct Expected {
    Expectation of;
    std::vector<BlockKey> keys;
    Seconds due{0}; ///< when its blocks are brought and used; after that, when it is twice as late
    bool brought = false;
  };

  using Requests = TierRequests;
  using Past = TierRequests::Past;
  using Wanted = TierRequests::Wanted;

  /// The tiers, the first one first. Engines of a node may share them; a copy has its own.
  struct Levels {
    std::vector<std::shared_ptr<TierLevel>> all;
    std::shared_ptr<Requests> requests = std::make_shared<Requests>();

    Levels() = default;
    Levels(const Levels& other) : all(other.all), requests(std::make_shared<Requests>(*other.requests)) {
      for (auto& level : all) level = std::make_shared<TierLevel>(*level);
    }
    Levels(Levels&&) = default;
    Levels& operator=(Levels other) noexcept {
      std::swap(all, other.all);
      std::swap(requests, other.requests);
      return *this;
    }
    ~Levels() = default;
    [[nodiscard]] std::size_t size() const { return all.size(); }
    TierLevel& operator[](std::size_t i) { return *all[i]; }
    const TierLevel& operator[](std::size_t i) const { return *all[i]; }
  };

  void add(const Tier& tier) {
    TierLevel level;
    level.facts = tier;
    level.store = TierStore(tier.capacity, tier.replacement);
    levels_.all.push_back(std::make_shared<TierLevel>(std::move(level)));
  }
  [[nodiscard]] std::uint64_t by(Slot slot) const { return (engine_ << 32) + index(slot); }
  [[nodiscard]] std::uint64_t by(std::uint32_t session) const {
    return (std::uint64_t{1} << 63) + (engine_ << 32) + session;
  }
  [[nodiscard]] double wanted(BlockKey key) const { return levels_.requests->wanted_worth(key); }
  void put_expected(Expected one) {
    const auto later = [](Seconds due, const Expected& other) { return due < other.due; };
    expected_.insert(std::upper_bound(expected_.begin(), expected_.end(), one.due, later), std::move(one));
  }
  /// What is due by `now` happens when it was due, in that order: nothing has used the channels of an idle engine in
  /// between.
  void bring_expected(Seconds now);
  void note(BlockKey key, Past past) {
    Past& known = levels_.requests->past[static_cast<std::uint64_t>(key)].latest;
    known = std::max(known, past);
  }
  [[nodiscard]] bool on_its_way(BlockKey key) const {
    const auto has = [key](const auto& some) {
      return std::find(some.keys.begin(), some.keys.end(), key) != some.keys.end();
    };
    return std::any_of(waiting_.begin(), waiting_.end(), has) ||
           std::any_of(levels_.all.begin(), levels_.all.end(), [&](const std::shared_ptr<TierLevel>& level) {
             return std::any_of(level->coming.begin(), level->coming.end(), has);
           });
  }
  /// The nearest tier that has a block; `count()` if none has.
  [[nodiscard]] std::size_t nearest(BlockKey key) const {
    std::size_t i = 0;
    while (i < levels_.size() && !levels_[i].store.holds(key)) ++i;
    return i;
  }
  /// A request uses its blocks once more, from number `from` on; the next tier gets those that the first one has.
  void used_again(std::span<const BlockKey> keys, std::size_t from, Seconds now) {
    if (feed_ != Feed::used_again || levels_.size() == 1) return;
    while (from < keys.size() && !store().holds(keys[from])) ++from; // these are on the device only
    const std::size_t held = store().find(keys.subspan(from));
    if (held > 0) send(1, run_of(keys, from, from + held, 0), now);
  }
  /// When a read of `count` blocks from a tier ends.
  Seconds read(TierLevel& level, std::int64_t count, Seconds now) const {
    level.read_blocks += count;
    return level.reads_until = read_end(level, count, now);
  }
  [[nodiscard]] Seconds read_end(const TierLevel& level, std::int64_t count, Seconds now) const {
    return std::max(now, level.reads_until) + level.facts.latency + block_ * count / level.facts.read_rate;
  }
  [[nodiscard]] Seconds idle_end(const Load& load) const {
    return std::max(load.ready, run_until_ + Seconds{std::max(0.0, static_cast<double>(load.end) - arrived_) / rate_});
  }
  /// How many of `keys`, from the first on, a tier has or will have.
  [[nodiscard]] std::size_t expected(std::size_t in, std::span<const BlockKey> keys) const {
    std::size_t known = levels_[in].store.find(keys);
    for (const TierLevel::Coming& other : levels_[in].coming)
      known = std::max(known, Requests::common(keys, other.keys));
    return known;
  }
  /// Blocks go to a tier on its channel, except for those that it has. Of a request's blocks those do not go either
  /// that are on their way to it.
  void send(std::size_t to, const Run& run, Seconds now) {
    send_behind(run.evicted ? 0 : expected(to, run.keys), to, run, now);
  }
  /// The same, of which the tier has the first `known`, or they are on their way to it.
  void send_behind(std::size_t known, std::size_t to, const Run& run, Seconds now) {
    std::int64_t missing = 0;
    for (const BlockKey key : run.keys.subspan(known)) missing += levels_[to].store.holds(key) ? 0 : 1;
    transfer(to, run, missing, now);
  }
  /// Blocks go to a tier, which takes its channel the time of `count` of them.
  void transfer(std::size_t to, const Run& run, std::int64_t count, Seconds now) {
    TierLevel& level = levels_[to];
    level.written += count;
    const Seconds end = std::max(now, level.writes_until) + block_ * count / level.facts.write_rate;
    if (count > 0) level.writes_until = end;
    if (end <= now)
      arrive(to, run, now);
    else
      level.coming.push_back({end, {run.keys.begin(), run.keys.end()}, run.previous, run.worth, run.evicted});
  }
  /// Blocks have arrived in a tier; the next one gets what the feed says.
  void arrive(std::size_t in, const Run& run, Seconds now) {
    const auto worth_of = [&](std::size_t i) { return std::max(run.worth, wanted(run.keys[i])); };
    TierStore& store = levels_[in].store;
    std::vector<BlockKey> evicted;
    const bool feeds = in + 1 < levels_.size() && feed_ == Feed::evicted;
    const auto evict = [&](BlockKey key) {
      if (feeds) evicted.push_back(key);
    };
    if (run.evicted) // one by one: what left last is the most recent. As a request's, the first would be
      for (const BlockKey key : run.keys) (void)store.store_one(key, true, evict);
    else
      store.store(run.keys, evict, worth_of, run.previous);
    if (explains_)
      for (const BlockKey key : run.keys)
        if (store.holds(key)) note(key, Past::arrived);
    if (in + 1 == levels_.size()) return;
    if (!evicted.empty()) send(in + 1, {evicted, {}, 0, true}, now);
    if (feed_ == Feed::written || (feed_ == Feed::used_again && in > 0)) send(in + 1, run, now);
  }
  Bytes block_; ///< of all layers
  Feed feed_;
  Levels levels_;
  std::vector<Write> waiting_; ///< in the order of their offers
  std::int64_t offered_ = 0, launched_ = 0;
  double crossed_ = 0; ///< layer blocks
  std::vector<Load> loads_;
  std::int64_t wanted_ = 0;                               ///< layer blocks of all loads so far
  double arrived_ = 0;                                    ///< of them
  double rate_ = std::numeric_limits<double>::infinity(); ///< of an idle link, layer blocks a second
  Seconds run_until_{0};                                  ///< end of the last iteration: the link is idle since
  Seconds within_at_{-1}, within_end_{0};                 ///< of the last load within an iteration: its start, its end
  std::vector<Fetch> fetches_;
  std::vector<Expected> expected_; ///< sessions whose next request is expected, by when they are due
  bool explains_ = false;
  std::uint64_t engine_ = 0; ///< of those that share the tiers
};

/// Defined in tiers.inl.hpp.
extern const TierCalls tier_calls;

} // namespace sluice
