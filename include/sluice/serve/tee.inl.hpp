// SPDX-License-Identifier: Apache-2.0
// Tee: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/tee.hpp"

#include <atomic>

namespace sluice {

SLUICE_SERVER_INLINE std::string log_line(const TeeDifference& difference, std::string_view time) {
  std::string line;
  JsonWriter json(line);
  const auto token = [&](const char* name, const std::optional<std::int32_t>& value) {
    json.key(name);
    value ? json.value(*value) : json.null();
  };
  json.begin_object().key("event").value("tee_difference").key("time").value(time);
  json.key("generation").value(static_cast<std::uint64_t>(difference.id)).key("position").value(difference.position);
  token("token", difference.token);
  token("tee_token", difference.tee_token);
  json.end_object();
  return line;
}

SLUICE_SERVER_INLINE Tee::Tee(GenerationListener& listener, std::function<void(const TeeDifference&)> differs,
                              TeeLimits limits)
    : listener_(&listener), differs_(std::move(differs)), limits_(limits) {}

SLUICE_SERVER_INLINE void Tee::attach(std::unique_ptr<GenerationEngine> first,
                                      std::unique_ptr<GenerationEngine> second) {
  SLUICE_ASSERT(first != nullptr && second != nullptr, "two engines");
  second_ = std::move(second);
  first_ = std::move(first);
}

SLUICE_SERVER_INLINE void Tee::submit(GenerationId id, Generation generation) {
  // Submits to the second engine first: otherwise the first engine might refuse the generation before the second has
  // it, and the resulting cancellation would have no effect.
  if (follow(id)) {
    Generation same = generation;
    same.logprobs = -1; // log-probabilities are not compared
    same.scores_prompt = false;
    second_->submit(id, std::move(same));
  }
  first_->submit(id, std::move(generation));
}

SLUICE_SERVER_INLINE void Tee::cancel(GenerationId id) {
  first_->cancel(id);
  if (forget(id)) second_->cancel(id);
}

SLUICE_SERVER_INLINE bool Tee::ready() const {
  if (!both_were_ready_.load(std::memory_order_relaxed)) {
    if (!first_->ready() || !(second_->ready() || second_has_stopped_.load(std::memory_order_acquire))) return false;
    both_were_ready_.store(true, std::memory_order_relaxed);
  }
  return first_->ready();
}

SLUICE_SERVER_INLINE void Tee::metrics(PrometheusWriter& to) {
  first_->metrics(to);
  const std::lock_guard lock{mutex_};
  const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
  to.counter("sluice:tee_tokens_compared_total", "Tokens compared with those of the second engine.",
             whole(figures_.tokens));
  to.counter("sluice:tee_tokens_differing_total", "Of them, tokens that are not the same.",
             whole(figures_.differing_tokens));
  to.counter("sluice:tee_generations_compared_total", "Generations compared to their end.",
             whole(figures_.generations));
  to.counter("sluice:tee_generations_differing_total", "Generations with a token that is not the same.",
             whole(figures_.differing_generations));
  to.counter("sluice:tee_left_out_total", "Generations that the second engine alone did not end, by why.",
             whole(figures_.refused), {{"reason", "refused"}});
  to.counter("sluice:tee_left_out_total", "", whole(figures_.failed), {{"reason", "failed"}});
  to.counter("sluice:tee_left_out_total", "", whole(figures_.lagged), {{"reason", "lag"}});
  to.gauge("sluice:tee_tokens_ahead", "Tokens that one engine has made and the other has not yet.",
           static_cast<double>(ahead_));
}

SLUICE_SERVER_INLINE TeeFigures Tee::figures() const {
  const std::lock_guard lock{mutex_};
  return figures_;
}

SLUICE_SERVER_INLINE void Tee::Ear::stopped(const std::string& why) {
  if (side_ == Side::first)
    tee_.listener_->stopped(why);
  else
    tee_.second_has_stopped_.store(true, std::memory_order_release);
}

SLUICE_SERVER_INLINE void Tee::heard(Side side, std::vector<GenerationEvent> events) {
  std::vector<GenerationId> spared; // generations to cancel on the second engine
  std::vector<TeeDifference> found;
  {
    const std::lock_guard lock{mutex_};
    for (const GenerationEvent& event : events) take(side, event, spared, found);
  }
  if (side == Side::first) listener_->happened(std::move(events));
  for (const GenerationId id : spared) second_->cancel(id);
  if (differs_)
    for (const TeeDifference& one : found) differs_(one);
}

SLUICE_SERVER_INLINE void Tee::take(Side side, const GenerationEvent& event, std::vector<GenerationId>& spared,
                                    std::vector<TeeDifference>& found) {
  const auto at = pairs_.find(event.id);
  if (at == pairs_.end()) return; // cancelled, or beyond the limits, while this event was under way
  Pair& pair = at->second;
  const bool over = event.kind == GenerationEvent::Kind::refused || event.kind == GenerationEvent::Kind::failed;
  if (over && side == Side::first) {
    spared.push_back(event.id);
    return erase(at);
  }
  if (over) pair.gone = event.kind;
  if (side == Side::first) pair.accepted = true;
  if (pair.gone) { // only the second engine refused, if the first has accepted
    if (!pair.accepted) return;
    (pair.gone == GenerationEvent::Kind::refused ? figures_.refused : figures_.failed) += 1;
    return erase(at);
  }
  switch (event.kind) {
  case GenerationEvent::Kind::tokens:
    for (const std::int32_t token : event.tokens) add(event.id, pair, side, token, found);
    break;
  case GenerationEvent::Kind::ended:
    pair.ended[static_cast<std::size_t>(side)] = true;
    break;
  default:
    return;
  }
  // The other engine's answer has ended, so that it will never make these tokens.
  while (!pair.ahead.empty() && pair.ended[static_cast<std::size_t>(other(pair.whose))]) {
    compare(event.id, pair, pair.whose, pair.ahead.front(), std::nullopt, found);
    pop(pair);
  }
  if (pair.ended[0] && pair.ended[1]) {
    figures_.generations += 1;
    erase(at);
  } else if (ahead_ > limits_.tokens && !pair.ahead.empty()) {
    figures_.lagged += 1;
    spared.push_back(event.id);
    erase(at);
  }
}

SLUICE_SERVER_INLINE void Tee::add(GenerationId id, Pair& pair, Side side, std::int32_t token,
                                   std::vector<TeeDifference>& found) {
  if (pair.ahead.empty() || pair.whose == side) {
    pair.whose = side;
    pair.ahead.push_back(token);
    ahead_ += 1;
    return;
  }
  compare(id, pair, side, token, pair.ahead.front(), found);
  pop(pair);
}

SLUICE_SERVER_INLINE void Tee::compare(GenerationId id, Pair& pair, Side side, std::int32_t token,
                                       std::optional<std::int32_t> others, std::vector<TeeDifference>& found) {
  figures_.tokens += 1;
  const std::int64_t position = pair.compared++;
  if (others == token) return;
  figures_.differing_tokens += 1;
  if (std::exchange(pair.differs, true)) return;
  figures_.differing_generations += 1;
  TeeDifference& one = found.emplace_back(TeeDifference{id, position, token, others});
  if (side == Side::second) std::swap(one.token, one.tee_token);
}

SLUICE_SERVER_INLINE void Tee::pop(Pair& pair) {
  pair.ahead.pop_front();
  ahead_ -= 1;
}

SLUICE_SERVER_INLINE void Tee::erase(Pairs::iterator at) {
  ahead_ -= at->second.ahead.size();
  pairs_.erase(at);
}

SLUICE_SERVER_INLINE bool Tee::follow(GenerationId id) {
  const std::lock_guard lock{mutex_};
  if (pairs_.size() < limits_.generations) return pairs_.try_emplace(id).second;
  figures_.lagged += 1;
  return false;
}

SLUICE_SERVER_INLINE bool Tee::forget(GenerationId id) {
  const std::lock_guard lock{mutex_};
  const auto at = pairs_.find(id);
  if (at == pairs_.end()) return false;
  erase(at);
  return true;
}

} // namespace sluice
