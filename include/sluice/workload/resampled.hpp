// SPDX-License-Identifier: Apache-2.0
// Resampled: resamples a recorded trace by seed, so that one trace gives a workload per seed.
#pragma once

#include "sluice/workload/distributions.hpp"
#include "sluice/workload/workload.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// The part of a trace that is resampled.
struct Resampling {
  enum class Kind : std::uint8_t {
    blocks,   ///< runs of consecutive requests, with their gaps and lengths: a circular block bootstrap
    arrivals, ///< only the gaps: gamma, with the trace's mean and coefficient of variation
  };
  Kind kind = Kind::blocks;
  std::int64_t block = 0; ///< requests per block; 0: the cube root of their number, rounded

  friend bool operator==(const Resampling&, const Resampling&) = default;
};

/// Draws as many requests as the trace has, from the trace, by a seed. The first one arrives at 0.
///
/// `blocks` assumes nothing about gaps and lengths, keeps bursts up to a block's length, repeats some requests and
/// drops others, as another day of the same users might. `arrivals` keeps every request in the trace's order and shows
/// the effect of arrival times. Rejected: resampling single requests, which are blocks of one and lose bursts.
///
/// Sessions are drawn whole: if the trace has sessions, they replace requests in this description. A session, or a
/// request with known content, that is drawn again has different content, except for beginnings that more than half of
/// the trace's requests share: another user's chat has the same system prompt and different words.
///
/// Unlike other readers it keeps the whole trace in memory, since a block may begin anywhere.
class Resampled {
 public:
  /// `trace`: at least one request, in the order of their reader; the first follows none. `contents`: one per request,
  /// or empty.
  Resampled(std::vector<RequestSpec> trace, Resampling how, std::uint64_t seed,
            std::vector<std::vector<ContentPiece>> contents = {})
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
  }

  /// Returns the requests (or sessions) per block for a trace of `requests`: 27 for 20,000.
  [[nodiscard]] static std::int64_t block_of(Resampling how, std::size_t requests) {
    return how.block > 0 ? how.block : std::max(1LL, std::llround(std::cbrt(static_cast<double>(requests))));
  }

  Expected<std::optional<RequestSpec>> next() {
    if (next_ == end_) {
      if (made_ == units_.size()) return std::optional<RequestSpec>{};
      unit_ = how_.kind == Resampling::Kind::blocks ? next_of_blocks() : made_;
      if (made_ > 0) now_ += how_.kind == Resampling::Kind::blocks ? gap_before(unit_) : drawn_gap();
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
    return std::optional{request};
  }
  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }

 private:
  std::size_t next_of_blocks() {
    if (left_ == 0) {
      at_ = random_.below(units_.size());
      left_ = how_.block;
    } else {
      at_ = (at_ + 1) % units_.size(); // circular, so that every unit is equally likely
    }
    --left_;
    return at_;
  }
  /// The first request has no gap before it and gets the mean of the other gaps.
  [[nodiscard]] Seconds gap_before(std::size_t unit) const {
    return unit == 0 ? mean_gap_ : trace_[units_[unit]].arrival - trace_[units_[unit - 1]].arrival;
  }
  /// Finds the pieces that more than half of the requests with content have.
  void find_common() {
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
  Seconds drawn_gap() {
    if (!(mean_gap_.count() > 0) || !(cv_ > 0)) return mean_gap_;
    return Seconds{draw_gap(random_, {ArrivalKind::gamma, 1 / mean_gap_.count(), cv_})};
  }

  std::vector<RequestSpec> trace_;
  std::vector<std::vector<ContentPiece>> contents_;
  std::vector<std::size_t> units_;    ///< indexes where sessions begin: the units that are drawn; a request without a
                                      ///< session is a unit
  std::vector<std::uint64_t> common_; ///< pieces that stay the same in every copy, in ascending order
  std::vector<std::uint64_t> copies_; ///< how often each unit was drawn
  std::vector<ContentPiece> content_; ///< of the last request
  Resampling how_;
  Random random_;
  Seconds mean_gap_{0}, now_{0};
  double cv_ = 0;
  std::size_t made_ = 0, at_ = 0;
  std::size_t unit_ = 0, next_ = 0, end_ = 0; ///< the current unit, its next request, and its end
  std::uint64_t copy_ = 0;                    ///< how often the unit was drawn earlier
  std::int64_t left_ = 0;                     ///< left in the current block
};

static_assert(TraceReader<Resampled> && KnowsContent<Resampled>);

} // namespace sluice
