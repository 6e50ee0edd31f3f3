// SPDX-License-Identifier: Apache-2.0
// WhatIfThread, replay_what_if: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/serve/process.hpp"
#include "sluice/serve/what_if.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE void SloTally::add(const SloAttainment& kept, Seconds over) {
  ++requests;
  const SloAttainment::Verdict verdict = kept.verdict(kept.started() ? kept.last : over);
  if (verdict != SloAttainment::Verdict::none) ++with_slo;
  if (verdict == SloAttainment::Verdict::met) ++met;
  if (!std::isinf(kept.slo.ttft.count())) {
    ++with_ttft;
    if (!kept.first_is_late(over)) ++first_in_time;
  }
  on_time += kept.on_time;
  missed += kept.missed;
}

SLUICE_SERVER_INLINE void SloTally::add_refused(const Slo& slo) {
  ++requests;
  ++refused;
  if (SloAttainment{.slo = slo}.has_slo()) ++with_slo;
  if (!std::isinf(slo.ttft.count())) ++with_ttft;
}

SLUICE_SERVER_INLINE double SloTally::share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : std::nan("");
}

SLUICE_SERVER_INLINE SloJudge::SloJudge(std::span<const RequestSpec> requests) {
  for (const RequestSpec& request : requests) kept_.push_back({.slo = request.slo, .arrival = request.arrival});
  over_.resize(kept_.size());
}

SLUICE_SERVER_INLINE void SloJudge::finish() {
  for (std::size_t i = 0; i < kept_.size(); ++i)
    if (!over_[i]) tally_.add_refused(kept_[i].slo);
}

SLUICE_SERVER_INLINE void SloJudge::hear(const AnyEvent& event) {
  event.visit(hears{}, [this](const auto& of_its_type) { this->on(of_its_type); });
}

SLUICE_SERVER_INLINE void SloJudge::on(const events::Delivered& event) {
  if (event.count.count() > 0) (void)kept_.at(index(event.row.id)).release(event.count.count(), event.when);
}

SLUICE_SERVER_INLINE void SloJudge::on(const events::Ended& event) {
  over_.at(index(event.row.id)) = true;
  tally_.add(kept_.at(index(event.row.id)), event.now);
}

SLUICE_SERVER_INLINE void SloJudge::on(const events::Refused& event) {
  over_.at(index(event.id)) = true;
  tally_.add_refused(kept_.at(index(event.id)).slo);
}

SLUICE_SERVER_INLINE WhatIfRequests what_if_requests(const ServedRequests::Copy& copy) {
  WhatIfRequests all;
  all.crowded = copy.crowded;
  Seconds begin{0}, end{0};
  for (const ServedRequest& request : copy.requests) {
    if (request.generated.count() < 1 && !request.kept.first_is_late(request.ended)) {
      ++all.left_out;
      continue;
    }
    RequestSpec spec = request.spec;
    if (all.replayed.empty()) begin = spec.arrival;
    end = std::max(end, request.ended);
    spec.arrival = spec.arrival - begin;
    spec.slo = request.kept.slo; // without this server's margins
    spec.output = std::max(Tokens{1}, request.generated);
    spec.output_is_bound = false;
    all.replayed.push_back(spec);
    all.served.add(request.kept, request.ended);
  }
  if (!all.replayed.empty()) all.span_s = (end - begin).count();
  return all;
}

SLUICE_SERVER_INLINE WhatIfResult replay_what_if(const WhatIfSystem& system, std::span<const RequestSpec> requests,
                                                 double most_processor_s, const std::atomic<bool>& stop) {
  WhatIfResult result;
  result.system = system.name;
  SloJudge judge(requests);
  const double began = thread_seconds();
  bool cut = false;
  const Status status = system.replay(requests, judge, [&] {
    return cut = cut || stop.load(std::memory_order_relaxed) || thread_seconds() - began > most_processor_s;
  });
  if (status && !cut) judge.finish();
  result.tally = judge.tally();
  result.processor_s = thread_seconds() - began;
  if (!status) {
    result.state = WhatIfResult::State::failed;
    result.why = status.error().line();
  } else if (cut) {
    result.state = WhatIfResult::State::cut;
    char text[120];
    std::snprintf(text, sizeof text, "cut after %.3g s of processor time, with %lld of %lld requests replayed",
                  most_processor_s, static_cast<long long>(result.tally.requests),
                  static_cast<long long>(requests.size()));
    result.why = text;
  }
  return result;
}

SLUICE_SERVER_INLINE WhatIfThread::WhatIfThread(ServedRequests& served, std::vector<WhatIfSystem> systems,
                                                WhatIfLimits limits)
    : served_(&served), systems_(std::move(systems)), limits_(limits) {
  SLUICE_ASSERT(!systems_.empty(), "the system that serves is the first");
  thread_ = std::thread([this] { run(); });
}

SLUICE_SERVER_INLINE void WhatIfThread::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock{mutex_};
    stop_.store(true, std::memory_order_relaxed);
  }
  asked_.notify_all();
  thread_.join();
}

