// SPDX-License-Identifier: Apache-2.0
// Fleet: engines behind a router, advanced by windows.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/fleet/events.hpp"
#include "sluice/fleet/front.hpp"
#include "sluice/fleet/pool.hpp"
#include "sluice/fleet/ranks.hpp"
#include "sluice/fleet/router.hpp"
#include "sluice/fleet/settings.hpp"
#include "sluice/fleet/summary.hpp"
#include "sluice/model/decoder/thread_pool.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Engines behind a router, in one simulation. With one pool, an engine serves a request from prompt to answer. With
/// two, engines of the first compute prompts and engines of the second generate, and KV crosses a network (`Handoff`).
///
///     auto fleet = make_fleet<LeastLoaded, VllmPrefixCaching>(8, server);
///     const Status status = fleet->run(requests);
///     fleet->summary().ttft.quantile(0.9)
///
/// Time passes in windows of `Router::every`. When a window begins, engines report; then all its requests are routed,
/// in order of time, by those reports and by what was sent since; then each engine runs until the window ends. Within a
/// window no engine depends on another, so they run on any number of threads and ranks, with the same result to the
/// bit. docs/fleet.md says what windows cost in accuracy.
template <Router R, class... Es>
class Fleet {
 public:
  static constexpr std::size_t pools = sizeof...(Es);
  static_assert(pools == 1 || pools == 2,
                "sluice: a fleet has one pool of engines, or one that computes prompts and one "
                "that generates: Fleet<Router, E> or Fleet<Router, Prefill, Decode>");
  static constexpr RouterReads reads = R::reads;

  struct Config {
    /// Of each pool. `make` mixes the pool's number into the `seed` of the second one, if it has a seed: both pools
    /// number their requests alike, and would draw the same engines.
    std::array<R, pools> routers{};
    std::tuple<std::vector<typename Pool<Es>::Config>...> engines{}; ///< of each pool; all have blocks of one size
    FleetSettings settings{};
  };

  /// Makes a fleet. `ranks`: the processes that run it, of which this one makes its own engines only; null: one
  /// process.
  static Expected<Fleet> make(Config config, Ranks* ranks = nullptr) {
    if (Status status = detail::check_fleet(config); !status.ok()) return status.error();
    return make(std::move(config), ranks, std::index_sequence_for<Es...>{});
  }

  [[nodiscard]] const FleetSummary& summary() const { return summary_; }
  /// The router of a pool; it may be changed before `run`.
  [[nodiscard]] R& router(std::size_t pool = 0) { return fronts_[pool].router; }
  /// Engines in all pools and ranks.
  [[nodiscard]] std::size_t size() const { return offset(pools); }
  /// This process's engines of a pool.
  template <std::size_t P = 0>
  [[nodiscard]] const auto& pool() const {
    return std::get<P>(pools_);
  }

  /// Serves all of `requests`; each request of a session arrives when the one before it was answered. A refused request
  /// is no error. Errors: an unreadable trace, a router that chooses an engine which takes no requests, an engine's
  /// failed policy or livelock, no engine left. Call it once.
  template <TraceReader Reader, FleetListener Listener>
  Status run(Reader& requests, Listener&& listener) {
    if (arrivals_in_steps(requests))
      return Error{ErrorCode::bad_input, "arrivals", "they count engine steps, and a fleet's engines share one clock",
                   "arrivals in seconds"};
    ClosedLoop<Reader> loop(requests, block_tokens_);
    if (Status status = agree(ranks_, loop.start()); !status) return status;
    return run_clients(loop, listener);
  }
  template <TraceReader Reader>
  Status run(Reader& requests) {
    return run(requests, [](const auto& /*event*/) {});
  }
  /// The same for clients that are no trace: `clients` has the functions `next`, `take` and `answered` of ClosedLoop,
  /// and its requests have sessions if it is to hear of their ends.
  template <class Clients, FleetListener Listener>
  Status run_clients(Clients& loop, Listener&& listener) {
    ThreadPool threads(std::max(1, settings_.threads));
    for (std::int64_t window = 0;;) {
      ++summary_.windows;
      const Seconds begin = at(window), until = at(window + 1);
      if (Status status = begin_window(begin, listener); !status) return status;
      if constexpr (pools == 2) count_arrived(begin);
      if (Status status = agree(ranks_, take_arrivals(loop, begin, until)); !status) return status;
      if (Status status = route<0>(begin, threads, listener); !status) return status;
      if (Status status = advance<0>(until, threads); !status) return status;
      end_requests<0>(loop, listener);
      if constexpr (pools == 2) {
        take_handed(until);
        if (Status status = route<1>(begin, threads, listener); !status) return status;
        if (Status status = advance<1>(until, threads); !status) return status;
        end_requests<1>(loop, listener);
      }
      const Seconds next = next_event(loop);
      if (next == never_due) break;
      if (!(next / every() < most_windows))
        return Error{ErrorCode::bad_input, "fleet", "something happens at " + std::to_string(next.count()) + " s",
                     "at most 2^53 windows of the router's `every`"};
      window = next_window(window, next);
    }
    if constexpr (pools == 2) count_arrived(never_due);
    finish();
    return {};
  }

