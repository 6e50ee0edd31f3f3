// SPDX-License-Identifier: Apache-2.0
// AnyTimeline: a timeline sink for the evaluator, with its type erased.
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"

#include <concepts>
#include <type_traits>

namespace sluice {

/// Points to another sink, which must outlive it. A rule writes its timeline to this type only (`walk_told`), so its
/// loop is compiled twice, once with a timeline and once without, for all observers' sinks; and in a library once per
/// program, even for sinks that the library does not know.
class AnyTimeline {
 public:
  static constexpr bool enabled = true;

  template <class Sink>
    requires(!std::same_as<std::remove_const_t<Sink>, AnyTimeline>)
  explicit AnyTimeline(Sink& sink)
      : sink_(const_cast<void*>(static_cast<const void*>(&sink))),
        layer_([](void* to, int layer, double start_s, double end_s, double stall_s, StallCause cause) {
          static_cast<Sink*>(to)->layer(layer, start_s, end_s, stall_s, cause);
        }),
        transfer_([](void* to, int stream, int layer, double start_s, double end_s) {
          static_cast<Sink*>(to)->transfer(stream, layer, start_s, end_s);
        }) {
    if constexpr (WatchesLink<Sink>)
      link_ = [](void* to, double begin_s, double end_s) { static_cast<Sink*>(to)->link(begin_s, end_s); };
  }

  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    layer_(sink_, layer, start_s, end_s, stall_s, cause);
  }
  void transfer(int stream, int layer, double start_s, double end_s) {
    transfer_(sink_, stream, layer, start_s, end_s);
  }
  void link(double begin_s, double end_s) {
    if (link_ != nullptr) link_(sink_, begin_s, end_s);
  }

 private:
  void* sink_;
  void (*layer_)(void*, int, double, double, double, StallCause);
  void (*transfer_)(void*, int, int, double, double);
  void (*link_)(void*, double, double) = nullptr; ///< null: the sink does not watch the link
};

namespace detail {

/// Calls `walk` with an AnyTimeline of the sink if the sink wants a timeline, otherwise with NoTimeline.
template <class Sink, class Walk>
StepCost walk_told([[maybe_unused]] Sink& sink, Walk&& walk) {
  if constexpr (Sink::enabled) {
    AnyTimeline told{sink};
    return walk(told);
  } else {
    NoTimeline nothing;
    return walk(nothing);
  }
}

} // namespace detail

} // namespace sluice
