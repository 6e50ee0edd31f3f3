// SPDX-License-Identifier: Apache-2.0
// TierSearches: look-ups of prompts in the host tier, and in the records below it, which a thread reads.
#pragma once

#include "sluice/records/record_store.hpp"
#include "sluice/world/host_tier/host_tier_steps.hpp"
#include "sluice/world/host_tier/record_writer.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/token_requests.hpp"
#include "sluice/world/real/async_thread.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Look-ups by number, from `seek` to `find` or `leave`. Meanwhile what they have found is pinned. A search whose next
/// block is on its way to the tier, from a request that has just ended, waits for it: a session's next turn may come
/// sooner than its last one's KV. One thread reads records, one search after another, so a record that several prompts
/// begin with is read once, and the engine waits for no disk. Whatever is wrong with a record, the search ends before
/// it: a miss, and a line from the store.
///
/// The caller of all functions holds the schedule's mutex.
class TierSearches {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// Ends a search if what a policy throws passes, and not if `of` was set to null before.
  struct EndsSearch {
    TierSearches* of;
    std::uint64_t number;
    ~EndsSearch() {
      if (of != nullptr) of->leave(number);
    }
  };

  explicit TierSearches(MachineCore& core) : core_(&core) {}
  TierSearches(const TierSearches&) = delete;
  TierSearches& operator=(const TierSearches&) = delete;
  /// The caller does not hold the mutex. Waits for the record that is being read.
  ~TierSearches() {
    {
      const std::lock_guard lock{core_->schedule.mutex};
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// From now on records of this store are read.
  void read_from(std::shared_ptr<RecordStore> store, HostBlock host_block) {
    store_ = std::move(store);
    host_block_ = std::move(host_block);
    thread_ = std::thread{[this] { work(); }};
  }

  /// Looks up the full blocks of a request's prompt, that of the last token left out: its output is needed. A request
  /// with scores needs every row, and finds nothing. Records are read as far as `would_load` says, which gets the time
  /// that all would take; names alone say how many there are. The policy that answers is asked without the mutex, and
  /// what it throws ends the search and leaves this function.
  std::uint64_t seek(Lock& lock, const TokenRequest& request, const WouldLoad& would_load = {}) {
    const std::uint64_t number = ++begun_;
    Search& search = searches_[number];
    if (!core_->tier.exists() || request.scores || request.tokens.empty()) return number;
    const std::span<const std::int32_t> before = std::span(request.tokens).first(request.tokens.size() - 1);
    prefix_keys(before, core_->block_tokens, request.salt, search.keys);
    core_->tier.counts().asked += static_cast<std::int64_t>(request.tokens.size());
    search.found = core_->tier.find(search.keys);
    core_->tier.pin(std::span(search.keys).first(search.found));
    if (store_) search.tokens.assign(before.begin(), before.end());
    if (is_on_its_way(search)) return number;
    EndsSearch ends{this, number};
    look_below(lock, search, number, would_load);
    ends.of = nullptr;
    return number;
  }
  /// Whether nothing is being read for it, and nothing is on its way. The caller settles what has arrived before. A
  /// search that has waited for KV on its way looks at the disk then, and asks `would_load` as `seek` does; the caller
  /// ends the search if that throws.
  [[nodiscard]] bool over(Lock& lock, std::uint64_t number, const WouldLoad& would_load) {
    Search& search = searches_.at(number);
    if (search.departing != 0 && !is_on_its_way(search)) look_below(lock, search, number, would_load);
    return !search.reads && search.departing == 0;
  }
  /// Whether the next block of a search was on its way to the tier, and still is.
  [[nodiscard]] bool waits_for_departed(std::uint64_t number) const {
    const Search& search = searches_.at(number);
    return search.departing != 0 && has_departed(search.departing);
  }
  /// Ends a search, once nothing is being read for it: how many of the oldest tokens were found. Their blocks stay
  /// pinned until the next call, or until `keep_for`.
  [[nodiscard]] Tokens find(Lock& lock, std::uint64_t number) {
    changed_.wait(lock, [&] { return !searches_.at(number).reads; });
    Search search = take(number);
    core_->tier.touch(search.keys);
    core_->tier.unpin(std::exchange(found_, std::move(search.keys)));
    HostTierCounts& counts = core_->tier.counts();
    const Tokens tokens = tokens_of(found_.size());
    counts.found += tokens.count();
    counts.from_disk += search.from_disk * core_->block_tokens;
    return tokens;
  }
  /// The tier keeps what `find` found last until this request starts.
  void keep_for(RequestId id) {
    core_->tier.keep_for(id, found_);
    core_->tier.unpin(std::exchange(found_, {}));
  }
  /// Ends a search for a request that has left.
  void leave(std::uint64_t number) {
    Search& search = searches_.at(number);
    if (!search.reads) return core_->tier.unpin(take(number).keys);
    search.left = true;
    note_read(search, search.keys.size()); // nobody waits for these, though the thread comes to this search later
  }
  /// Whether the thread has work.
  [[nodiscard]] bool works() const { return works_ || !wanted_.empty() || !used_.empty() || !probes_.empty(); }
  /// Until the next call, the bell rings when a search is over; null: none does. Returns whether one that has not been
  /// taken is over already.
  bool ring_when_over(Doorbell* bell) {
    bell_ = bell;
    return std::any_of(searches_.begin(), searches_.end(), [this](const auto& each) {
      return !each.second.reads && (each.second.departing == 0 || !has_departed(each.second.departing));
    });
  }

 private:
  struct Search {
    std::vector<RecordKey> keys;
    std::vector<std::int32_t> tokens;    ///< of the keys' blocks, if there is a disk
    std::size_t found = 0;               ///< so many from the first on are in the tier, and pinned
    std::size_t unread = 0, awaited = 0; ///< the forecast counts the keys from the first to before the second
    std::int64_t from_disk = 0;
    std::uint64_t departing = 0; ///< generation of the departed sequence that has its next block; 0: none
    bool reads = false, left = false;
  };
  /// Whether this sequence's blocks are on their way to the tier.
  [[nodiscard]] bool has_departed(std::uint64_t generation) const {
    const std::vector<DepartedSequence>& departed = core_->sequences.departed();
    return std::any_of(departed.begin(), departed.end(),
                       [&](const DepartedSequence& one) { return one.generation == generation; });
  }
  /// Whether a departed sequence has the block behind those found. Once it has arrived, or was lost, looks again.
  bool is_on_its_way(Search& search) {
    if (search.departing != 0) {
      if (has_departed(search.departing)) return true;
      const std::size_t before = search.found;
      search.found = std::max(before, core_->tier.find(search.keys));
      core_->tier.pin(std::span(search.keys).first(search.found).subspan(before));
    }
    const std::vector<DepartedSequence>& departed = core_->sequences.departed();
    const auto has_next = [&](const DepartedSequence& one) {
      const auto first = static_cast<std::size_t>(one.first);
      const std::size_t next = search.found - first;
      return search.found >= first && next < one.keys.size() && search.found < search.keys.size() &&
             one.keys[next] == search.keys[search.found];
    };
    const auto at = std::find_if(departed.begin(), departed.end(), has_next);
    search.departing = at == departed.end() ? 0 : at->generation;
    return search.departing != 0;
  }
  /// The tier has what a search has found, and no more: begins to read records behind that, as far as `would_load`
  /// says.
  void look_below(Lock& lock, Search& search, std::uint64_t number, const WouldLoad& would_load) {
    if (!store_) return;
    std::size_t there = search.found;
    while (there < search.keys.size() && store_->has(search.keys[there])) ++there;
    if (would_load && there > search.found) {
      const std::size_t most = there;
      FoundPrefix found;
      found.below = tokens_of(search.found);
      found.lower = tokens_of(there - search.found);
      found.lower_wait = forecast_.time_of({});
      found.lower_time = forecast_.time_of(std::span(search.keys).first(there).subspan(search.found));
      const Tokens wanted = ask(lock, would_load, found);
      const std::int64_t blocks = (wanted.count() + core_->block_tokens - 1) / core_->block_tokens;
      there = std::clamp(static_cast<std::size_t>(std::max<std::int64_t>(0, blocks)), search.found, there);
      if (there == search.found && most > there) measure_again(std::span(search.keys).first(most).subspan(there));
    }
    search.reads = there > search.found;
    if (would_load) search.keys.resize(std::max(there, search.found));
    if (search.reads) {
      search.unread = search.found;
      search.awaited = there; // without a policy the keys go on, for records that appear meanwhile
      forecast_.wait_for(std::span(search.keys).first(there).subspan(search.found));
      wanted_.push_back(number);
      changed_.notify_all();
    } else {
      note_used(search);
    }
  }
  /// Removes a search; its keys are those of the blocks found.
  Search take(std::uint64_t number) {
    Search search = std::move(searches_.at(number));
    searches_.erase(number);
    search.keys.resize(search.found);
    return search;
  }

  static constexpr std::size_t most_used = 65'536; ///< keys that wait to be used
  static constexpr std::size_t used_at_once = 8;   ///< records used before the thread looks for a search again
  static constexpr std::size_t probes_at_once = 4; ///< records that measure the disk again

  static std::ptrdiff_t at(std::size_t number) { return static_cast<std::ptrdiff_t>(number); }
  [[nodiscard]] Tokens tokens_of(std::size_t blocks) const {
    return Tokens{static_cast<std::int64_t>(blocks) * core_->block_tokens};
  }

  /// Links and the disk go on meanwhile. The thread looks at no search before that is in `wanted_`.
  static Tokens ask(Lock& lock, const WouldLoad& would_load, const FoundPrefix& found) {
    struct Unlocked {
      Lock& lock;
      explicit Unlocked(Lock& held) : lock(held) { lock.unlock(); }
      ~Unlocked() { lock.lock(); }
    };
    const Unlocked unlocked{lock};
    return would_load(found);
  }
  [[nodiscard]] Seconds now() const {
    if (core_->setup.disk_clock) return core_->setup.disk_clock();
    return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
  }
  /// A request declines these records. A disk that was slow once would never be read again if only requests measured
  /// it, so now and then the thread reads some records that nobody waits for. Each time these are others of a prompt:
  /// the system has in memory what it has just read, and would deliver the same ones faster than the disk can.
  void measure_again(std::span<const RecordKey> declined) {
    if (!probes_.empty() || !forecast_.is_old(now())) return;
    forecast_.measure_anew(now());
    const std::size_t count = std::min(declined.size(), probes_at_once);
    for (std::size_t i = 0; i < count; ++i)
      probes_.push_back(declined[(turn_ + i * declined.size() / count) % declined.size()]);
    ++turn_;
    changed_.notify_all();
  }
  /// Gets a record into `record_`. The disk's time counts if it fails, too: requests wait for it. `good` looks at
  /// the record without the mutex.
  template <class Good>
  bool read(Lock& lock, const RecordKey& key, const Good& good) {
    const Seconds begun = now();
    lock.unlock();
    const bool got = store_->get(key, record_);
    const Seconds end = now(), took = end - begun;
    const bool is_good = got && good();
    lock.lock();
    if (!got) return forecast_.failed(took, end), false;
    forecast_.took(took, end);
    HostTierCounts& counts = core_->tier.counts();
    counts.disk_reads.add(counts.block_bytes, std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                  std::chrono::duration<double>(took.count())));
    return is_good;
  }
  /// The thread is done with a search's keys before `end`.
  void note_read(Search& search, std::size_t end) {
    for (; search.unread < std::min(end, search.awaited); ++search.unread) forecast_.done(search.keys[search.unread]);
  }

  /// The records of all that a search has found, on the host too, are used once nobody waits for a read. Those just
  /// read are among them, because the beginning of a prompt must be more recent than what follows it. Of too many notes
  /// the oldest are dropped: only the order in which records leave the disk suffers.
  void note_used(const Search& search) {
    if (search.found == 0) return;
    used_.emplace_back(search.keys.begin(), search.keys.begin() + at(search.found));
    for (used_keys_ += search.found; used_keys_ > most_used && used_.size() > 1; used_.pop_front())
      used_keys_ -= used_.front().size();
    changed_.notify_all();
  }
  /// The next records to use: the end of the oldest note, since the last record used is the most recent.
  std::vector<RecordKey> next_used() {
    std::vector<RecordKey>& note = used_.front();
    const std::size_t count = std::min(note.size(), used_at_once);
    std::vector<RecordKey> next(note.end() - at(count), note.end());
    note.resize(note.size() - count);
    used_keys_ -= count;
    if (note.empty()) used_.pop_front();
    return next;
  }

  void work() {
    Lock lock{core_->schedule.mutex};
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !wanted_.empty() || !used_.empty() || !probes_.empty(); });
      if (ends_) probes_.clear();
      if (wanted_.empty() && used_.empty() && probes_.empty()) return;
      works_ = true;
      if (!wanted_.empty()) {
        const std::uint64_t number = wanted_.front();
        wanted_.pop_front();
        Search& search = searches_.at(number); // stays where it is, since only its end removes it
        while (!search.left && !ends_ && search.found < search.keys.size() && bring(lock, search))
          note_read(search, ++search.found);
        note_read(search, search.keys.size());
        note_used(search);
        search.reads = false;
        if (search.left) leave(number);
        changed_.notify_all();
        if (bell_ != nullptr) bell_->ring();
      } else if (!probes_.empty()) {
        const RecordKey key = probes_.back();
        probes_.pop_back();
        if (!read(lock, key, [] { return true; })) probes_.clear(); // a disk that fails may take long for each
      } else {
        const std::vector<RecordKey> used = next_used();
        lock.unlock();
        store_->use(used);
        lock.lock();
      }
      works_ = false;
    }
  }
  /// Brings the next block of a search to the tier, and pins it. False: the disk does not have it, or the tier has no
  /// room.
  bool bring(Lock& lock, Search& search) {
    const RecordKey key = search.keys[search.found];
    HostTier& tier = core_->tier;
    if (!tier.holds(key)) {
      const auto each = static_cast<std::size_t>(core_->block_tokens);
      const std::span<const std::byte> own =
          std::as_bytes(std::span<const std::int32_t>(search.tokens).subspan(search.found * each, each));
      const auto block = static_cast<std::size_t>(core_->store.shape().bytes().count());
      const bool good = read(lock, key, [&] {
        return record_.size() == own.size() + block * static_cast<std::size_t>(core_->layers) &&
               std::equal(own.begin(), own.end(), record_.begin());
      });
      if (!good) return false;
      if (!tier.holds(key)) { // nobody has computed it meanwhile
        if (tier.reserve(1) == 0) return false;
        std::vector<std::int32_t> host;
        for (int layer = 0; layer < core_->layers; ++layer) {
          // Next to the block before, so that both cross the link as one copy.
          const std::int32_t last =
              search.found == 0 ? -2 : tier.blocks(search.keys[search.found - 1])[static_cast<std::size_t>(layer)];
          host.push_back(core_->store.take_host(last + 1));
        }
        lock.unlock();
        for (std::size_t layer = 0; layer < host.size(); ++layer)
          std::memcpy(host_block_(host[layer]).data(), record_.data() + own.size() + block * layer, block);
        lock.lock();
        tier.add({&key, 1}, {std::move(host)}, 0, search.found == 0 ? nullptr : &search.keys[search.found - 1],
                 [](std::size_t) {});
        if (!tier.holds(key)) return false; // another key with its hash was there first
      }
      ++search.from_disk;
    }
    tier.pin({&key, 1});
    return true;
  }

  MachineCore* core_;
  std::shared_ptr<RecordStore> store_; ///< null: there is no disk
  HostBlock host_block_;
  std::uint64_t begun_ = 0;
  std::unordered_map<std::uint64_t, Search> searches_;
  std::vector<RecordKey> found_;            ///< by the last `find`, pinned
  std::deque<std::uint64_t> wanted_;        ///< searches for which the thread reads
  std::deque<std::vector<RecordKey>> used_; ///< notes of what searches have found, the oldest first
  std::size_t used_keys_ = 0;               ///< in all notes
  std::vector<RecordKey> probes_;           ///< are read only to measure the disk
  std::size_t turn_ = 0;                    ///< which of a prompt's records these are
  DiskForecast forecast_;
  bool works_ = false, ends_ = false;
  std::condition_variable changed_;
  Doorbell* bell_ = nullptr;
  std::vector<std::byte> record_; ///< the thread's
  std::thread thread_;
};

} // namespace sluice