 private:
  using Arrival = detail::FleetArrival;
  using Tracked = detail::TrackedRequest;
  using Handed = detail::HandedRequest;
  using Front = detail::PoolFront<R>;
  static constexpr double most_windows = 9007199254740992.0; ///< their begins are exact below it

  Fleet(Config&& config, Ranks* ranks, std::tuple<Pool<Es>...>&& engines)
      : settings_(std::move(config.settings)), ranks_(ranks), pools_(std::move(engines)) {}

  template <std::size_t... P>
  static Expected<Fleet> make(Config config, Ranks* ranks, std::index_sequence<P...> /*pools*/) {
    const std::array<std::size_t, pools> counts{std::get<P>(config.engines).size()...};
    const Tokens block_tokens = std::get<0>(config.engines)[0].limits.block_tokens;
    std::array<Bytes, pools> token_bytes{};
    Status status;
    const auto make_pool = [&]<std::size_t I>() {
      auto& all = std::get<I>(config.engines);
      const auto& geometry = all[0].geometry;
      token_bytes[I] = geometry.layer_block_bytes * geometry.layers;
      const auto [first, last] = part_of(ranks, all.size());
      std::vector<typename std::tuple_element_t<I, std::tuple<Pool<Es>...>>::Config> mine;
      for (std::size_t i = first; i < last; ++i) mine.push_back(std::move(all[i]));
      auto pool = std::tuple_element_t<I, std::tuple<Pool<Es>...>>::make(std::move(mine), first, reads);
      if (!pool && status.ok()) status = pool.error();
      return pool;
    };
    const int layers = std::get<0>(config.engines)[0].geometry.layers;
    std::tuple<Expected<Pool<Es>>...> made{make_pool.template operator()<P>()...};
    if (Status all = agree(ranks, status); !all.ok()) return all.error();
    const std::array<R, pools> routers = config.routers;
    Fleet fleet(std::move(config), ranks, std::tuple<Pool<Es>...>{*std::move(std::get<P>(made))...});
    fleet.block_tokens_ = block_tokens;
    fleet.block_bytes_ = token_bytes[0];
    fleet.layers_ = layers;
    for (std::size_t i = 0; i < pools; ++i) {
      R& router = fleet.fronts_[i].router = routers[i];
      if constexpr (requires { router.seed; })
        if (i > 0) router.seed = static_cast<std::uint64_t>(next_key(BlockKey{router.seed}, i));
      fleet.fronts_[i].resize(counts[i]);
    }
    const std::size_t first = fleet.settings_.scaler.first;
    if (first > 0)
      for (std::size_t i = first; i < counts[0]; ++i) fleet.fronts_[0].opens[i] = never_due;
    fleet.tracks_ = pools == 2 || !fleet.settings_.failures.at.empty();
    fleet.summary_.engines.resize(fleet.size());
    for (const Failure& failure : fleet.settings_.failures.at) fleet.schedule(failure);
    (fleet.template gather_news<P>(), ...); // before the first window
    return fleet;
  }
  void schedule(const Failure& failure) {
    const auto in_pool = [&]<std::size_t P>() {
      Front& front = fronts_[P];
      if (failure.engine < offset(P) || failure.engine >= offset(P) + front.engines) return;
      const std::size_t i = failure.engine - offset(P);
      front.dies[i] = std::min(front.dies[i], failure.at);
      auto& pool = std::get<P>(pools_);
      if (i >= pool.first() && i - pool.first() < pool.size()) pool.kill(i - pool.first(), failure.at);
    };
    in_pool.template operator()<0>();
    if constexpr (pools == 2) in_pool.template operator()<1>();
  }

