// SPDX-License-Identifier: Apache-2.0
// Outlook: what a gate sees of a server: its engine, how promises are kept so far, and copies that look ahead.
#pragma once

#include "sluice/engine/fork.hpp"
#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/feed_relay.hpp"
#include "sluice/serve/kept_promises.hpp"

#include <functional>

namespace sluice {

/// How a forecast corrects what models and bounds say, by what was measured.
struct Correction {
  double slowdown = 1;     ///< of iterations, beside what the copies' world says
  double length_share = 1; ///< that answers come to, of what they may
};

/// Where copies of engine `E` run: a world of its own for a copy of the engine that is given, from that engine's
/// present on. The world may end answers as early as the correction says; who steps the copy slows it down. Null:
/// copies cannot run.
template <class E>
using WorldAhead = std::function<typename E::backend_type(const E&, const Correction&)>;

/// Valid for the length of a gate's answer, between two steps of the engine.
template <class E>
class Outlook {
 public:
  using Observers = typename E::observer_values;

  /// `arrival`: the newcomer's. `observers`: of copies; they tell `relay`.
  Outlook(const E& engine, Seconds arrival, const Correction& correction, const EngineFigures& figures,
          const WorldAhead<E>& world, const Observers& observers, FeedRelay& relay, double looked_s)
      : engine_(&engine),
        arrival_(arrival),
        correction_(correction),
        figures_(&figures),
        world_(&world),
        observers_(&observers),
        relay_(&relay),
        looked_s_(looked_s) {}

  /// The engine as it is, without the newcomer.
  [[nodiscard]] const E& engine() const { return *engine_; }
  /// When the newcomer came: maybe while the last step ran.
  [[nodiscard]] Seconds arrival() const { return arrival_; }
  /// How the promises to a live request are kept so far; null: not known.
  [[nodiscard]] const KeptPromises* promises(RequestId id) const { return figures_->promises(id); }

  [[nodiscard]] const Correction& correction() const { return correction_; }

  /// What gates have taken of the engine's thread since its last step, for newcomers before this one: seconds, during
  /// which no stream got a token.
  [[nodiscard]] double looked_s() const { return looked_s_; }
  [[nodiscard]] bool looks_ahead() const { return *world_ != nullptr; }
  /// A copy of `from`, which is the engine or a copy of it, in a world of its own.
  [[nodiscard]] E fork(const E& from) const { return from.fork((*world_)(from, correction_), *observers_); }
  /// Whom copies tell what they do, from now on; null: nobody.
  void hear(FeedListener* listener) const { relay_->hear(listener); }

 private:
  const E* engine_;
  Seconds arrival_;
  Correction correction_;
  const EngineFigures* figures_;
  const WorldAhead<E>* world_;
  const Observers* observers_;
  FeedRelay* relay_;
  double looked_s_;
};

} // namespace sluice
