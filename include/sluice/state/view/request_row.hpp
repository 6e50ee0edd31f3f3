// SPDX-License-Identifier: Apache-2.0
// RequestRow: what the engine knows about one live request. Only the engine writes it; every policy may read it.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/holding.hpp"
#include "sluice/state/view/known_spec.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <type_traits>

namespace sluice {

/// The phases of a request's life.
enum class Phase : std::uint8_t {
  waiting,   ///< has never run, or nothing of its computation is left: its whole context must be computed
  running,   ///< part of the batch; holds device memory
  preempted, ///< has run and does not run now: paused, swapped out, dropped or rotated; Retention says what remains of
             ///< its KV
  ended,     ///< its last token exists; the row will be reused
};

/// How the load of a request's KV from a tier and its computation share time.
enum class LoadMode : std::uint8_t {
  layerwise, ///< in the request's first iteration: each layer waits for its own blocks
  whole,     ///< in its first iteration: the first layer waits for all of them
  ahead,  ///< before its first iteration: it holds its place in the batch and computes nothing until all have arrived
  beside, ///< while the tokens before the loaded ones are computed, in as many iterations as that takes
};

constexpr const char* name(LoadMode mode) {
  constexpr const char* names[] = {"layerwise", "whole", "ahead", "beside"};
  return names[static_cast<int>(mode)];
}

/// A live request.
///
/// The *context* is prompt + generated: the tokens that exist. `computed` of them have KV. The others are `pending`:
/// the prompt at first, one token while it decodes, everything again after a drop. A token is generated whenever an
/// iteration ends with nothing pending.
struct RequestRow {
  RequestId id{};                   ///< one per submission, never reused
  Phase phase = Phase::waiting;     ///< waiting, running, preempted or ended
  bool may_return = false;          ///< preempted, and Relief lets it return
  bool waits = false;               ///< until a tier's blocks have arrived: outside the batch, or in it without tokens
  bool has_fetched = false;         ///< it has waited for a lower tier's blocks
  bool hides_length = false;        ///< its engine is no oracle: a policy that reads its answer's length ends the run
  std::int16_t times_lost = 0;      ///< its KV, because there was no room, since it generated `lost_at` tokens
  std::int32_t lost_at = 0;         ///< tokens that it had generated when its KV was lost last
  std::int32_t times_preempted = 0; ///< paused, swapped out, dropped or rotated
  /// With LoadMode::beside, how many tokens have KV when it needs the loaded ones, which count as `computed` from then
  /// on; 0 if it needs none.
  std::int32_t meets = 0;

  KnownSpec spec;                   ///< the user's request, without the length of its answer
  Tokens computed{0};               ///< how many of its oldest context tokens have KV
  Tokens generated{0};              ///< tokens that exist beyond the prompt
  Tokens slack{0};                  ///< free places for tokens in its last block
  TokenBlocks blocks{0};            ///< blocks that hold `computed`, in each layer
  Holding holding;                  ///< where those blocks are
  std::uint32_t plan_serial = 0;    ///< of the last plan that named the request
  std::int32_t resident_layers = 0; ///< layers - |holding.away()|, stored because every step needs it

  Seconds first_token{0};              ///< when the first token was generated (undefined before)
  Seconds last_token{0};               ///< when the newest token was generated (undefined before the first)
  Seconds running_since{0};            ///< when it last joined the batch
  Seconds preempted_since{0};          ///< when it was last preempted (undefined if never)
  std::int64_t preempted_at_step = -1; ///< the step of that preemption

  // Written by Delivery for other policies.
  Tokens delivered{0}; ///< tokens that have reached the user
  Seconds due{0};      ///< when the next token is due (TokenDeposit)

  // Written by the engine at each delivery.
  Seconds last_delivery{-1}; ///< when a token last reached the user, if Delivery holds tokens back; else below 0
  std::int64_t missed = 0;   ///< TBT deadlines missed by the tokens that have reached the user (docs/metrics.md)

  // Of prefix caching, read only when the request joins.
  Tokens found{0};   ///< prompt tokens whose KV was found when it first joined (prefix caching), beyond `arrived`
  Tokens arrived{0}; ///< prompt tokens whose KV came over a network with it
  Tokens loading{0}; ///< it loads these from the tier when it joins: the last of `computed`, or those after `meets`
  Tokens loaded{0};  ///< part of `found` that was loaded from the first tier
  Tokens on_host{0}; ///< prompt tokens whose KV a real backend's host keeps for it until it first joins
  std::int32_t fetched = 0;                 ///< tokens of `loaded` that a lower tier had
  LoadMode load_mode = LoadMode::layerwise; ///< of `loading`