  /// The first engine of a pool, in the fleet's numbers.
  [[nodiscard]] std::size_t offset(std::size_t pool) const {
    std::size_t first = 0;
    for (std::size_t i = 0; i < pool; ++i) first += fronts_[i].engines;
    return first;
  }
  [[nodiscard]] Seconds every() const { return fronts_[0].router.every; }
  [[nodiscard]] Seconds at(std::int64_t window) const { return every() * static_cast<double>(window); }
  [[nodiscard]] std::int64_t window_of(Seconds when) const {
    auto window = static_cast<std::int64_t>(when / every());
    while (window > 0 && at(window) > when) --window; // rounding
    return window;
  }

  /// Engines report, replicas open, and the scaler looks.
  template <class Listener>
  Status begin_window(Seconds begin, Listener& listener) {
    for (std::size_t p = 0; p < pools; ++p) {
      fronts_[p].begin(begin);
      listener(FleetWindow{begin, static_cast<std::uint32_t>(offset(p)), fronts_[p].reports, fronts_[p].sent});
    }
    if (settings_.scaler.first > 0) scale(begin);
    return {};
  }
  void scale(Seconds begin) {
    if (begin < next_look_) return;
    next_look_ = settings_.scaler.every * (std::floor(begin / settings_.scaler.every) + 1);
    Front& front = fronts_[0];
    auto waiting = static_cast<std::int64_t>(front.arrivals.size() + returned_.size());
    for (const std::uint32_t i : front.open)
      waiting += front.news[i].report.waiting + front.news[i].report.preempted + front.sent[i].requests;
    if (static_cast<double>(waiting) <= settings_.scaler.most_waiting * static_cast<double>(front.open.size())) return;
    if (const std::size_t i = front.startable(); i < front.engines) front.opens[i] = begin + settings_.scaler.delay;
  }
  /// Whether an engine of the pool will take requests, though none does now.
  [[nodiscard]] bool will_open(std::size_t p) const {
    const Front& front = fronts_[p];
    return front.next_opening() < never_due ||
           (p == 0 && settings_.scaler.first > 0 && front.startable() < front.engines);
  }

