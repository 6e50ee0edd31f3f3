// SPDX-License-Identifier: Apache-2.0
// LaunchGraphs: sequences of launches that a queue was given before, and the graphs that it has made of them.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/model_runner.hpp"

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::kernels {

/// What a sequence of launches is of. Sequences of one place have the same kernels, as a rule, and often the same
/// parameters: that they have is compared.
struct GraphPlace {
  int layer = 0;
  int rows = 0;              ///< of the iteration, rounded up
  int tiles = 0, merged = 0; ///< of attention, rounded up
  friend auto operator<=>(const GraphPlace&, const GraphPlace&) = default;
};

/// Parameters that a launch of a sequence may have: they can be compared, and are as few as those of a layer's kernels.
template <class Params>
concept RepeatedParams = std::equality_comparable<Params> && std::is_trivially_copyable_v<Params> &&
                         sizeof(Params) <= 192;

/// One launch on a queue, as it can be compared, and done later. Trivially copyable.
template <class Queue>
class Launch {
 public:
  /// `enqueue(queue, params)`, a function for each kernel.
  template <auto enqueue, RepeatedParams Params>
  [[nodiscard]] static Launch of(const Params& params) {
    static_assert(sizeof(Params) <= most_bytes);
    Launch made;
    made.enqueue_ = [](Queue& queue, const Launch& launch) { enqueue(queue, launch.as<Params>()); };
    made.same_ = [](const Launch& a, const Launch& b) { return a.as<Params>() == b.as<Params>(); };
    ::new (static_cast<void*>(made.params_)) Params(params);
    return made;
  }

  void enqueue(Queue& queue) const { enqueue_(queue, *this); }
  /// The same kernel with the same parameters, hence the same grid.
  friend bool operator==(const Launch& a, const Launch& b) { return a.enqueue_ == b.enqueue_ && a.same_(a, b); }

 private:
  static constexpr std::size_t most_bytes = 192;

  Launch() = default;
  template <class Params>
  [[nodiscard]] const Params& as() const {
    return *std::launder(reinterpret_cast<const Params*>(params_));
  }

  void (*enqueue_)(Queue&, const Launch&) = nullptr;
  bool (*same_)(const Launch&, const Launch&) = nullptr;
  alignas(16) std::byte params_[most_bytes] = {};
};

/// Sequences of launches, collected and compared with those of the same place: one that comes for the first time is
/// launched as it is, when it comes for the second a graph is made of it, and from then on that is replayed. **A graph
/// stands for a sequence only if every parameter of every launch is the same**, so that what a graph does is what the
/// launches would have done, by construction, whatever a kernel's parameters are. Comparing takes the host less than
/// one launch.
///
/// Rejected: one graph for all layers, whose kernels' parameters are set anew before each replay
/// (cudaGraphExecKernelNodeSetParams), which costs the host about what the launches do, and cannot be done to the nodes
/// of a library, whose parameters are its secret; and kernels that read the addresses of weights from memory, which the
/// library's cannot either. Why not at once: a kernel's first launch may load its code and a library's first call look
/// for an algorithm, which do not belong in a capture; and many a sequence comes once.
///
/// A place keeps `most_of_place` sequences: weights that stream lie in one of a few slots. One more takes the place of
/// the one that was not asked for in the last `stale` times of that place, which weights that have moved for good leave
/// behind. All places together keep `most`: one more takes the place of the one, of any place, that was not asked for
/// for the longest, if others were `stale_of_all` times since (a server meets ever other numbers of rows and of tiles).
/// Where there is none in either case, the sequence is launched as it is, so that no cycle makes graphs in every step.
///
/// Not checked, and the caller's: before a place is played again the host has waited for what was played there `stale`
/// times before, and for what was played anywhere `stale_of_all` times before.
template <class Queue, std::movable Graph>
class LaunchGraphs {
 public:
  static constexpr std::size_t most_of_place = 4, most = 4096;
  static constexpr std::int64_t stale = 64, stale_of_all = 2 * most;

  [[nodiscard]] bool collects() const { return collects_; }
  /// `enqueue(queue, params)`, now or, where a sequence is collected, as a part of it.
  template <auto enqueue, class Params>
  void launch(Queue& queue, const Params& params) {
    if (!collects_) return enqueue(queue, params);
    if constexpr (RepeatedParams<Params>)
      launches_.push_back(Launch<Queue>::template of<enqueue>(params));
    else
      SLUICE_ASSERT(false, "a kernel that is launched in sequences, whose parameters can be compared");
  }

  /// What `body` launches, on the queue. `capture(launches)` makes a graph, an `Expected<Graph>`: an error, where
  /// graphs cannot be had, is kept in the counts and not tried again. `replay(graph)` enqueues one.
  template <class Body, class Capture, class Replay>
  void play(Queue& queue, const GraphPlace& place, Body&& body, Capture&& capture, Replay&& replay) {
    collect(std::forward<Body>(body));
    if (launches_.empty()) return;
    Known* const known = refused_ ? nullptr : find(places_[place]);
    if (known != nullptr && known->seen > 1 && !known->graph) {
      Expected<Graph> made = capture(std::span<const Launch<Queue>>{launches_});
      if (made) {
        known->graph = *std::move(made);
        ++counts_.made;
      } else {
        refused_ = true;
        counts_.refused = made.error().line();
      }
    }
    if (known == nullptr || !known->graph) {
      ++counts_.launched;
      for (const Launch<Queue>& launch : launches_) launch.enqueue(queue);
      return;
    }
    ++counts_.replayed;
    replay(*known->graph);
  }

  [[nodiscard]] const GraphCounts& counts() const { return counts_; }

 private:
  struct Place;
  struct Known {
    std::vector<Launch<Queue>> launches;
    std::optional<Graph> graph;
    Place* place = nullptr;
    std::int64_t seen = 0, last = 0; ///< how often, and when: by its place's count
    std::int64_t last_of_all = 0;    ///< by the count of all places
  };
  using Order = std::list<Known>; ///< the one that was not asked for for the longest first
  struct Place {
    std::vector<typename Order::iterator> known;
    std::int64_t played = 0;
  };

  template <class Body>
  void collect(Body&& body) {
    launches_.clear();
    collects_ = true;
    body();
    collects_ = false;
  }
  /// The sequence that was collected, among those of its place; null where there is no room for one more.
  Known* find(Place& place) {
    ++place.played;
    ++played_;
    for (const auto one : place.known)
      if (one->launches == launches_) return asked_for(one);
    if (place.known.size() == most_of_place) {
      const auto oldest =
          std::min_element(place.known.begin(), place.known.end(), [](auto a, auto b) { return a->last < b->last; });
      if (place.played - (*oldest)->last <= stale) return nullptr;
      forget(*oldest);
    } else if (known_.size() == most) {
      if (played_ - known_.front().last_of_all <= stale_of_all) return nullptr;
      forget(known_.begin());
    }
    const auto made = known_.insert(known_.end(), Known{launches_, std::nullopt, &place});
    place.known.push_back(made);
    return asked_for(made);
  }
  Known* asked_for(typename Order::iterator one) {
    ++one->seen;
    one->last = one->place->played;
    one->last_of_all = played_;
    known_.splice(known_.end(), known_, one);
    return &*one;
  }
  void forget(typename Order::iterator one) {
    auto& of_place = one->place->known;
    of_place.erase(std::find(of_place.begin(), of_place.end(), one));
    known_.erase(one);
  }

  std::map<GraphPlace, Place> places_;
  Order known_; // of all places
  std::int64_t played_ = 0;
  std::vector<Launch<Queue>> launches_; // of the sequence that is collected
  bool collects_ = false;
  bool refused_ = false;
  GraphCounts counts_;
};

} // namespace sluice::kernels
