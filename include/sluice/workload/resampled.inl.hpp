// SPDX-License-Identifier: Apache-2.0
// Resampled: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/distributions.hpp"
#include "sluice/workload/resampled.hpp"
#include "sluice/workload/workload.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {

SLUICE_INLINE double busy_period_requests(std::span<const Seconds> arrivals, std::span<const Seconds> service) {
  SLUICE_ASSERT(arrivals.size() == service.size(), "a service time of every request");
  Seconds idle{0}; // when the server will have served all that arrived
  double length = 0, squares = 0;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    if (arrivals[i] >= idle) squares += length * length, length = 0, idle = arrivals[i];
    idle += service[i];
    length += 1;
  }
  squares += length * length;
  return arrivals.empty() ? 0 : squares / static_cast<double>(arrivals.size());
}

SLUICE_INLINE Resampled::Resampled(std::vector<RequestSpec> trace, Resampling how, std::uint64_t seed,
                                   std::vector<std::vector<ContentPiece>> contents)
    : trace_(std::move(trace)), contents_(std::move(contents)), how_(how), random_(seed) {
  SLUICE_ASSERT(!trace_.empty() && how.block >= 0, "a trace with requests, and blocks of some");
  SLUICE_ASSERT(contents_.empty() || contents_.size() == trace_.size(), "contents of all requests, or no contents");
  for (std::size_t i = 0; i < trace_.size(); ++i)
    if (!trace_[i].follows) units_.push_back(i);
  SLUICE_ASSERT(units_.front() == 0, "a trace whose first request follows none");
  const WorkloadTotals sum = totals(trace_);
  const auto gaps = static_cast<double>(units_.size() - 1);
  const Seconds span = trace_[units_.back()].arrival - trace_.front().arrival;
  mean_gap_ = gaps > 0 ? span / gaps : Seconds{0};
  cv_ = sum.gap_cv;
  how_.block = block_of(how_, units_.size());
  find_common();
  copies_.resize(units_.size());
  units_wanted_ = units_.size();
  if (how_.kind == Resampling::Kind::arrivals && how_.requests > 0) { // in their order, but not always the first ones
    const auto wanted = std::min(units_.size(), static_cast<std::size_t>(how_.requests));
    at_ = random_.below(units_.size() - wanted + 1);
    units_wanted_ -= at_;
  }
  if (how_.kind != Resampling::Kind::windows) return;
  const auto windows = static_cast<std::size_t>(how_.windows), offset = static_cast<std::size_t>(how_.offset);
  SLUICE_ASSERT(1 <= seed && seed <= windows && offset + windows <= units_.size(), "a window of the trace");
  const std::size_t left = units_.size() - offset;
  at_ = offset + left * (seed - 1) / windows;
  units_wanted_ = offset + left * seed / windows - at_;
}

SLUICE_INLINE std::int64_t Resampled::block_of(Resampling how, std::size_t requests) {
  return how.block > 0 ? how.block : std::max(1LL, std::llround(std::cbrt(static_cast<double>(requests))));
}

SLUICE_INLINE Expected<std::optional<RequestSpec>> Resampled::next() {
  if (how_.requests > 0 && given_ == how_.requests) return std::optional<RequestSpec>{};
  if (next_ == end_) {
    // With a number of requests, blocks and gaps are drawn until there are enough.
    const bool endless = how_.requests > 0 && how_.kind == Resampling::Kind::blocks;
    if (made_ == units_wanted_ && !endless) return std::optional<RequestSpec>{};
    unit_ = how_.kind == Resampling::Kind::blocks ? next_of_blocks() : at_ + made_;
    if (made_ > 0) now_ += how_.kind == Resampling::Kind::arrivals ? drawn_gap() : gap_before(unit_);
    ++made_;
    copy_ = copies_[unit_]++;
    next_ = units_[unit_];
    end_ = unit_ + 1 < units_.size() ? units_[unit_ + 1] : trace_.size();
  }
  RequestSpec request = trace_[next_];
  request.arrival = now_ + (request.arrival - trace_[units_[unit_]].arrival);
  if (request.session != 0) request.session = static_cast<std::uint32_t>(made_);
  content_.clear();
  if (!contents_.empty()) content_ = contents_[next_];
  if (copy_ > 0)
    for (ContentPiece& piece : content_)
      if (!std::binary_search(common_.begin(), common_.end(), piece.id))
        piece.id = static_cast<std::uint64_t>(next_key(BlockKey{copy_}, piece.id));
  ++next_;
  ++given_;
  return std::optional{request};
}

SLUICE_INLINE std::size_t Resampled::next_of_blocks() {
  if (left_ == 0) {
    at_ = random_.below(units_.size());
    left_ = how_.block;
  } else {
    at_ = (at_ + 1) % units_.size(); // circular, so that every unit is equally likely
  }
  --left_;
  return at_;
}

SLUICE_INLINE Seconds Resampled::gap_before(std::size_t unit) const {
  return unit == 0 ? mean_gap_ : trace_[units_[unit]].arrival - trace_[units_[unit - 1]].arrival;
}

SLUICE_INLINE void Resampled::find_common() {
  std::vector<std::uint64_t> ids;
  std::size_t with_content = 0;
  for (const std::vector<ContentPiece>& content : contents_) {
    with_content += content.empty() ? 0u : 1u;
    std::vector<std::uint64_t> own;
    for (const ContentPiece& piece : content) own.push_back(piece.id);
    std::sort(own.begin(), own.end());
    ids.insert(ids.end(), own.begin(), std::unique(own.begin(), own.end()));
  }
  std::sort(ids.begin(), ids.end());
  for (std::size_t i = 0, same = 0; i < ids.size(); i = same) {
    while (same < ids.size() && ids[same] == ids[i]) ++same;
    if (2 * (same - i) > with_content) common_.push_back(ids[i]);
  }
}

SLUICE_INLINE Seconds Resampled::drawn_gap() {
  if (!(mean_gap_.count() > 0) || !(cv_ > 0)) return mean_gap_;
  return Seconds{draw_gap(random_, {ArrivalKind::gamma, 1 / mean_gap_.count(), cv_})};
}

} // namespace sluice