  /// What arrives in the window, in order of time: what came back, and the workload's requests.
  template <class Clients>
  Status take_arrivals(Clients& loop, Seconds begin, Seconds until) {
    Front& front = fronts_[0];
    std::vector<ReturnedRequest> later;
    for (const ReturnedRequest& one : returned_)
      if (one.when < until)
        front.arrivals.push_back({one.number, one.when, first_stage(one.number)});
      else
        later.push_back(one);
    returned_ = std::move(later);
    const bool merges = !front.arrivals.empty();
    for (std::optional<Seconds> next = loop.next(); next && *next < until; next = loop.next()) {
      Expected<KeyedRequest> request = loop.take(begin);
      if (!request) return request.error();
      const std::uint64_t number = next_number_++;
      summary_.first_arrival = std::min(summary_.first_arrival, request->spec.arrival);
      ++summary_.requests;
      SentRequest sent{number, {}, {}, request->spec, {}, {}};
      if (tracks_) {
        tracked_[number] = {request->spec, std::move(request->keys)};
        sent = first_stage(number);
      } else {
        sent.keys = std::move(request->keys);
      }
      front.arrivals.push_back({number, request->spec.arrival, std::move(sent)});
    }
    if (merges)
      std::stable_sort(front.arrivals.begin(), front.arrivals.end(),
                       [](const Arrival& a, const Arrival& b) { return a.when < b.when; });
    return {};
  }
  /// A tracked request as the first pool gets it: with the tokens that its client has, and to the end, or to its first
  /// token if another pool generates.
  [[nodiscard]] SentRequest first_stage(std::uint64_t number) const {
    const Tracked& one = tracked_.at(number);
    SentRequest sent{number, {}, {}, one.spec, one.keys, {}};
    sent.spec.prompt += one.had;
    sent.spec.output = pools == 2 ? Tokens{1} : one.spec.output - one.had;
    return sent;
  }
  /// The requests whose prompts have been computed by now.
  void take_handed(Seconds until) {
    std::sort(handed_.begin(), handed_.end(), [](const Handed& a, const Handed& b) {
      return a.when != b.when ? a.when < b.when : a.number < b.number;
    });
    const auto later =
        std::find_if(handed_.begin(), handed_.end(), [&](const Handed& one) { return one.when >= until; });
    for (auto at = handed_.begin(); at != later; ++at) {
      Tracked& one = tracked_.at(at->number);
      SentRequest sent{at->number, at->ready, {}, one.spec, one.keys, one.spec.prompt + one.had - Tokens{1}};
      sent.spec.prompt += one.had;
      sent.spec.output = one.spec.output - one.had;
      sent.spec.arrival = at->when; // its next token is due a TBT after the one that it has
      sent.spec.slo.ttft = one.spec.slo.tbt;
      fronts_[pools - 1].arrivals.push_back({at->number, at->when, std::move(sent)});
    }
    handed_.erase(handed_.begin(), later);
  }

  /// How many leading blocks of each arrival each engine has: by arrival, then by engine.
  template <std::size_t P>
  void find_prefixes(ThreadPool& threads) {
    Front& front = fronts_[P];
    auto& pool = std::get<P>(pools_);
    const std::size_t count = front.arrivals.size(), here = pool.size();
    pool.forget_lost();
    std::vector<std::int32_t> found(count * here); // of this process's engines
    std::vector<KeyHolders::Question> questions;
    for (const Arrival& arrival : front.arrivals) pool.plan(prompt_keys(arrival.request), front.edition, questions);
    for_each_part(threads, questions.size(), [&](std::size_t k) { pool.put(questions[k]); });
    for_each_part(threads, count, [&](std::size_t k) {
      pool.find_prefix(prompt_keys(front.arrivals[k].request), std::span(found).subspan(k * here, here));
    });
    share(ranks_, found);
    if (ranks_ == nullptr) {
      found_ = std::move(found);
      return;
    }
    found_.resize(count * front.engines);
    for (std::size_t first = 0, rank = 0; first < front.engines; ++rank) { // each rank's counts are together
      const std::size_t last = front.engines * (rank + 1) / static_cast<std::size_t>(ranks_->count());
      for (std::size_t k = 0; k < count; ++k)
        for (std::size_t i = first; i < last; ++i)
          found_[k * front.engines + i] = found[first * count + k * (last - first) + (i - first)];
      first = last;
    }
  }
  [[nodiscard]] std::span<const BlockKey> prompt_keys(const SentRequest& request) const {
    const auto full = static_cast<std::size_t>(request.spec.prompt / block_tokens_);
    return std::span<const BlockKey>(request.keys).first(std::min(full, request.keys.size()));
  }
  template <std::size_t P, class Listener>
  Status route(Seconds begin, ThreadPool& threads, Listener& listener) {
    Front& front = fronts_[P];
    if (front.arrivals.empty()) return {};
    if (front.open.empty()) {
      if (will_open(P)) return {}; // they wait
      return Error{ErrorCode::infeasible, "fleet at " + std::to_string(begin.count()) + " s",
                   "no engine takes requests any more", "an engine that lives"};
    }
    if constexpr (reads.prefixes) find_prefixes<P>(threads);
    FleetView view{{}, front.edition, front.reports, front.sent, front.open, {}};
    auto& pool = std::get<P>(pools_);
    for (std::size_t k = 0; k < front.arrivals.size(); ++k) {
      Arrival& arrival = front.arrivals[k];
      view.now = std::max(arrival.when, begin);
      if constexpr (reads.prefixes) view.found = std::span(found_).subspan(k * front.engines, front.engines);
      const RoutedRequest request{arrival.request.spec, prompt_keys(arrival.request), front.routed++,
                                  arrival.request.arrived};
      const std::size_t to = front.router.choose(view, request, front.state);
      if (to >= front.engines || front.takes[to] == 0)
        return Error{ErrorCode::bad_input, "router",
                     "it chose engine " + std::to_string(to) + ", which takes no requests", "an engine of view.open"};
      ++front.sent[to].requests;
      front.sent[to].prompts += arrival.request.to_compute();
      const auto engine = static_cast<std::uint32_t>(offset(P) + to);
      ++summary_.engines[engine].routed;
      Seconds age{0};
      if constexpr (reads.reports()) {
        age = std::max(Seconds{0}, view.now - front.reports[to].when);
        summary_.age.add(age.count());
      }
      listener(FleetChoice{arrival.number, engine, view.now, age});
      if (tracks_)
        if (Tracked& one = tracked_.at(arrival.number); !std::exchange(one.routed, true)) one.first_engine = engine;
      arrival.request.sent = view.now;
      arrival.request.ready = std::max(arrival.request.ready, view.now);
      if (const std::size_t here = to - pool.first(); to >= pool.first() && here < pool.size())
        pool.send(here, std::move(arrival.request));
    }
    front.arrivals.clear();
    return {};
  }

