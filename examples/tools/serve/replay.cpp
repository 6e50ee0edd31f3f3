// SPDX-License-Identifier: Apache-2.0
// Replays a server's run.
#include "serve/replay.hpp"

#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/world/read_clock_record.hpp"
#include "sluice/world/real/world.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/replayed.hpp"

#include "run/options.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace serving {

using namespace sluice;

namespace {

/// A request as the engine received it, and when: later than it arrived, if a gate has held it.
struct Submission {
  RequestSpec spec;
  Seconds at{0};
};

/// Returns the requests in order of submission, as the engine received them: with length limits, not with lengths.
Expected<std::vector<Submission>> read_requests(const std::string& path) {
  Expected<std::vector<VllmRunRecord>> records = read_vllm_run(path);
  if (!records) return running::flag_error("--replay", records.error().line(), "what --record wrote");
  std::vector<std::optional<Submission>> by_id(records->size());
  for (const VllmRunRecord& record : *records) {
    std::size_t id = by_id.size();
    (void)std::from_chars(record.id.data(), record.id.data() + record.id.size(), id);
    if (record.bound.count() < 1)
      return running::flag_error("--replay", fmt::format("{}: request '{}' has no max_tokens", path, record.id),
                                 "what --record wrote");
    if (id >= by_id.size() || by_id[id])
      return running::flag_error(
          "--replay", fmt::format("{} lacks requests: one was refused, or under way when the server was killed", path),
          "the record of a whole run");
    by_id[id] = Submission{{record.queued, record.prompt, record.bound, record.engine_slo, true, record.priority},
                           record.submitted};
    by_id[id]->spec.hints = record.hints;
  }
  std::vector<Submission> all;
  for (const std::optional<Submission>& one : by_id) all.push_back(*one);
  return all;
}

/// Returns the requests, and after the last one waits for more, as the server did. Otherwise the engine would end while
/// delivery still holds back tokens.
class Recalled final : public running::Arrivals {
 public:
  Recalled(std::vector<Submission> requests, const Replay& times, Seconds last_wait)
      : requests_(std::move(requests)), times_(times), last_wait_(last_wait) {}
  [[nodiscard]] std::optional<Seconds> next_arrival() const override {
    if (next_ < requests_.size()) return requests_[next_].at;
    return times_.now() < last_wait_ && times_.status().ok() ? std::optional{last_wait_} : std::nullopt;
  }
  [[nodiscard]] RequestSpec take() override { return requests_[next_++].spec; }
  void submitted(const Expected<RequestId>& /*id*/) override {}

 private:
  std::vector<Submission> requests_;
  const Replay& times_;
  Seconds last_wait_;
  std::size_t next_ = 0;
};

Seconds last_wait(const ClockRecord& clock) {
  Seconds last{0};
  for (const ClockEvent& event : clock.events)
    if (event.kind == ClockEvent::Kind::wait || event.kind == ClockEvent::Kind::idle) last = event.now;
  return last;
}

} // namespace

Expected<std::int64_t> replay(const Options& options, const engines::System& system, const Served& served, Slo slo,
                              running::Recorded& recorded) {
  Expected<std::vector<Submission>> requests = read_requests(options.replay);
  if (!requests) return requests.error();
  Expected<ClockRecord> clock = read_clock_record(LineReader::open(options.replay_clock));
  if (!clock) return running::flag_error("--replay-clock", clock.error().line(), "what --record-clock wrote");
  const Seconds end = last_wait(*clock);
  Replay times(*std::move(clock));
  const auto count = static_cast<std::int64_t>(requests->size());
  Recalled arrivals(std::move(*requests), times, end);
  running::Job job{served.setup, slo, world_of(Replayed<RealBackend>{times}), arrivals, recorded};
  job.replay = &times;
  if (const Status ran = running::run(system, job); !ran) return ran.error();
  if (!times.status().ok()) {
    Error error = times.status().error();
    error.where = "--replay-clock: " + error.where;
    return error;
  }
  if (!times.finished())
    return running::flag_error("--replay-clock", options.replay_clock + " goes on after the last request",
                               "the record of the same run");
  return count;
}

} // namespace serving