SLUICE_SERVER_INLINE std::string WhatIfThread::json(Clock::time_point now) {
  const std::lock_guard asking{asking_};
  if (std::unique_lock lock{mutex_, std::try_to_lock}; lock.owns_lock()) {
    if (fresh_) shown_ = std::move(*fresh_);
    fresh_.reset();
    computing_ = busy_ || work_;
    const bool due = !began_ || now - *began_ >= std::chrono::duration<double>(limits_.every_s);
    const std::int64_t total = served_->total();
    if (!computing_ && due && total != seen_) {
      seen_ = total;
      began_ = now;
      computing_ = true;
      work_ = what_if_requests(served_->copy(now));
      lock.unlock();
      asked_.notify_all();
    }
  } else {
    // The thread starts or finishes work at this moment: call again, unless there has been nothing to ask for.
    computing_ = began_ || served_->total() != seen_;
  }
  return write(shown_, computing_, now);
}

SLUICE_SERVER_INLINE void WhatIfThread::wait() {
  std::unique_lock lock{mutex_};
  idle_.wait(lock, [&] { return (!work_ && !busy_) || stop_.load(std::memory_order_relaxed); });
}

SLUICE_SERVER_INLINE void WhatIfThread::run() {
  run_when_spare();
  std::unique_lock lock{mutex_};
  for (;;) {
    asked_.wait(lock, [&] { return work_.has_value() || stop_.load(std::memory_order_relaxed); });
    if (stop_.load(std::memory_order_relaxed)) return;
    Answer answer;
    answer.any = true;
    answer.requests = *std::exchange(work_, std::nullopt);
    busy_ = true;
    lock.unlock();
    if (answer.requests.served.with_slo > 0)
      for (const WhatIfSystem& system : systems_)
        answer.results.push_back(replay_what_if(system, answer.requests.replayed, limits_.processor_s, stop_));
    answer.requests.replayed = {};
    answer.at = Clock::now();
    lock.lock();
    fresh_ = std::move(answer);
    busy_ = false;
    idle_.notify_all();
  }
}

SLUICE_SERVER_INLINE std::string WhatIfThread::percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

SLUICE_SERVER_INLINE std::string WhatIfThread::said(const Answer& answer, bool computing) const {
  if (!answer.any) return computing ? "The requests are being replayed." : "No request has ended yet.";
  const SloTally& served = answer.requests.served;
  if (served.requests == 0) return "No request has ended in the last ten minutes.";
  if (served.with_slo == 0)
    return "None of the " + std::to_string(served.requests) +
           " requests had an SLO, so there is nothing that a system could have kept better.";
  std::string others, own = systems_.front().name + " met " + percent(served.attainment());
  for (std::size_t i = 0; i < answer.results.size(); ++i) {
    const WhatIfResult& result = answer.results[i];
    if (result.state != WhatIfResult::State::done) continue;
    if (i == 0)
      own += " (" + percent(result.tally.attainment()) + " when simulated)";
    else
      others += (others.empty() ? "" : ", ") + result.system + (others.empty() ? " would have met " : " ") +
                percent(result.tally.attainment());
  }
  return (others.empty() ? "" : others + "; ") + own + " of " + std::to_string(served.with_slo) + " promised requests.";
}

SLUICE_SERVER_INLINE void WhatIfThread::write(JsonWriter& json, const SloTally& tally) {
  json.key("requests").value(tally.requests).key("promised").value(tally.with_slo).key("met").value(tally.met);
  json.key("refused").value(tally.refused);
  for (const auto& [name, share] : {std::pair{"slo_attainment", tally.attainment()},
                                    {"ttft_attainment", tally.first_attainment()},
                                    {"tbt_attainment", tally.token_attainment()}}) {
    json.key(name);
    std::isnan(share) ? json.null() : json.value(share);
  }
}

SLUICE_SERVER_INLINE std::string_view WhatIfThread::name_of(WhatIfResult::State state) {
  switch (state) {
  case WhatIfResult::State::done:
    return "done";
  case WhatIfResult::State::cut:
    return "cut";
  case WhatIfResult::State::failed:
    break;
  }
  return "failed";
}

SLUICE_SERVER_INLINE std::string WhatIfThread::write(const Answer& answer, bool computing,
                                                     Clock::time_point now) const {
  std::string text;
  JsonWriter json(text);
  json.begin_object().key("said").value(said(answer, computing)).key("computing").value(computing).key("age_s");
  answer.any ? json.rounded(std::max(0.0, std::chrono::duration<double>(now - answer.at).count()), 6) : json.null();
  json.key("window_s").value(static_cast<std::int64_t>(ServedRequests::window.count()));
  json.key("most_requests").value(static_cast<std::int64_t>(ServedRequests::most));
  json.key("crowded").value(answer.requests.crowded).key("span_s").value(answer.requests.span_s);
  json.key("left_out").value(answer.requests.left_out);
  json.key("system").value(systems_.front().name).key("systems").begin_array();
  for (const WhatIfSystem& system : systems_) json.value(system.name);
  json.end_array().key("served").begin_object();
  write(json, answer.requests.served);
  json.end_object().key("simulated").begin_array();
  for (const WhatIfResult& result : answer.results) {
    json.begin_object().key("system").value(result.system).key("state").value(name_of(result.state));
    json.key("why").value(result.why);
    write(json, result.tally);
    json.key("processor_s").rounded(result.processor_s, 4).end_object();
  }
  json.end_array().end_object();
  return text;
}

} // namespace sluice