  template <class Act>
  static void for_each_part(ThreadPool& threads, std::size_t count, Act&& act) {
    // A part is a run of neighbours; there are four per thread, so that a thread that is done early takes another.
    const int parts = static_cast<int>(std::min(count, static_cast<std::size_t>(threads.threads()) * 4));
    const auto of = static_cast<std::size_t>(std::max(1, parts));
    threads.run(parts, [&](int part, int /*thread*/) {
      const auto p = static_cast<std::size_t>(part);
      for (std::size_t i = count * p / of; i < count * (p + 1) / of; ++i) act(i);
    });
  }
  template <std::size_t P>
  void gather_news() {
    const auto& pool = std::get<P>(pools_);
    std::vector<EngineNews>& news = fronts_[P].news;
    news.clear();
    for (std::size_t i = 0; i < pool.size(); ++i) news.push_back(pool.news(i));
    share(ranks_, news);
  }
  /// Runs a pool's engines to the window's end, and gathers what they tell.
  template <std::size_t P>
  Status advance(Seconds until, ThreadPool& threads) {
    Front& front = fronts_[P];
    auto& pool = std::get<P>(pools_);
    for_each_part(threads, pool.size(), [&](std::size_t i) { pool.advance(i, until, reads); });
    gather_news<P>();
    Status status; // of the first failed engine that is here
    bool failed = false;
    for (std::size_t i = 0; i < front.engines; ++i) {
      if (!front.news[i].failed) continue;
      failed = true;
      const std::size_t here = i - pool.first();
      if (!status.ok() || i < pool.first() || here >= pool.size()) continue;
      Error error = pool.status(here).error();
      error.where = "engine " + std::to_string(offset(P) + i) + ": " + error.where;
      status = error;
    }
    return failed ? agree(ranks_, status) : status;
  }
  /// Counts what ended in the window, hands over, and takes back what dead engines had.
  template <std::size_t P, class Clients, class Listener>
  void end_requests(Clients& loop, Listener& listener) {
    Front& front = fronts_[P];
    auto& pool = std::get<P>(pools_);
    ended_.clear();
    for (std::size_t i = 0; i < pool.size(); ++i) {
      ended_.insert(ended_.end(), pool.ends(i).begin(), pool.ends(i).end());
      pool.ends(i).clear();
    }
    share(ranks_, ended_);
    for (const EngineEnd& end : ended_)
      if (!hands_over<P>(end)) count(end, offset(P), loop, listener);
    std::vector<std::uint32_t> dead; // since the last window
    for (std::uint32_t i = 0; i < front.engines; ++i)
      if (front.news[i].dead && std::exchange(front.buried[i], char{1}) == 0) dead.push_back(i);
    if (dead.empty()) return;
    std::vector<ReturnedRequest> back;
    for (const std::size_t i : dead) {
      if (const std::size_t here = i - pool.first(); i >= pool.first() && here < pool.size())
        pool.take_returned(here, back);
    }
    share(ranks_, back);
    if constexpr (P + 1 < pools)
      for (const std::uint32_t i : dead) cut(i, front.news[i].died, back);
    for (ReturnedRequest& one : back) interrupt(one);
    std::sort(back.begin(), back.end(), [](const ReturnedRequest& a, const ReturnedRequest& b) {
      return a.when != b.when ? a.when < b.when : a.number < b.number;
    });
    returned_.insert(returned_.end(), back.begin(), back.end());
  }
  void interrupt(const ReturnedRequest& back) {
    Tracked& one = tracked_.at(back.number);
    ++one.times_interrupted;
    std::erase_if(under_way_, [&](const Handed& sent) {
      if (sent.number != back.number) return false;
      if (sent.ready > back.when)
        one.arrived -= sent.tokens; // its KV will not arrive
      else
        count_handed(sent);
      return true;
    });
    ++summary_.interrupted;
    one.add(back);
    if (settings_.failures.requests == Interrupted::resumed) {
      summary_.recomputed += back.computed;
    } else {
      summary_.lost += std::exchange(one.had, Tokens{0});
    }
  }
  /// Whether the request goes on in the second pool.
  template <std::size_t P>
  bool hands_over(const EngineEnd& end) {
    if (P + 1 == pools || end.outcome != Outcome::served) return false;
    Tracked& one = tracked_.at(end.number);
    one.add(end);
    if (one.had >= one.spec.output) return false;
    one.arrived += end.spec.prompt;
    const Seconds ready =
        settings_.handoff.arrival(kv_of(end.spec.prompt), layers_, end.joined, end.last, fronts_[0].link[end.engine]);
    handed_.push_back({end.last, ready, end.number, end.engine, end.spec.prompt});
    under_way_.push_back(handed_.back());
    return true;
  }
  [[nodiscard]] Bytes kv_of(Tokens tokens) const {
    return Bytes{block_bytes_.count() * tokens.count() / block_tokens_.count()};
  }
  /// Counts KV that has arrived.
  void count_arrived(Seconds now) {
    std::erase_if(under_way_, [&](const Handed& one) {
      if (one.ready > now) return false;
      count_handed(one);
      return true;
    });
  }
  void count_handed(const Handed& one) {
    ++summary_.handed;
    summary_.handed_bytes += kv_of(one.tokens);
    summary_.handoff.add((one.ready - one.when).count());
  }
  /// Takes back requests whose KV had not arrived when its sender died: an engine of the first pool.
  void cut(std::uint32_t sender, Seconds died, std::vector<ReturnedRequest>& back) {
    std::vector<ReturnedRequest> lost;
    for (const Handed& one : under_way_)
      if (one.sender == sender && one.ready > died)
        lost.push_back({one.number, died, {}, Tokens{0}, one.tokens, Tokens{0}, Tokens{0}, 0, false});
    const auto is_lost = [&lost](const auto& one) {
      return std::any_of(lost.begin(), lost.end(),
                         [&one](const ReturnedRequest& other) { return other.number == one.number; });
    };
    std::erase_if(handed_, is_lost);
    std::erase_if(fronts_[pools - 1].arrivals, is_lost);
    std::get<pools - 1>(pools_).withdraw(lost);
    back.insert(back.end(), lost.begin(), lost.end());
  }
  template <class Clients, class Listener>
  void count(const EngineEnd& end, std::size_t first, Clients& loop, Listener& listener) {
    FleetEnd whole{end.number,
                   static_cast<std::uint32_t>(first + end.engine),
                   static_cast<std::uint32_t>(first + end.engine),
                   end.outcome,
                   end.times_preempted,
                   0,
                   end.spec,
                   end.first,
                   end.last,
                   end.generated,
                   end.found,
                   end.loaded,
                   Tokens{0}};
    if (tracks_) {
      const auto at = tracked_.find(end.number);
      Tracked& one = at->second;
      if (pools == 1 || first > 0 || end.outcome != Outcome::served) one.add(end); // else it was added
      whole.spec = one.spec;
      whole.first_engine = one.first_engine;
      whole.times_preempted = one.times_preempted;
      whole.times_interrupted = one.times_interrupted;
      whole.first = one.first;
      whole.generated = one.had;
      whole.found = one.found;
      whole.loaded = one.loaded;
      whole.arrived = one.arrived;
      tracked_.erase(at);
    }
    summary_.add(whole);
    listener(std::as_const(whole));
    if (whole.spec.session != 0) loop.answered({whole.spec.session, whole.last});
  }

