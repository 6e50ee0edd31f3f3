// SPDX-License-Identifier: Apache-2.0
// Pool: a fleet's engines of one type, those of this process, each with the requests that it was sent.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/ring_queue.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/progress_watch.hpp"
#include "sluice/fleet/key_holders.hpp"
#include "sluice/fleet/report.hpp"
#include "sluice/fleet/watch.hpp"
#include "sluice/policy/cost/sub_batches.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {

/// A request on its way to an engine.
struct SentRequest {
  std::uint64_t number = 0; ///< the fleet's
  Seconds ready{0};         ///< when the engine may take it
  Seconds sent{0};          ///< when the router chose the engine
  RequestSpec spec;
  std::vector<BlockKey> keys;
  Tokens arrived{0};       ///< its oldest tokens whose KV comes with it
  std::uint64_t stamp = 0; ///< of its place in the order in which the pool's requests were sent

  /// Tokens of its prompt whose KV does not come with it.
  [[nodiscard]] Tokens to_compute() const { return spec.prompt - arrived; }
};

/// An engine's state at the end of a window. Ranks exchange it.
struct EngineNews {
  EngineReport report;
  SentSince queued;         ///< sent to it, and not in its report
  Seconds next = never_due; ///< when it has something to do; `never_due`: when it gets a request
  std::int64_t steps = 0;   ///< iterations so far
  bool idle = true;         ///< it has nothing to compute until `next`: its report stays true
  bool dead = false, failed = false;
  Seconds died{0}; ///< if it is dead: when its last iteration ended
};

/// A request that an engine's death returns.
struct ReturnedRequest {
  std::uint64_t number = 0;
  Seconds when{0};
  Seconds first{0};    ///< its first token of this engine; undefined without one
  Tokens generated{0}; ///< that its client has of this engine
  Tokens computed{0};  ///< with KV that is lost, computed here or arrived
  Tokens found{0}, loaded{0};
  std::int32_t times_preempted = 0;
  bool has_run = false;
  [[nodiscard]] bool ran() const { return has_run; }
};

template <class E>
class Pool {
 public:
  using Engine = Watched<E>;
  using Config = typename Engine::Config;

  /// Makes engines `first` .. `first + configs.size() - 1` of the pool.
  static Expected<Pool> make(std::vector<Config> configs, std::size_t first, RouterReads reads) {
    Pool pool;
    pool.first_ = first;
    pool.asked_ = reads.prefixes;
    pool.ends_.resize(configs.size());
    pool.stations_.reserve(configs.size());
    for (std::size_t i = 0; i < configs.size(); ++i) {
      std::get<FleetWatch>(configs[i].observers).to = &pool.ends_[i];
      Expected<Station> station = Engine::template make_in<Station>(std::move(configs[i]));
      if (!station) {
        Error error = station.error();
        error.where = "engine " + std::to_string(first + i) + ": " + error.where;
        return error;
      }
      pool.stations_.push_back(*std::move(station));
      const View view = pool.stations_[i].engine.view();
      pool.stations_[i].news.report.batch = view.limits.batch;
      pool.stations_[i].news.report.chunk = view.limits.batch_tokens;
      if (reads.prefill || reads.pace) note_work(pool.stations_[i].engine, reads, pool.stations_[i].news.report);
    }
    return pool;
  }

  [[nodiscard]] std::size_t size() const { return stations_.size(); }
  /// The number in the pool of its first engine here.
  [[nodiscard]] std::size_t first() const { return first_; }
  /// The `i`th engine of this process.
  [[nodiscard]] const Engine& engine(std::size_t i) const { return stations_[i].engine; }

  void send(std::size_t i, SentRequest request) {
    Station& station = stations_[i];
    request.stamp = ++sends_;
    if (asked_) holders_.add(request.keys, static_cast<std::uint32_t>(i), request.stamp);
    station.queued += request.to_compute();
    station.queue.push_back(std::move(request));
    // KV may arrive in another order than it was sent.
    for (std::size_t at = station.queue.size() - 1; at > 0 && station.queue[at].ready < station.queue[at - 1].ready;
         --at)
      std::swap(station.queue[at], station.queue[at - 1]);
  }
  /// The engine dies at the end of the iteration that runs at `when`.
  void kill(std::size_t i, Seconds when) {
    stations_[i].dies = std::min(stations_[i].dies, when);
    if (when <= Seconds{0}) stations_[i].news.dead = true;
  }

