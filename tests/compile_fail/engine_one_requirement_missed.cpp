// SPDX-License-Identifier: Apache-2.0
// A policy without one of its hooks: one message, and none from the later use of that engine.
// sentences: 1
// says: this Retention policy needs .Kept on_reclaim\(const View&, const RequestRow&\) const.
#include "sluice/engine/engine.hpp"

struct Keep {
  using role = sluice::roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;
  sluice::Kept on_preempt(const sluice::View&, const sluice::RequestRow&) const { return sluice::Kept::device; }
#ifdef GOOD
  sluice::Kept on_reclaim(const sluice::View&, const sluice::RequestRow&) const { return sluice::Kept::host; }
#endif
};

using E = sluice::Engine<Keep, sluice::AllResident>;

sluice::Seconds use(E& engine) {
  (void)engine.submit(sluice::RequestSpec{});
  if (engine.step() == sluice::Stepped::idle) engine.idle_until(engine.now());
  const sluice::View view = engine.view();
  const sluice::Plan& plan = engine.plan();
  return engine.now() + plan.predicted_step + view.now;
}
