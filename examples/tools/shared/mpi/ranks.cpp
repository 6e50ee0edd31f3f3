// SPDX-License-Identifier: Apache-2.0
// Runs jobs on a crew of MPI ranks.
//
// Every rank reads the same command line and prepares the same comparisons, so a job is just its number. Rank 0 has the
// queue: it runs jobs on its own threads and sends other jobs to ranks that request them; these return results as
// bytes. A slow rank therefore gets fewer jobs, and results do not depend on the number of ranks. Rejected: a fixed
// share for each rank (all would wait for the slowest system of a grid); a counter in MPI's shared memory (with some
// transports, one-sided operations on a rank that computes make no progress).
//
// Only the main thread of a rank calls MPI (MPI_THREAD_FUNNELED). It sleeps between messages, because MPI's own waiting
// spins and would take a processor from the computing threads.
#include "shared/mpi/ranks.hpp"

#include <mpi.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <thread>
#include <utility>

namespace sluice {

namespace {

using nlohmann::json;

/// The kinds of messages. From a rank to the leader: here, wants, result, finished, gone. From the leader: go, job,
/// none, end.
enum Kind : int { here, wants, result, finished, gone, go, job, none, end };

struct Message {
  int from = 0;
  Kind kind = gone;
  json content;
};

json as_json(const Status& status) {
  if (status) return nullptr;
  const Error& error = status.error();
  return {static_cast<int>(error.code), error.where, error.what, error.expected};
}
Status status_of(const json& of) {
  if (of.is_null()) return {};
  return Error{static_cast<ErrorCode>(of.at(0).get<int>()), of.at(1), of.at(2), of.at(3)};
}

class MpiCrew final : public Crew {
 public:
  MpiCrew() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &on_node_);
    MPI_Comm_free(&node);
    gone_.assign(static_cast<std::size_t>(ranks_), false);
    if (leads()) return;
    // Otherwise every rank would print rank 0's output. (A rank's own error goes to rank 0: see agree().)
    if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr) return;
  }

  /// Ends all ranks together; otherwise a rank could wait forever for one that has ended.
  ~MpiCrew() override {
    if (leads()) {
      for (int i = 1; i < ranks_; ++i)
        while (!gone_[static_cast<std::size_t>(i)])
          if (const std::optional<Message> message = received()) dismiss(*message);
    } else {
      send(0, gone, nullptr);
    }
    MPI_Finalize();
  }

  [[nodiscard]] bool leads() const override { return rank_ == 0; }

  Status agree(const Status& mine, std::string_view what) override {
    if (!leads()) {
      send(0, here, {as_json(mine), std::string{what}, host()});
      return ended_by(waited());
    }
    Status all = mine;
    std::vector<int> asked;
    for (int awaited = ranks_ - 1; awaited > 0;) {
      const std::optional<Message> message = received();
      if (!message) continue;
      --awaited;
      if (message->kind == gone) gone_[static_cast<std::size_t>(message->from)] = true;
      if (message->kind == here) asked.push_back(message->from);
      if (!all) continue; // the other ranks usually have the same error
      const std::string who = "rank " + std::to_string(message->from);
      if (message->kind != here) {
        all = Error{ErrorCode::bad_input, who, "it ended early", "one command line for all ranks"};
      } else if (Status theirs = status_of(message->content.at(0)); !theirs) {
        Error error = theirs.error();
        error.where = who + " on " + message->content.at(2).get<std::string>() + ": " + error.where;
        all = error;
      } else if (message->content.at(1) != std::string{what}) {
        all =
            Error{ErrorCode::bad_input, who + " on " + message->content.at(2).get<std::string>(),
                  "its workload or systems differ from rank 0's", "the same files and the same build on every machine"};
      }
    }
    for (const int rank : asked) send(rank, all ? go : end, as_json(all));
    return all;
  }

  std::string share(const std::string& text) override {
    if (!leads()) {
      const Message message = waited();
      return message.kind == go ? message.content.get<std::string>() : std::string{};
    }
    for (int i = 1; i < ranks_; ++i)
      if (!gone_[static_cast<std::size_t>(i)]) send(i, go, text);
    return text;
  }

  Status run(const Jobs& jobs) override { return leads() ? lead(jobs) : follow(jobs); }

 private:
  /// Runs the leader's part: its own threads take jobs from the queue while this thread answers other ranks.
  Status lead(const Jobs& jobs) {
    JobQueue queue(jobs.count, [&](std::size_t i) { return ranks_ > 1 && jobs.stays && jobs.stays(i); });
    std::mutex mutex;
    std::size_t working = threads_for(jobs.count, sharing());
    std::vector<std::jthread> threads;
    for (std::size_t i = working; i > 0; --i)
      threads.emplace_back([&] {
        run_from(queue, [&](std::size_t which) { return finish(jobs, which); });
        const std::lock_guard lock(mutex);
        --working;
      });
    std::vector<int> done;
    int left = ranks_ - 1;
    const auto busy = [&] {
      const std::lock_guard lock(mutex);
      return working > 0;
    };
    while (left > 0 || busy()) {
      const std::optional<Message> message = received();
      if (!message) continue;
      if (message->kind == wants) {
        const std::optional<std::size_t> next = interrupted() != 0 ? std::nullopt : queue.next(false);
        send(message->from, next ? job : none, next ? json(*next) : json());
      } else if (message->kind == result) {
        const std::size_t of = message->content.at(0);
        if (message->content.at(1).is_number()) { // one interrupted rank interrupts all
          interrupt_as(message->content.at(1));
          continue;
        }
        Status status = status_of(message->content.at(1));
        if (status) {
          const json::binary_t& bytes = message->content.at(2).get_binary();
          status = jobs.unpack(of, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        }
        if (!status) queue.failed(of, status.error());
        if (jobs.ended) jobs.ended(of);
      } else {
        --left;
        if (message->kind == finished)
          done.push_back(message->from);
        else
          gone_[static_cast<std::size_t>(message->from)] = true;
      }
    }
    const Status status = queue.status();
    for (const int rank : done) send(rank, status ? go : end, as_json(status));
    return status;
  }

  /// Does another rank's part: runs as many jobs at once as it has threads, and requests each one separately.
  Status follow(const Jobs& jobs) {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::size_t> given;
    std::deque<std::pair<std::size_t, std::optional<Status>>> ran; // results; an empty one was dropped
    bool stop = false;
    const std::size_t count = threads_for(jobs.count, sharing());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i)
      threads.emplace_back([&] {
        for (std::unique_lock lock(mutex);;) {
          wake.wait(lock, [&] { return stop || !given.empty(); });
          if (given.empty()) return;
          const std::size_t next = given.front();
          given.pop_front();
          lock.unlock();
          std::optional<Status> status = attempt(jobs, next);
          lock.lock();
          ran.emplace_back(next, std::move(status));
        }
      });
    std::size_t asked = 0, running = 0;
    bool more = true;
    std::optional<Status> ended;
    while (!ended && (more || asked + running > 0)) {
      for (; more && asked + running < count; ++asked) send(0, wants, nullptr);
      std::deque<std::pair<std::size_t, std::optional<Status>>> results;
      {
        const std::lock_guard lock(mutex);
        results.swap(ran);
      }
      for (const auto& [which, status] : results) {
        json content{which, status ? as_json(*status) : json(interrupted())};
        if (status && *status) {
          const std::string bytes = jobs.pack(which);
          content.push_back(json::binary({bytes.begin(), bytes.end()}));
        }
        send(0, result, content);
        --running;
      }
      const std::optional<Message> message = received();
      if (!message) continue;
      if (message->kind == end) ended = ended_by(*message);
      if (message->kind == none) more = false, --asked;
      if (message->kind == job) {
        --asked;
        ++running;
        const std::lock_guard lock(mutex);
        given.push_back(message->content);
        wake.notify_one();
      }
    }
    {
      const std::lock_guard lock(mutex);
      stop = true;
      wake.notify_all();
    }
    threads.clear();
    if (ended) return *ended;
    send(0, finished, nullptr);
    return ended_by(waited());
  }

  /// Answers all messages while the leader is ending.
  void dismiss(const Message& message) {
    if (message.kind == gone) gone_[static_cast<std::size_t>(message.from)] = true;
    if (message.kind == here || message.kind == wants || message.kind == finished)
      send(message.from, end, as_json(Error{ErrorCode::bad_input, "rank 0", "it ended early", ""}));
  }
  static Status ended_by(const Message& message) { return message.kind == end ? status_of(message.content) : Status{}; }

  void send(int to, Kind kind, const json& content) {
    const std::vector<std::uint8_t> bytes = json::to_cbor(content);
    MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, kind, MPI_COMM_WORLD);
  }
  /// Returns the next message if there is one; otherwise waits a millisecond and returns nothing.
  std::optional<Message> received() {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
    if (there == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return std::nullopt;
    }
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
    MPI_Recv(bytes.data(), size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return Message{status.MPI_SOURCE, static_cast<Kind>(status.MPI_TAG), json::from_cbor(bytes)};
  }
  Message waited() {
    for (;;)
      if (std::optional<Message> message = received()) return *std::move(message);
  }
  static std::string host() {
    char name[MPI_MAX_PROCESSOR_NAME];
    int size = 0;
    MPI_Get_processor_name(name, &size);
    return {name, static_cast<std::size_t>(size)};
  }
  [[nodiscard]] unsigned sharing() const { return static_cast<unsigned>(on_node_); }

  int rank_ = 0, ranks_ = 1, on_node_ = 1;
  std::vector<bool> gone_; ///< by rank: whether it has reported its end
};

} // namespace

Expected<std::unique_ptr<Crew>> mpi_crew() {
  int begun = 0;
  MPI_Initialized(&begun);
  if (begun != 0) return Error{ErrorCode::unsupported, "--mpi", "this process has already started MPI", "one crew"};
  return std::unique_ptr<Crew>{std::make_unique<MpiCrew>()};
}

} // namespace sluice