  /// The number of tokens that exist: prompt and generated.
  [[nodiscard]] constexpr Tokens context() const { return spec.prompt + generated; }
  /// How many of them have no KV.
  [[nodiscard]] constexpr Tokens pending() const { return context() - computed; }
  /// How many of these can be computed now: fewer if KV that a tier has must arrive before.
  [[nodiscard]] constexpr Tokens ready() const {
    if (meets > 0) return Tokens{meets} - computed;
    return waits ? Tokens{0} : pending();
  }
  /// Tokens that have room on the device, and KV only from a later iteration on.
  [[nodiscard]] constexpr Tokens awaited() const { return meets > 0 ? loading : Tokens{0}; }
  /// Of `computed`, what is on the device, for a request that does not run.
  [[nodiscard]] constexpr Tokens found_on_device() const { return meets > 0 ? computed : computed - loading; }
  /// Generated tokens that the user has not got: they cover a pause.
  [[nodiscard]] constexpr Tokens deposit() const { return generated - delivered; }
  /// What its client says of its KV after the answer, as far as a policy reads it: `row.hints(heeded<Policy>)`.
  [[nodiscard]] constexpr SessionHints hints(HintPermit permit) const { return spec.hints(permit); }
  /// Tokens that it will generate, or their bound. Only an oracle knows it: `row.output(LengthPermit<Policy>{})`.
  template <class P>
  [[nodiscard]] constexpr Tokens output(LengthPermit<P> /*permit*/) const {
    if (!std::is_same_v<P, NotAPolicy> && hides_length) detail::undeclared_oracle();
    return spec.whole(not_a_policy).output;
  }
  /// Tokens still to generate. Only an oracle knows it: `row.remaining(LengthPermit<Policy>{})`.
  template <class P>
  [[nodiscard]] constexpr Tokens remaining(LengthPermit<P> permit) const {
    return output(permit) - generated;
  }
  /// TBT deadlines missed by `now`: by the delivered tokens, and since the last delivery by a token that has not come.
  [[nodiscard]] std::int64_t missed_by(Seconds now) const {
    const Seconds since = last_delivery.count() < 0 ? last_token : last_delivery;
    return missed + (delivered.count() == 0 ? 0 : deadlines_passed(since, now, spec.slo.tbt));
  }
  /// Blocks after `tokens` more tokens have been computed.
  [[nodiscard]] constexpr TokenBlocks blocks_after(Tokens tokens, Tokens block_tokens) const {
    return tokens <= slack ? blocks : blocks + blocks_for(tokens - slack, block_tokens);
  }
};

/// Whether the host attends the request in an iteration that computes so many of its tokens. (A request whose last
/// plan is older than its preemption may have more tokens to compute: the device then does, even one by one.)
[[nodiscard]] constexpr bool is_hosted(const RequestRow& row, Tokens computed) {
  return row.holding.attended_on_host && computed == Tokens{1} && row.pending() == Tokens{1};
}

// Slack: how far a request is ahead of its deadlines, for policies that choose whom a wait costs least.

/// When the first token is due.
[[nodiscard]] inline Seconds first_due(const RequestRow& row) { return row.spec.arrival + row.spec.slo.ttft; }

/// Seconds until the first token is late, if the request's prompt were next and took `token_s` per token.
[[nodiscard]] inline double first_token_slack_s(const RequestRow& row, Seconds now, double token_s) {
  return (first_due(row) - now).count() - token_s * static_cast<double>(row.pending().count());
}

/// Seconds until the request is late if it got nothing more: its first token is due at arrival + TTFT SLO, and each
/// further token one TBT SLO later. Below 0: its next token is behind that schedule. Infinite without an SLO, and no
/// number (0 times infinity) for a request without a TBT SLO that has no token yet.
[[nodiscard]] inline double ahead_s(const RequestRow& row, Seconds now) {
  return (first_due(row) - now).count() + static_cast<double>(row.generated.count()) * row.spec.slo.tbt.count();
}

/// Seconds until the TPOT of a request that has started is later than its SLO if it got nothing more: the SLO is about
/// a mean, so a request that was served faster than the SLO can wait. Below 0: its TPOT misses the SLO now.
[[nodiscard]] inline double tpot_slack_s(const RequestRow& row, Seconds now) {
  return static_cast<double>(row.generated.count()) * row.spec.slo.tbt.count() - (now - row.first_token).count();
}

/// When the user has, or will have, got all tokens that exist: at once, or one per TBT SLO while the deposit holds
/// some. Undefined before the first token.
[[nodiscard]] inline Seconds all_delivered_at(const RequestRow& row) {
  if (row.deposit().count() > 0) return row.due + static_cast<double>(row.deposit().count() - 1) * row.spec.slo.tbt;
  return row.last_delivery.count() < 0 ? row.last_token : row.last_delivery;
}

/// The unit in which pauses count as long or short: the TTFT SLO, or ten TBT SLOs if longer. A short TTFT SLO alone
/// would let requests take each other's place in every iteration.
[[nodiscard]] inline Seconds pause_unit(const RequestRow& row) {
  return std::max(row.spec.slo.ttft, 10 * row.spec.slo.tbt);
}

/// How little a pause of a request costs: the greatest pauses first. A request before its first token never pauses by
/// choice: its prompt would be lost, or held for nothing. A request behind its whole schedule has missed its SLO, and
/// pausing it loses no more; among others, deposited tokens cover the pause, and then the distance to the deadline.
struct PauseOrder {
  bool started = false;
  bool behind = false;
  std::int64_t deposit = 0;
  double ahead_s = 0;

  [[nodiscard]] static PauseOrder of(const RequestRow& row, Seconds now) {
    const double ahead = sluice::ahead_s(row, now);
    if (row.generated.count() == 0) return {false, false, 0, -static_cast<double>(row.context().count())};
    return {true, ahead < 0, row.deposit().count(), ahead};
  }
  friend auto operator<=>(const PauseOrder&, const PauseOrder&) = default;
};

} // namespace sluice
