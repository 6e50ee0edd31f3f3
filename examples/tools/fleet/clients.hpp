// SPDX-License-Identifier: Apache-2.0
// Clients: send a fleet's requests: those of a trace, or those of a load test whose rate changes in stages.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/workload/session_queue.hpp"

#include "engines/system.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace fleets {

/// The functions that `Fleet::run_clients` calls, so that a fleet is compiled once for all clients.
class Clients {
 public:
  Clients() = default;
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;
  virtual ~Clients() = default;

  virtual sluice::Status start() = 0;
  /// When the next request is sent; nothing if it waits for an answer, or if none is left.
  [[nodiscard]] virtual std::optional<sluice::Seconds> next() const = 0;
  virtual sluice::Expected<sluice::KeyedRequest> take(sluice::Seconds now) = 0;
  virtual void answered(const sluice::Answered& answer) = 0;
};

/// A workload as `simulate` serves it: at its arrivals, sessions in a closed loop.
class TraceClients final : public Clients {
 public:
  TraceClients(engines::Requests requests, sluice::Tokens block_tokens)
      : requests_(std::move(requests)), loop_(requests_, block_tokens) {}
  sluice::Status start() override { return loop_.start(); }
  [[nodiscard]] std::optional<sluice::Seconds> next() const override { return loop_.next(); }
  sluice::Expected<sluice::KeyedRequest> take(sluice::Seconds now) override { return loop_.take(now); }
  void answered(const sluice::Answered& answer) override { loop_.answered(answer); }

 private:
  engines::Requests requests_;
  sluice::ClosedLoop<engines::Requests> loop_;
};

struct Stage {
  double rate = 0;    ///< requests per second
  double seconds = 0; ///< for which it lasts
  [[nodiscard]] std::int64_t requests() const { return std::llround(rate * seconds); }
};

/// When the requests of a stage are sent.
enum class Arrivals : std::uint8_t {
  poisson, ///< at random
  scaled,  ///< the same, scaled so that the last is sent at the stage's end: `constant` of inference-perf
  even,    ///< at equal intervals
};

/// A load generator's ladder over prompts that share beginnings (inference-perf's `shared_prefix`).
struct Ladder {
  std::vector<Stage> stages{};
  Arrivals arrivals = Arrivals::poisson;
  int groups = 1, users = 1;        ///< of each group
  sluice::Tokens shared{0}, own{0}; ///< tokens of a group's beginning, and of a user's question after it
  sluice::Tokens output{0};
  std::int64_t in_flight = 0; ///< of all clients at most; 0: no limit
  bool first_warms = true;    ///< the first stage fills the caches and counts for nothing

  [[nodiscard]] std::size_t prompts() const {
    return static_cast<std::size_t>(groups) * static_cast<std::size_t>(users);
  }
};

/// Sends a ladder's requests: each stage after the last answer of the one before, from the first prompt on in an order
/// that the seed draws. A request that is due while `in_flight` are under way is sent when one is answered, and its
/// times count from then: a generator measures from the moment at which it sends.
class LadderClients final : public Clients {
 public:
  LadderClients(const Ladder& ladder, sluice::Tokens block_tokens, std::uint64_t seed)
      : ladder_(ladder), random_(seed) {
    using namespace sluice;
    for (int group = 0; group < ladder.groups; ++group)
      for (int user = 0; user < ladder.users; ++user) {
        const auto g = static_cast<std::uint64_t>(group), u = static_cast<std::uint64_t>(user);
        const ContentPiece pieces[] = {{2 * g + 2, ladder.shared},
                                       {2 * (g * static_cast<std::uint64_t>(ladder.users) + u) + 3, ladder.own}};
        block_keys(pieces, block_tokens, prompts_.emplace_back());
      }
    for (std::size_t i = prompts_.size(); i > 1; --i) std::swap(prompts_[i - 1], prompts_[random_.below(i)]);
    draw(Seconds{0});
  }

  sluice::Status start() override { return {}; }
  [[nodiscard]] std::optional<sluice::Seconds> next() const override {
    if (at_ == due_.size() || (ladder_.in_flight > 0 && under_way_ >= ladder_.in_flight)) return std::nullopt;
    return std::max(due_[at_], room_since_);
  }
  sluice::Expected<sluice::KeyedRequest> take(sluice::Seconds /*now*/) override {
    using namespace sluice;
    KeyedRequest request;
    request.spec.arrival = *next();
    request.spec.prompt = ladder_.shared + ladder_.own;
    request.spec.output = ladder_.output;
    request.spec.session = ++sent_;
    request.keys = prompts_[at_ % prompts_.size()];
    ++at_;
    ++under_way_;
    return request;
  }
  void answered(const sluice::Answered& answer) override {
    const bool was_full = ladder_.in_flight > 0 && under_way_ == ladder_.in_flight;
    --under_way_;
    last_ = std::max(last_, answer.when);
    if (was_full) room_since_ = std::max(room_since_, answer.when);
    if (under_way_ == 0 && at_ == due_.size() && stage_ < ladder_.stages.size()) draw(last_);
  }

 private:
  /// Draws the arrivals of the next stage.
  void draw(sluice::Seconds begin) {
    const Stage& stage = ladder_.stages[stage_++];
    due_.clear();
    at_ = 0;
    sluice::Seconds when = begin;
    for (std::int64_t i = 0; i < stage.requests(); ++i) {
      const double interval = ladder_.arrivals == Arrivals::even ? 1 : -std::log(1 - random_.uniform());
      when += sluice::Seconds{interval / stage.rate};
      due_.push_back(when);
    }
    if (ladder_.arrivals != Arrivals::scaled) return;
    const double scale = stage.seconds / (when - begin).count();
    for (sluice::Seconds& one : due_) one = begin + (one - begin) * scale;
  }

  const Ladder& ladder_;
  sluice::Random random_;
  std::vector<std::vector<sluice::BlockKey>> prompts_;
  std::vector<sluice::Seconds> due_; ///< of the stage
  std::size_t stage_ = 0;            ///< the next one
  std::size_t at_ = 0;               ///< requests of the stage that were sent
  std::uint32_t sent_ = 0;
  std::int64_t under_way_ = 0;
  sluice::Seconds room_since_{0}, last_{0};
};

} // namespace fleets