  /// When something happens next: an arrival, an iteration, a handover, or an engine that opens for those that wait.
  template <class Clients>
  [[nodiscard]] Seconds next_event(const Clients& loop) const {
    Seconds next = loop.next().value_or(never_due);
    for (const Front& front : fronts_) {
      for (const EngineNews& one : front.news) next = std::min(next, one.next);
      if (!front.arrivals.empty()) next = std::min(next, front.next_opening());
    }
    if (settings_.scaler.first > 0 && !fronts_[0].arrivals.empty() && will_open(0)) next = std::min(next, next_look_);
    for (const ReturnedRequest& one : returned_) next = std::min(next, one.when);
    for (const Handed& one : handed_) next = std::min(next, one.when);
    return next;
  }
  /// The window after `window`: that of `next`, or an earlier one at whose end an engine is dead. So no router chooses
  /// an engine that died while nothing happened.
  [[nodiscard]] std::int64_t next_window(std::int64_t window, Seconds next) const {
    std::int64_t to = window_of(next);
    for (const Front& front : fronts_)
      if (const Seconds death = front.next_death(); death <= next) {
        const std::int64_t of = window_of(death);
        to = std::min(to, at(of) < death ? of : of - 1);
      }
    return std::max(window + 1, to);
  }
  void finish() {
    summary_.unfinished = summary_.requests - summary_.served - summary_.refused;
    for (std::size_t p = 0; p < pools; ++p)
      for (std::size_t i = 0; i < fronts_[p].engines; ++i)
        summary_.engines[offset(p) + i].steps = fronts_[p].news[i].steps;
  }