  /// Runs iterations that begin before `until`. Touches no other engine: engines may advance on different threads.
  void advance(std::size_t i, Seconds until, RouterReads reads) {
    Station& station = stations_[i];
    if (i + 1 < stations_.size()) prefetch(stations_[i + 1]);
    if (station.news.dead || station.news.failed) return;
    if (station.news.next == never_due && station.queue.empty() && until < station.dies) return; // it stays idle
    const Seconds stop = std::min(until, station.dies);
    const bool idle = run(station, stop);
    EngineNews& news = station.news;
    for (EngineEnd& end : ends_[i]) {
      end.number = station.number_of(end.id);
      end.engine = static_cast<std::uint32_t>(first_ + i);
    }
    const Engine& engine = station.engine;
    if (until >= station.dies && !news.failed) {
      news.dead = true;
      news.died = std::max(engine.now(), station.dies);
    }
    if (idle) note_counts(station, std::max(engine.now(), stop));
    write_counts(station);
    if (reads.prefill || reads.pace) note_work(engine, reads, news.report);
    const Seconds taken = std::max(engine.now(), stop);
    news.report.computes_until = taken;
    // `to_prefill` has the prompts that it took since.
    news.queued = {static_cast<std::int32_t>(station.queue.size()) + station.taken.requests,
                   station.queued + (reads.prefill ? Tokens{0} : station.taken.prompts)};
    news.next =
        idle ? std::min(station.queue.empty() ? never_due : station.queue.front().ready, engine.next_load()) : taken;
    if (news.dead) news.next = never_due;
    news.idle = idle;
    news.steps = engine.steps();
  }
  [[nodiscard]] const EngineNews& news(std::size_t i) const { return stations_[i].news; }
  [[nodiscard]] const Status& status(std::size_t i) const { return stations_[i].status; }
  /// The requests that ended in the last `advance`, in order of time.
  [[nodiscard]] std::vector<EngineEnd>& ends(std::size_t i) { return ends_[i]; }
  /// How many leading blocks of `keys` the engine's caches have.
  [[nodiscard]] std::int32_t finds(std::size_t i, std::span<const BlockKey> keys) const {
    return stations_[i].news.dead ? 0 : static_cast<std::int32_t>(stations_[i].engine.finds(keys));
  }
  /// What must be asked before `find_prefix` in a window of this edition. An engine's caches do not change in between.
  void plan(std::span<const BlockKey> keys, std::int64_t edition, std::vector<KeyHolders::Question>& questions) {
    holders_.plan(
        keys, [edition](std::uint32_t) { return static_cast<std::uint64_t>(edition); }, questions);
  }
  /// Touches no other question: they may be put on different threads.
  void put(const KeyHolders::Question& question) const {
    question.put([this](std::uint32_t i, std::span<const BlockKey> keys) { return finds(i, keys); });
  }
  /// Writes for each engine here what `finds` says into `found`, which is 0 before.
  void find_prefix(std::span<const BlockKey> keys, std::span<std::int32_t> found) const {
    holders_.find(
        keys, [this](std::uint32_t i, std::span<const BlockKey> asked) { return finds(i, asked); },
        [found](std::uint32_t i, auto count) { found[i] = static_cast<std::int32_t>(count); });
  }
  /// Forgets that an engine was sent a block which it has lost, when there is much to forget.
  void forget_lost() {
    if (!holders_.full()) return;
    std::vector<std::uint64_t> oldest(stations_.size(), std::numeric_limits<std::uint64_t>::max()); // live request
    for (std::size_t i = 0; i < stations_.size(); ++i) {
      Station& station = stations_[i];
      for (std::size_t k = 0; k < station.queue.size(); ++k) oldest[i] = std::min(oldest[i], station.queue[k].stamp);
      for (std::size_t k = 0; k < station.live.size(); ++k)
        if (station.live[k].number != over) oldest[i] = std::min(oldest[i], station.live[k].stamp);
    }
    holders_.sweep([&](KeyHolders::Keys keys, std::uint32_t i, std::uint64_t stamp) {
      if (stations_[i].news.dead) return false;
      return stamp >= oldest[i] || stations_[i].engine.may_find(keys); // later ones may still be computed
    });
  }
  /// Pairs of an engine here and a beginning that it was sent, as far as they are remembered.
  [[nodiscard]] std::size_t beginnings() const { return holders_.size(); }
  /// Takes the live requests of a dead engine, in the order of their submission.
  void take_returned(std::size_t i, std::vector<ReturnedRequest>& to) {
    Station& station = stations_[i];
    const Seconds when = station.news.died;
    const View view = station.engine.view();
    const std::size_t begin = to.size();
    for (const RequestRow& row : view.rows) {
      if (row.phase == Phase::ended) continue;
      const Tokens computed = row.blocks.count() > 0 ? row.computed : ran(row) ? Tokens{0} : row.arrived;
      to.push_back({station.number_of(row.id), when, row.first_token, row.delivered, computed, row.found, row.loaded,
                    row.times_preempted, ran(row)});
    }
    std::sort(to.begin() + static_cast<std::ptrdiff_t>(begin), to.end(),
              [](const ReturnedRequest& a, const ReturnedRequest& b) { return a.number < b.number; });
    for (; !station.queue.empty(); station.queue.pop_front()) {
      const SentRequest& one = station.queue.front();
      to.push_back({one.number, std::max(when, one.sent), {}, Tokens{0}, one.arrived, Tokens{0}, Tokens{0}, 0, false});
    }
    station.queued = Tokens{0};
  }
  /// Removes requests whose KV will not arrive. Their engines have not taken them.
  void withdraw(const std::vector<ReturnedRequest>& requests) {
    for (Station& station : stations_)
      for (std::size_t left = station.queue.size(); left > 0; --left) {
        SentRequest one = std::move(station.queue.front());
        station.queue.pop_front();
        const bool lost = std::any_of(requests.begin(), requests.end(),
                                      [&one](const ReturnedRequest& other) { return other.number == one.number; });
        if (lost)
          station.queued -= one.to_compute();
        else
          station.queue.push_back(std::move(one));
      }
  }

