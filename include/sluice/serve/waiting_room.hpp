// SPDX-License-Identifier: Apache-2.0
// WaitingRoom: tickets of refused newcomers, in the order of their first arrival, with the time named to each client.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/request.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

namespace sluice {

/// A request that is expected to arrive, at its spec's arrival.
struct Promised {
  RequestSpec spec; ///< its SLO is the client's
  SloLead lead;     ///< how much earlier the engine must be
  SloLead margin;   ///< that a forecast keeps from its SLO
  double work = 0;  ///< steps of full batches
};

/// Remembers refused newcomers until they return, so that they are admitted in the order in which they came first, and
/// not in the order in which they happen to ask again. A returning client is known by what it asks for: the same key,
/// session, prompt, `max_tokens`, SLO, priority and number among the choices of its request. It needs no header, so any
/// client that retries when it is told is served in its turn. Rejected: a header with the ticket's number, which no
/// client of the OpenAI API would send back. Clients that ask for the same have a ticket each, because one that comes
/// before any of their times is taken for another client. So one client that does not wait gets several: at most
/// `most_alike`. Further ones get none. Rejected: to give them the newest ticket, whose client would find another time
/// than the one that it was told. One ticket at a time of those that ask for the same shows whether clients return: a
/// client that got sixteen and leaves counts once.
///
/// The time that a newcomer is told is one ticket's work after the last time named to those before it that are
/// expected, in the share in which clients were seen to return. Its own work counts only if nobody is before its own
/// ticket. Work is counted in steps of full batches, so a step's measured time makes it seconds; the engine's true pace
/// is learned from whether those that return in time find a place, and how long they are held. Rejected: the time that
/// a simulation finds, for all but the first ticket. It would have to simulate the whole queue for each refusal, which
/// costs more than the engine's share for forecasts.
///
/// If the room is full, a newcomer takes the place of the newest ticket of the key that has most, if that key has at
/// least two more than its own. So no key keeps the others out, and a key that is alone may have all places. Rejected:
/// a fixed share for each key, which would leave places empty if there is one key or none.
class WaitingRoom {
 public:
  std::size_t most = 1024;     ///< tickets; further newcomers are told a time, and no place is kept for them
  std::size_t most_alike = 16; ///< tickets of those that ask for the same
  Seconds patience{2};         ///< a ticket is kept that long after the time that its client was told
  Seconds early{0.001};        ///< a client that comes so much earlier is in time, because clients round

  static constexpr std::uint64_t after_all = std::numeric_limits<std::uint64_t>::max();

  struct Ticket {
    std::uint64_t asks = 0;   ///< a digest of what the client asked for
    std::uint64_t number = 0; ///< in the order of first arrival
    std::uint64_t salt = 0;   ///< of its client's key
    Seconds due{0};           ///< the time named to its client, on the engine's clock
    double pace = 0;          ///< from which that was computed; 0: the pace did not decide it
    double work = 0;          ///< steps of full batches
    RequestSpec spec{};       ///< its arrival is `due`
    SloLead lead{}, margin{};
    bool teaches = false; ///< whether its client returns counts in `return_share`
    bool came = false;    ///< since it was told so
    bool here = false;    ///< held by the gate
  };
  /// A digest of what the client asks for.
  [[nodiscard]] static std::uint64_t digest_of(const Generation& newcomer);
  /// Steps of full batches that it needs: `batch_tokens` of its prompt, or `batch` of its answer's tokens, in each.
  [[nodiscard]] static double work_of(const Generation& newcomer, const Limits& limits, double length_share);

  /// Forgets the tickets of clients that did not return. Call before all others.
  void at(Seconds now);
  /// Returns the ticket of a newcomer: the oldest that fits, whose time has come, and whose client is not held. If
  /// there is none, the newcomer is another client (null).
  [[nodiscard]] const Ticket* find(std::uint64_t asks, Seconds now) const;
  /// A ticket's client has returned.
  void came(std::uint64_t number);
  /// It has returned in time and is held.
  void stays(std::uint64_t number);
  /// It was held, and has left without an answer.
  void leaves(std::uint64_t number);
  /// It was admitted. `waited`: since it returned, as a share of its TTFT SLO.
  void admitted(std::uint64_t number, double waited);
  /// It was refused by a forecast, although it returned in time. Call before `keep`.
  void was_told_wrong(std::uint64_t number);
  /// It will never be admitted.
  void forget(std::uint64_t number);

  /// Returns when a newcomer with so much work will find a place: behind those who are expected before number `before`.
  /// If there are none, a ticket's owner waits for its own work to become free. `step_s`: the mean step's time.
  [[nodiscard]] Seconds place_at(double work, std::uint64_t before, Seconds now, double step_s) const;
  /// What is known of a refused newcomer.
  struct Refused {
    std::uint64_t asks = 0;
    std::uint64_t number = after_all; ///< its ticket's; `after_all`: it has none
    double work = 0;                  ///< steps of full batches
    Seconds due{0};                   ///< its client returns then
    bool by_pace = false;             ///< `place_at` found that time
    SloLead margin{};                 ///< that a forecast keeps from its SLO
  };
  /// Keeps a place for a refused newcomer: its own, if it has a ticket. Returns whether there is a place: the room is
  /// not full, and not too many have asked for the same.
  bool keep(const Generation& newcomer, const Refused& refused);
  /// Returns the requests that are expected, in the order of their times: of the tickets before number `before`, those
  /// that are held, now; and of those whose time has not passed, the share that clients were seen to return in, or none
  /// if hardly any does.
  [[nodiscard]] std::vector<Promised> expected(std::uint64_t before, Seconds now) const;

  [[nodiscard]] std::size_t size() const { return tickets_.size(); }
  /// Returns the share of those who were told a time that came back at that time or soon after.
  [[nodiscard]] double return_share() const { return share_; }
  static constexpr double least_pace = 0.1, most_pace = 10;
  /// Returns the work that the engine does in the time of a mean step.
  [[nodiscard]] double pace() const { return pace_; }

 private:
  [[nodiscard]] Ticket* by_number(std::uint64_t number);
  /// Makes room for a ticket of this key that asks for that, if the room is full. Returns whether there is room.
  [[nodiscard]] bool make_room(std::uint64_t salt, std::uint64_t asks);
  void learn(bool came);
  /// Moves the pace by `share` towards `factor` times the one from which a ticket's time was computed, if that is less.
  void slow_down(const Ticket& ticket, double share, double factor);

  std::deque<Ticket> tickets_; ///< by number
  std::uint64_t last_ = 0;
  double share_ = 0.5; ///< of the last tickets' clients
  int seen_ = 1;
  double pace_ = 0.75; ///< low at first: others take the place of a client that was told too late a time
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/waiting_room.inl.hpp"
#endif
