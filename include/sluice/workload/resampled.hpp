// SPDX-License-Identifier: Apache-2.0
// Resampled: a workload per seed from one recorded trace: resampled, or one of its windows.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/request.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// The part of a trace that a seed draws, and how.
struct Resampling {
  enum class Kind : std::uint8_t {
    blocks,   ///< runs of consecutive requests, with their gaps and lengths: a circular block bootstrap
    arrivals, ///< only the gaps: gamma, with the trace's mean and coefficient of variation
    windows,  ///< nothing: seed `s` is the s-th of `windows` parts of the trace, as recorded; they have no request in
              ///< common
  };
  Kind kind = Kind::blocks;
  std::int64_t block = 0;    ///< requests per block; 0: the cube root of their number, rounded
  std::int64_t requests = 0; ///< requests of each workload, at most; 0: as many as the trace, or the window, has
  std::int64_t windows = 1;
  std::int64_t offset = 0; ///< requests (or sessions) before the first window

  friend bool operator==(const Resampling&, const Resampling&) = default;
};

/// Returns how many requests a busy period has that a request of the trace is in, on average: with the queue of one
/// server that takes `service[i]` for request i. A block bootstrap whose blocks are shorter than busy periods cuts
/// them, and so underestimates how much waits vary. `arrivals`: in order, as many as `service`; 0 if there are none.
[[nodiscard]] double busy_period_requests(std::span<const Seconds> arrivals, std::span<const Seconds> service);

/// Draws requests from a trace, by a seed: as many as the trace has, or as `Resampling` says. The first one arrives
/// at 0.
///
/// `blocks` assumes nothing about gaps and lengths, keeps bursts up to a block's length, repeats some requests and
/// drops others, as another day of the same users might. `arrivals` keeps the requests in the trace's order and shows
/// the effect of arrival times. Rejected: resampling single requests, which are blocks of one and lose bursts.
/// `windows` shows how much the trace itself varies over time, which no resampling of one window can.
///
/// Sessions are drawn whole: if the trace has sessions, they replace requests in this description. A session, or a
/// request with known content, that is drawn again has different content, except for beginnings that more than half of
/// the trace's requests share: another user's chat has the same system prompt and different words.
///
/// Unlike other readers it keeps the whole trace in memory, since a block may begin anywhere.
class Resampled {
 public:
  /// `trace`: at least one request, in the order of their reader; the first follows none. `contents`: one per request,
  /// or empty. Of windows, `seed` is the number of one, from 1, and each has at least one request.
  Resampled(std::vector<RequestSpec> trace, Resampling how, std::uint64_t seed,
            std::vector<std::vector<ContentPiece>> contents = {});

  /// Returns the requests (or sessions) per block for a trace of `requests`: 27 for 20,000.
  [[nodiscard]] static std::int64_t block_of(Resampling how, std::size_t requests);

  Expected<std::optional<RequestSpec>> next();
  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }

 private:
  std::size_t next_of_blocks();
  /// The first request has no gap before it and gets the mean of the other gaps.
  [[nodiscard]] Seconds gap_before(std::size_t unit) const;
  /// Finds the pieces that more than half of the requests with content have.
  void find_common();
  Seconds drawn_gap();

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
  std::size_t units_wanted_ = 0;              ///< at most
  std::int64_t given_ = 0;                    ///< requests
  std::size_t unit_ = 0, next_ = 0, end_ = 0; ///< the current unit, its next request, and its end
  std::uint64_t copy_ = 0;                    ///< how often the unit was drawn earlier
  std::int64_t left_ = 0;                     ///< left in the current block
};

static_assert(TraceReader<Resampled> && KnowsContent<Resampled>);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/resampled.inl.hpp"
#endif
