// SPDX-License-Identifier: Apache-2.0
// SessionQueue: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/workload/session_queue.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

SLUICE_INLINE void SessionQueue::started(const RequestSpec& spec) {
  if (spec.session == 0) return;
  read_ = spec.session;
  forget_if_over(last_);
  last_ = read_;
  sessions_[spec.session];
}

SLUICE_INLINE void SessionQueue::hold(KeyedRequest request) {
  const std::uint32_t session = request.spec.session;
  SLUICE_ASSERT(request.spec.follows && session != 0, "a request that follows another one of its session");
  Session& of = sessions_[session];
  read_ = session;
  of.waiting.push_back(std::move(request));
  ++held_;
  if (of.answered && of.waiting.size() == 1) arrive(of, *of.answered);
}

SLUICE_INLINE void SessionQueue::read_all() {
  read_ = 0;
  forget_if_over(last_);
}

SLUICE_INLINE void SessionQueue::answered(const Answered& answer) {
  const auto of = sessions_.find(answer.session);
  if (of == sessions_.end()) return;
  if (of->second.waiting.empty())
    of->second.answered = answer.when;
  else
    arrive(of->second, answer.when);
  forget_if_over(answer.session);
}

SLUICE_INLINE std::optional<Seconds> SessionQueue::next() const {
  if (due_.empty()) return std::nullopt;
  return due_.front().spec.arrival;
}

SLUICE_INLINE KeyedRequest SessionQueue::take() {
  std::pop_heap(due_.begin(), due_.end(), later);
  KeyedRequest request = std::move(due_.back());
  due_.pop_back();
  --held_;
  return request;
}

SLUICE_INLINE bool SessionQueue::later(const KeyedRequest& a, const KeyedRequest& b) {
  return a.spec.arrival != b.spec.arrival ? a.spec.arrival > b.spec.arrival : a.spec.session > b.spec.session;
}

SLUICE_INLINE void SessionQueue::arrive(Session& of, Seconds answered) {
  of.answered.reset();
  of.waiting.front().spec.arrival = answered + of.waiting.front().spec.delay;
  due_.push_back(std::move(of.waiting.front()));
  of.waiting.pop_front();
  std::push_heap(due_.begin(), due_.end(), later);
}

SLUICE_INLINE void SessionQueue::forget_if_over(std::uint32_t session) {
  if (session == read_) return; // more of its requests may follow
  const auto of = sessions_.find(session);
  if (of != sessions_.end() && of->second.answered && of->second.waiting.empty()) sessions_.erase(of);
}

} // namespace sluice
