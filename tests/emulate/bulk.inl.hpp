// SPDX-License-Identifier: Apache-2.0
// The definitions of Bulk's members that need the complete Block.
#pragma once

#include "emulate/block.hpp"

#include <cstring>

namespace sluice::emulate {

inline void Bulk::init(Block& block, kernels::Mbarrier& barrier, int arrivals, Where where) {
  block.require_shared(&barrier, sizeof barrier, "an mbarrier", where);
  block.require_aligned(&barrier, 8, "an mbarrier", where);
  barrier.state = static_cast<std::uint64_t>(arrivals); // in its own name: other threads need a sync()
  const Quiet quiet;
  see(block);
  Barrier& one = barriers_[&barrier] = {};
  one.arrivals = one.missing = arrivals;
  one.made_by = block.thread();
  one.made = where;
}

inline void Bulk::fence_init(int thread) {
  const Quiet quiet;
  for (auto& [at, barrier] : barriers_)
    if (barrier.made_by == thread) barrier.fenced = true;
}

inline Bulk::Barrier& Bulk::known(Block& block, kernels::Mbarrier& barrier, Where where) {
  const Quiet quiet;
  const auto found = barriers_.find(&barrier);
  if (found == barriers_.end()) block.fail(where, "uses an mbarrier that nobody has initialised");
  if (!found->second.fenced)
    block.fail(where, "uses the mbarrier that " + found->second.made.text() + " made without fence_barrier_init()");
  return found->second;
}

inline void Bulk::complete(Block& block, Barrier& barrier) {
  if (barrier.missing != 0 || barrier.bytes != 0) return;
  barrier.missing = barrier.arrivals;
  ++barrier.phase;
  block.wake();
}

inline void Bulk::expect(Block& block, kernels::Mbarrier& barrier, int bytes, Where where) {
  Barrier& one = known(block, barrier, where);
  const Quiet quiet;
  if (one.missing == 0) block.fail(where, "arrives at an mbarrier more often than it was initialised for");
  block.give(one.completed[one.phase & 1U]);
  one.bytes += bytes;
  --one.missing;
  complete(block, one);
}

inline Order* Bulk::passed(Block& block, kernels::Mbarrier& barrier, int parity, Where where) {
  Barrier& one = known(block, barrier, where);
  const auto phase = static_cast<unsigned>(parity) & 1U;
  return (one.phase & 1U) != phase ? &one.completed[phase] : nullptr;
}

inline void Bulk::load(Block& block, void* to, const void* from, int bytes, kernels::Mbarrier& barrier, Where where) {
  known(block, barrier, where);
  const auto size = static_cast<std::size_t>(bytes);
  block.require_shared(to, size, "the target of a bulk load", where);
  block.require_aligned(to, 16, "the target of a bulk load", where);
  block.require_aligned(from, 16, "the source of a bulk load", where);
  const Quiet quiet;
  if (bytes % 16 != 0) block.fail(where, "bulk loads " + std::to_string(bytes) + " bytes, not a multiple of 16");
  auto copy = std::make_unique<Copy>();
  copy->load = true;
  copy->step = Step::committed;
  copy->thread = block.thread();
  copy->to = to, copy->from = from, copy->bytes = size;
  copy->barrier = &barrier;
  copy->where = where;
  watch(block);
  copy->engine.start();
  copy->engine.fill(to, 0xff, size);
  copies_.push_back(std::move(copy));
  ++under_way_;
}

inline void Bulk::store(Block& block, void* to, const void* from, int bytes, Where where) {
  const auto size = static_cast<std::size_t>(bytes);
  block.require_shared(from, size, "the source of a bulk store", where);
  block.require_aligned(from, 16, "the source of a bulk store", where);
  block.require_aligned(to, 16, "the target of a bulk store", where);
  const Quiet quiet;
  if (bytes % 16 != 0) block.fail(where, "bulk stores " + std::to_string(bytes) + " bytes, not a multiple of 16");
  if (!watched_for_races) check_seen(block, static_cast<const char*>(from), size, where);
  auto copy = std::make_unique<Copy>();
  copy->thread = block.thread();
  groups_.resize(1024);
  copy->group = groups_[static_cast<std::size_t>(copy->thread)];
  copy->to = to, copy->from = from, copy->bytes = size;
  copy->where = where;
  watch(block);
  copy->engine.start_from(block.proxy().tsan());
  copies_.push_back(std::move(copy));
}

inline void Bulk::commit(int thread) {
  const Quiet quiet;
  groups_.resize(1024);
  for (auto& copy : copies_)
    if (copy->thread == thread && copy->step == Step::open) copy->step = Step::committed, ++under_way_;
  ++groups_[static_cast<std::size_t>(thread)];
}

inline void Bulk::wait(Block& block, int thread, int left, bool whole) {
  const Quiet quiet;
  groups_.resize(1024);
  const unsigned committed = groups_[static_cast<std::size_t>(thread)];
  for (auto& copy : copies_) {
    if (copy->load || copy->thread != thread || copy->step == Step::open) continue;
    if (copy->group + static_cast<unsigned>(left) >= committed) continue;
    if (copy->step == Step::committed) advance(block, *copy);
    if (whole && copy->step == Step::read) advance(block, *copy);
    acquire(&copy->read.known);
    if (whole) acquire(&copy->written.known);
  }
  if (whole)
    std::erase_if(copies_, [&](const auto& copy) {
      return copy->thread == thread && copy->step == Step::done &&
             copy->group + static_cast<unsigned>(left) < committed;
    });
}

inline void Bulk::check_seen(Block& block, const char* from, std::size_t bytes, Where where) {
  see(block);
  const char* const proxy = seen_.data() + (from - block.shared());
  std::size_t at = 0;
  while (at < bytes && from[at] == proxy[at]) ++at;
  if (at == bytes) return;
  block.fail(where, "bulk stores byte " + std::to_string(at) + " of " + std::to_string(bytes) +
                        ", which was written after the last fence_async(): the async proxy does not see it");
}

inline void Bulk::see(Block& block) {
  if (seen_.empty()) seen_.assign(block.shared_bytes(), static_cast<char>(block.poison()));
}

inline void Bulk::fence(Block& block) {
  const Quiet quiet;
  watch(block);
  fenced_ = true;
  seen_.assign(block.shared(), block.shared() + block.shared_bytes());
  if (!watched_for_races) return;
  const auto order = std::make_unique<Order>();
  release(&order->known);
  block.proxy().take(&order->known);
}

/// From the first bulk copy or fence on, records for ThreadSanitizer what the async proxy may see of each thread.
inline void Bulk::watch(Block& block) {
  if (!watched_for_races || fenced_) return;
  fenced_ = true;
  block.start_proxies();
}

/// A store's next step, or a load's only one.
inline void Bulk::advance(Block& block, Copy& copy) {
  if (copy.load) return land(block, copy);
  if (copy.step == Step::committed) {
    copy.between.resize(copy.bytes);
    copy.engine.copy(copy.between.data(), copy.from, copy.bytes);
    copy.engine.give(&copy.read.known);
    copy.step = Step::read;
    return;
  }
  copy.engine.copy(copy.to, copy.between.data(), copy.bytes);
  copy.engine.give(&copy.written.known);
  copy.step = Step::done;
  --under_way_;
}

inline void Bulk::land(Block& block, Copy& copy) {
  copy.engine.copy(copy.to, copy.from, copy.bytes);
  if (!seen_.empty())
    std::memcpy(seen_.data() + (static_cast<const char*>(copy.to) - block.shared()), copy.to, copy.bytes);
  copy.step = Step::done;
  --under_way_;
  const auto found = barriers_.find(copy.barrier);
  if (found == barriers_.end()) return;
  Barrier& barrier = found->second;
  Order& order = barrier.completed[barrier.phase & 1U];
  copy.engine.give(&order.known);
  copy.engine.give(&order.fenced); // a load wrote through the async proxy: a store of its bytes needs no fence
  barrier.bytes -= static_cast<std::int64_t>(copy.bytes);
  complete(block, barrier);
}

inline void Bulk::land_one(Block& block) {
  std::size_t chosen = block.random().below(under_way_);
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    Copy& copy = *copies_[i];
    if (copy.step == Step::open || copy.step == Step::done || chosen-- != 0) continue;
    advance(block, copy);
    if (copy.load) copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

inline void Bulk::drain(Block& block, void* ended) {
  for (auto& copy : copies_) {
    while (!block.failed() && (copy->step == Step::committed || copy->step == Step::read)) advance(block, *copy);
    if (copy->engine.started()) copy->engine.give(ended);
  }
}

inline std::string Bulk::missing(const kernels::Mbarrier& barrier) const {
  const Barrier& one = barriers_.at(&barrier);
  return "for phase " + std::to_string(one.phase) + " of the mbarrier of " + one.made.text() + ": " +
         std::to_string(one.missing) + " arrivals and " + std::to_string(one.bytes) + " bytes are still to come";
}

inline void Bulk::check_thread(Block& block, int thread) {
  for (const auto& copy : copies_) {
    if (copy->load || copy->thread != thread) continue;
    if (copy->step == Step::open) block.fail(copy->where, "ends before it has committed the bulk store of this line");
    if (copy->step == Step::committed)
      block.fail(copy->where, "ends while the bulk store of this line may still read shared memory");
  }
}

inline std::string Bulk::left_over() const {
  for (const auto& copy : copies_)
    if (copy->load) return "ends while the bulk load of " + copy->where.text() + " is under way: nobody waits for it";
  for (const auto& [at, barrier] : barriers_)
    if (barrier.bytes != 0)
      return "ends while the mbarrier of " + barrier.made.text() + " has " + std::to_string(barrier.bytes) +
             " bytes to come: what was expected is not what was loaded";
  return {};
}

inline void Bulk::restart() {
  barriers_.clear();
  copies_.clear();
  groups_.clear();
  seen_.clear();
  under_way_ = 0;
  fenced_ = false;
}

} // namespace sluice::emulate