 private:
  static constexpr std::uint64_t over = std::numeric_limits<std::uint64_t>::max();

  /// One engine, with what it was sent.
  struct Station {
    struct Live {
      std::uint64_t number = over;
      std::uint64_t stamp = 0; ///< SentRequest's
    };
    template <class... From>
    explicit Station(From&&... from) : engine(std::forward<From>(from)...) {}

    /// The fleet's number of a request that ends.
    std::uint64_t number_of(RequestId id) {
      const std::uint64_t number = std::exchange(live[index(id) - first_id].number, over);
      for (; !live.empty() && live.front().number == over; live.pop_front()) ++first_id;
      return number;
    }

    Engine engine;
    RingQueue<SentRequest> queue; ///< by the order in which they were sent
    Tokens queued{0};             ///< of their prompts, to compute
    SentSince taken;              ///< from the queue, since the engine's report
    RingQueue<Live> live;         ///< by the engine's id from `first_id` on
    std::uint32_t first_id = 0;
    Seconds dies = never_due;
    ProgressWatch watch;
    EngineCounts counts; ///< before the last iteration began
    EngineNews news;
    Status status;
  };

  /// Begins to load the station that advances next. A thousand stations do not fit in a processor's caches.
  static void prefetch(const Station& station) {
    const char* const bytes = reinterpret_cast<const char*>(&station);
    for (std::size_t at = 0; at < sizeof(Station); at += 64) __builtin_prefetch(bytes + at);
  }
  [[nodiscard]] static bool ran(const RequestRow& row) {
    return row.phase != Phase::waiting || row.times_preempted > 0;
  }
  /// Returns whether the engine has nothing to do at `stop`, or until then.
  static bool run(Station& station, Seconds stop) {
    Engine& engine = station.engine;
    while (engine.now() < stop) {
      note_counts(station, engine.now()); // of the last iteration's end: it knows of nothing that came since
      while (!station.queue.empty() && station.queue.front().ready <= engine.now() && engine.now() < stop)
        take_next(station);
      if (engine.now() >= stop) break; // the engine was held up: a connector copies KV that has arrived
      const Stepped stepped = engine.step();
      Status status = stepped == Stepped::failed ? engine.status() : station.watch.check(engine);
      if (!status.ok()) {
        station.status = std::move(status);
        station.news.failed = true;
        return true;
      }
      if (stepped != Stepped::idle) continue;
      const Seconds next =
          std::min(station.queue.empty() ? never_due : station.queue.front().ready, engine.next_load());
      if (next >= stop) return true;
      engine.idle_until(next);
    }
    return false;
  }
  /// A refusal reaches the fleet through the watch.
  static void take_next(Station& station) {
    SentRequest& request = station.queue.front();
    station.live.push_back({request.number, request.stamp});
    ++station.taken.requests;
    station.taken.prompts += request.to_compute();
    (void)station.engine.submit(request.spec, request.keys, Tokens{0}, request.arrived);
    station.queued -= request.to_compute();
    request.keys = {};
    station.queue.pop_front();
  }
  static void note_counts(Station& station, Seconds when) {
    station.counts = station.engine.counts();
    station.news.report.when = when;
    station.taken = {};
  }
  static void write_counts(Station& station) {
    const EngineCounts& counts = station.counts;
    EngineReport& report = station.news.report;
    report.waiting = static_cast<std::int32_t>(counts.waiting);
    report.preempted = static_cast<std::int32_t>(counts.preempted);
    report.running = static_cast<std::int32_t>(counts.running);
    report.kv_used = counts.used_share();
  }
  /// Facts that need a scan of an engine's requests.
  static void note_work(const Engine& engine, RouterReads reads, EngineReport& report) {
    const View view = engine.view();
    Work work;
    report.to_prefill = Tokens{0};
    for (const RequestRow& row : view.rows) {
      if (row.phase == Phase::ended) continue;
      if (row.phase == Phase::running && row.pending().count() == 1)
        work.add_decode(row.context(), view.geometry.reads());
      else
        report.to_prefill += row.pending() - (ran(row) ? Tokens{0} : row.arrived);
    }
    if (!reads.pace) return;
    report.chunk_prompts = std::max(Tokens{1}, report.chunk - Tokens{work.decodes});
    const ChunkWork chunk{report.chunk_prompts, Tokens{0}};
    work.chunks = {&chunk, 1};
    work.samples = work.decodes + 1;
    report.chunk_time = step_time(engine.predictor(), work).total(view.geometry.layers);
  }

  std::size_t first_ = 0;
  std::vector<Station> stations_;
  std::vector<std::vector<EngineEnd>> ends_; ///< by engine; `FleetWatch` writes them
  bool asked_ = false;                       ///< the router reads what caches have
  std::uint64_t sends_ = 0;                  ///< requests that were sent
  KeyHolders holders_;                       ///< of engines here
};

} // namespace sluice