  FleetSettings settings_;
  Ranks* ranks_;
  std::tuple<Pool<Es>...> pools_;
  std::array<Front, pools> fronts_{};
  Tokens block_tokens_{16};
  Bytes block_bytes_{0}; ///< of a token block in all layers
  int layers_ = 1;
  bool tracks_ = false;
  std::uint64_t next_number_ = 0;
  Seconds next_look_{0};
  std::unordered_map<std::uint64_t, Tracked> tracked_; ///< live requests, by number
  std::vector<ReturnedRequest> returned_;
  std::vector<Handed> handed_;      ///< that no engine of the second pool was chosen for
  std::vector<Handed> under_way_;   ///< whose KV has not arrived
  std::vector<EngineEnd> ended_;    ///< scratch
  std::vector<std::int32_t> found_; ///< scratch
  FleetSummary summary_;
};

/// A fleet of `count` equal engines of type `E` on that machine.
template <Router R, class E>
[[nodiscard]] Expected<Fleet<R, E>> make_fleet(std::size_t count, const Server& server, R router = {},
                                               const FleetSettings& settings = {}, Ranks* ranks = nullptr) {
  typename Fleet<R, E>::Config config;
  config.routers = {std::move(router)};
  config.settings = settings;
  std::get<0>(config.engines).assign(count, configure<Watched<E>>(server));
  return Fleet<R, E>::make(std::move(config), ranks);
}

} // namespace sluice
