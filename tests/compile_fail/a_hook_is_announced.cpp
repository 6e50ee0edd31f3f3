// SPDX-License-Identifier: Apache-2.0
// The library never detects which of a role's hooks a policy has: each missing declaration is an error message.
// sentences: 8
// says: this Retention policy needs .static constexpr bool keeps_hidden = false;. .true if it answers Kept::hidden
// says: this Retention policy needs .static constexpr bool copies_ahead = false;.
// says: this Weights policy needs .static constexpr bool promises = false;.
// says: this Weights policy needs .static constexpr bool lends = false;.
// says: this Backend needs .static constexpr bool real_time = false;.
// says: this Backend needs .static constexpr bool ends_requests = false;.
// says: this Backend needs .static constexpr bool plans_async = false;.
// says: this Backend needs .static constexpr bool predicts = false;.
#include "sluice/policy/retention/retention.hpp"
#include "sluice/policy/weights/weights.hpp"
#include "sluice/world/backend.hpp"

using namespace sluice;

struct Keep {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
#ifdef GOOD
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = true;
#endif
  Kept on_preempt(const View&, const RequestRow&) const { return Kept::device; }
  Kept on_reclaim(const View&, const RequestRow&) const { return Kept::host; }
  LayerBlocks copy_ahead(const View&, LayerBlocks idle) const { return idle; }
};
static_assert(explain<Keep>());

struct Stay {
  using role = roles::Weights;
  struct State {};
#ifdef GOOD
  static constexpr bool promises = false;
  static constexpr bool lends = false;
#endif
  template <class Task>
  void offer(const Task&, State&, std::vector<WeightsLevel>&) const {}
  LayerBlocks most_freed(const Geometry&) const { return LayerBlocks{0}; }
};
static_assert(explain<Stay>());

struct Clock {
  using role = roles::Backend;
  static constexpr bool keeps_requests = false;
#ifdef GOOD
  static constexpr bool real_time = false;
  static constexpr bool ends_requests = false;
  static constexpr bool plans_async = false;
  static constexpr bool predicts = false;
#endif
  Seconds now() const { return Seconds{0}; }
  void idle_until(Seconds) {}
  template <class Transfer>
  void launch(const Iteration&) {}
  template <class Transfer>
  IterationCost wait(const Iteration&, typename Transfer::State&) {
    return {};
  }
  template <class Transfer, class Sink>
  void replay(const Iteration&, typename Transfer::State&, Sink&&) {}
};
static_assert(explain<Clock>());
