// SPDX-License-Identifier: Apache-2.0
// FairQueue: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/fair_queue.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE void FairQueue::submit(GenerationId id, Generation generation,
                                            const std::shared_ptr<KeyAccount>& account, std::size_t among) {
  if (account == nullptr) return engine_->submit(id, std::move(generation));
  among_ = among;
  Key& key = keys_[account->name()];
  key.account = account;
  key.active = clock_();
  if (key.held.empty() && key.running == 0) {
    key.start = std::max(key.start, now_);
    key.gone.assign(1, key.active);
  }
  of_.emplace(id, account->name());
  key.held.push_back({id, std::move(generation), key.active});
  ++held_;
  pass_on();
}

SLUICE_SERVER_INLINE void FairQueue::cancel(GenerationId id) {
  const auto found = of_.find(id);
  if (found == of_.end()) return engine_->cancel(id);
  std::deque<Held>& held = keys_.at(found->second).held;
  const auto at = std::find_if(held.begin(), held.end(), [id](const Held& one) { return one.id == id; });
  if (at == held.end()) {
    engine_->cancel(id);
    return left(id);
  }
  held.erase(at);
  --held_;
  of_.erase(found);
}

SLUICE_SERVER_INLINE void FairQueue::left(GenerationId id) {
  const auto found = of_.find(id);
  if (found == of_.end()) return;
  Key& key = keys_.at(found->second);
  --key.running;
  --running_;
  key.active = clock_();
  key.gone.push_back(key.active);
  if (key.gone.size() > paced_by + 1) key.gone.pop_front();
  of_.erase(found);
  pass_on();
}

SLUICE_SERVER_INLINE void FairQueue::charge(GenerationId id, std::int64_t tokens) {
  if (const auto found = of_.find(id); found != of_.end()) charge(keys_.at(found->second), tokens);
}

SLUICE_SERVER_INLINE void FairQueue::charge(Key& key, std::int64_t tokens) {
  key.tokens += tokens;
  key.start += static_cast<double>(tokens) / key.account->weight();
}

SLUICE_SERVER_INLINE std::optional<FairQueue::Full> FairQueue::full(const std::shared_ptr<KeyAccount>& account,
                                                                    std::size_t among, std::int64_t most) const {
  const auto found = account == nullptr ? keys_.end() : keys_.find(account->name());
  if (found == keys_.end() || found->second.held.empty()) return std::nullopt;
  const Key& key = found->second;
  const auto held_by = [](const Key& one) { return static_cast<std::int64_t>(one.held.size()); };
  Full full;
  full.own_limit = at_own_limit(key);
  if (full.own_limit) {
    full.held = held_by(key);
  } else {
    for (const auto& [name, one] : keys_)
      if (!at_own_limit(one)) full.held += held_by(one);
    if (held_by(key) < most / std::max<std::int64_t>(1, static_cast<std::int64_t>(among))) return std::nullopt;
  }
  if (full.held < most) return std::nullopt;
  // Before its first answer has left, the time since it came is the least that one takes.
  const double each =
      (clock_() - key.gone.front()) / static_cast<double>(std::max<std::size_t>(2, key.gone.size()) - 1);
  full.retry_s = std::max(1.0, each * static_cast<double>(held_by(key)));
  return full;
}

SLUICE_SERVER_INLINE bool FairQueue::others_are_active(const Key& key) const {
  const double since = clock_() - quiet_s;
  return std::any_of(keys_.begin(), keys_.end(), [&](const auto& one) {
    const Key& other = one.second;
    return &other != &key && (!other.held.empty() || other.running > 0 || other.active >= since);
  });
}

SLUICE_SERVER_INLINE bool FairQueue::may_send(const Key& key) const {
  if (key.held.empty()) return false;
  if (at_own_limit(key)) return false;
  if (places_ <= 0 || among_ <= 1) return true;
  const int reserve = others_are_active(key) ? std::max(1, places_ / 8) : 0;
  if (running_ == 0 || running_ < places_ - reserve) return true;
  return key.running == 0 && std::all_of(keys_.begin(), keys_.end(), [&key](const auto& other) {
           const bool competes = other.second.running > 0 || !other.second.held.empty();
           return !competes || key.start <= other.second.start; // a key that has had less than each of the others
         });
}

SLUICE_SERVER_INLINE void FairQueue::pass_on() {
  for (;;) {
    Key* next = nullptr;
    for (auto& [name, key] : keys_)
      if (may_send(key) && (next == nullptr || key.start < next->start)) next = &key;
    if (next == nullptr) return;
    Held one = std::move(next->held.front());
    next->held.pop_front();
    --held_;
    ++running_;
    ++next->running;
    now_ = std::max(now_, next->start);
    charge(*next, static_cast<std::int64_t>(one.generation.prompt.size()));
    // The engine's clock for it starts now: what it has waited here is time that its first token no longer has.
    one.generation.waited = Seconds{clock_() - one.since};
    engine_->submit(one.id, std::move(one.generation));
  }
}

SLUICE_SERVER_INLINE void FairQueue::write(PrometheusWriter& to) const {
  for (const auto& [name, key] : keys_)
    for (const bool own : {false, true})
      to.gauge("sluice:key_held", "Answers of a key that are held back, for other keys or by its own limit.",
               own == at_own_limit(key) ? static_cast<double>(key.held.size()) : 0,
               {{"key", name}, {"by", own ? "own_limit" : "other_keys"}});
  for (const auto& [name, key] : keys_)
    to.gauge("sluice:key_running", "Answers of a key in the engine.", static_cast<double>(key.running),
             {{"key", name}});
  for (const auto& [name, key] : keys_)
    to.counter("sluice:key_tokens_total", "Tokens of prompts and answers of a key.", static_cast<double>(key.tokens),
               {{"key", name}});
}

} // namespace sluice
