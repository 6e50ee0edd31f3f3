// SPDX-License-Identifier: Apache-2.0
// KernelQueue: the stream on which a decoder's kernels are launched. LaunchGraphs: the graphs of repeated launches.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/model_runner.hpp"

#include "kernels/families.hpp"

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

// LaunchGraphs: remembers sequences of launches, and the graphs made of them.

/// Identifies the origin of a sequence of launches. Sequences of one place usually have the same kernels, and often the
/// same parameters, which are compared.
struct GraphPlace {
  int layer = 0;             ///< the first
  int rows = 0;              ///< of the iteration, rounded up
  int tiles = 0, merged = 0; ///< of attention, rounded up
  friend auto operator<=>(const GraphPlace&, const GraphPlace&) = default;
};

/// Parameters that a launch in a sequence may have: comparable, and no larger than those of a layer's kernels.
template <class Params>
concept RepeatedParams = std::equality_comparable<Params> && std::is_trivially_copyable_v<Params> &&
                         sizeof(Params) <= 192;

/// One launch on a queue, which can be compared, and executed later. Trivially copyable.
template <class Queue>
class Launch {
 public:
  /// `enqueue(queue, params)` is a separate function for each kernel.
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

/// Collects sequences of launches and compares each with earlier ones of the same place. A new sequence is launched
/// kernel by kernel; at its second occurrence it becomes a graph, which is replayed from then on. **A graph replaces a
/// sequence only if every parameter of every launch is the same**, so by construction the graph does what the launches
/// would have done, for any kernel parameters. The comparison takes the host less time than one launch.
///
/// Rejected: graphs with new kernel parameters before each replay (cudaGraphExecKernelNodeSetParams), which costs the
/// host about as much as the launches, and is impossible for a library's nodes, whose parameters are not public; and
/// kernels that read the weights' addresses from memory, which a library's kernels cannot do either. The first
/// occurrence makes no graph because a kernel's first launch may load its code, and a library's first call may search
/// for an algorithm, which do not belong in a capture; and many sequences occur only once.
///
/// For each place `most_of_place` sequences are kept, since streamed weights are in one of a few slots. A further one
/// replaces a sequence that did not occur in the last `stale` sequences of that place (weights that have moved for good
/// leave such sequences behind). All places together keep `most` launches: a further sequence replaces those that have
/// not occurred for the longest time, if at least `stale_of_all` launches of others have been given since (a server
/// meets ever new numbers of rows and tiles). If no sequence can be replaced, the new one is launched kernel by kernel,
/// so that no cycle makes graphs in every step.
///
/// Not checked: before the caller gives a place's sequence again, the host must have waited for the place's sequence
/// `stale` times before, and for all work `stale_of_all` launches before.
template <class Queue, std::movable Graph>
class LaunchGraphs {
 public:
  static constexpr std::size_t most_of_place = 4; ///< sequences
  static constexpr std::size_t most = 1 << 16;    ///< launches
  static constexpr std::int64_t stale = 64, stale_of_all = 2 * most;

  [[nodiscard]] bool collects() const { return collects_; }
  /// Adds the launches of `body` to the open sequence, or opens one at `place`.
  template <class Body>
  void add(const GraphPlace& place, Body&& body) {
    if (launches_.empty()) place_ = place;
    collects_ = true;
    std::forward<Body>(body)();
    collects_ = false;
  }
  /// In `add`'s body, adds a launch to the sequence. Elsewhere calls `enqueue(queue, params)`, behind the open
  /// sequence.
  template <auto enqueue, class Params>
  void launch(Queue& queue, const Params& params) {
    if (!collects_) {
      give(queue);
      return enqueue(queue, params);
    }
    if constexpr (RepeatedParams<Params>)
      launches_.push_back(Launch<Queue>::template of<enqueue>(params));
    else
      SLUICE_ASSERT(false, "a kernel that is launched in sequences, whose parameters can be compared");
  }

  /// Enqueues the open sequence, if there is one. `queue.captured(launches)` returns an `Expected<Graph>`: its error
  /// (graphs are not available) is kept in the counts, and capturing is not tried again. `queue.replay(graph)` enqueues
  /// a graph.
  void give(Queue& queue) {
    if (launches_.empty()) return;
    play(queue);
    launches_.clear();
  }

  [[nodiscard]] const GraphCounts& counts() const { return counts_; }

 private:
  struct Place;
  struct Known {
    std::vector<Launch<Queue>> launches;
    std::optional<Graph> graph;
    Place* place = nullptr;
    std::int64_t seen = 0, last = 0; ///< how often it occurred, and when last, by its place's count
    std::int64_t last_of_all = 0;    ///< by the count of all launches
  };
  using Order = std::list<Known>; ///< least recently used first
  struct Place {
    std::vector<typename Order::iterator> known;
    std::int64_t played = 0;
  };

  void play(Queue& queue) {
    Known* const known = refused_ ? nullptr : find(places_[place_]);
    if (known != nullptr && known->seen > 1 && !known->graph) {
      Expected<Graph> made = queue.captured(std::span<const Launch<Queue>>{launches_});
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
    queue.replay(*known->graph);
  }

  /// Finds the open sequence among those of its place, or adds it; null if there is no room.
  Known* find(Place& place) {
    ++place.played;
    played_ += static_cast<std::int64_t>(launches_.size());
    for (const auto one : place.known)
      if (one->launches == launches_) return asked_for(one);
    if (place.known.size() == most_of_place) {
      const auto oldest =
          std::min_element(place.known.begin(), place.known.end(), [](auto a, auto b) { return a->last < b->last; });
      if (place.played - (*oldest)->last <= stale) return nullptr;
      forget(*oldest);
    }
    while (kept_ + launches_.size() > most) {
      if (known_.empty() || played_ - known_.front().last_of_all <= stale_of_all) return nullptr;
      forget(known_.begin());
    }
    kept_ += launches_.size();
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
    kept_ -= one->launches.size();
    known_.erase(one);
  }

  std::map<GraphPlace, Place> places_;
  Order known_;                         // of all places
  std::int64_t played_ = 0;             // launches
  std::size_t kept_ = 0;                // launches of the known sequences
  std::vector<Launch<Queue>> launches_; // of the open sequence
  GraphPlace place_;                    // of the open sequence
  bool collects_ = false;
  bool refused_ = false;
  GraphCounts counts_;
};

// KernelQueue: the stream on which a decoder's kernels are launched: a GPU's, or the emulator's.

/// The purpose of a host's wait. A queue waits in the same way for both; they are distinguished so that a test can
/// leave one out and check that this is detected.
enum class QueueWait : std::uint8_t {
  results, ///< the host reads data that a copy has brought down
  reuse    ///< the host overwrites data that a copy reads
};

/// Pinned host memory, which a device can copy from and to by itself. The destructor frees it.
template <class M>
concept HostMemory = std::movable<M> && std::default_initializable<M> && requires(const M& memory) {
  { memory.data() } -> std::same_as<std::byte*>;
  { memory.size() } -> std::same_as<std::size_t>;
};

/// Executes its work in order, while the host continues.
///
///  1. `launch<config>(params)` enqueues the kernel `KernelFamily<Config>::Kernel<config>` over the grid that the
///     parameters need, and copies the parameters at once. The emulator instantiates the kernel; for a GPU's queue,
///     kernels/configs.cmake must list the configuration, so that nvcc compiles it.
///  2. `copy(to, from, bytes)` enqueues a copy, up, down or within the device.
///  3. `record()` returns a ticket for all work enqueued before; `wait(ticket, why)` blocks the host until that is
///     done. A ticket that was never recorded counts as done.
///  4. `host(bytes)`: memory that such a copy may read or write. With zero bytes it is empty.
///  5. `multiply(call)` enqueues a product by a library, whose rows may depend on their number (`Products::fast`).
///     Before the first, `lend(room)` gives the queue device memory that the library may use as workspace.
///  6. `graph(place, body)` holds the launches and products of `body` back until `give()`, or until anything else is
///     enqueued or recorded. Bodies that follow each other directly are one sequence, enqueued kernel by kernel, or as
///     the graph made of an earlier sequence that was the same (LaunchGraphs). `body` may not copy, record or wait.
///     `graph_counts()` returns how many were enqueued in each way.
///
/// A device error stays in the queue until its owner asks for it; later work is not executed, and waits return.
///
/// Not checked: the caller must not change host memory until the copy that reads it is done.
template <class Q>
concept KernelQueue = std::default_initializable<typename Q::Ticket> && HostMemory<typename Q::Memory> &&
    requires(Q& queue, const typename Q::Ticket& ticket, void* to, const void* from, std::size_t bytes,
             const PlaceParams& params, const ProductCall& call, std::span<std::byte> room, const GraphPlace& place,
             void (*body)()) {
  queue.template launch<PlaceConfig{}>(params);
  queue.copy(to, from, bytes);
  { queue.record() } -> std::same_as<typename Q::Ticket>;
  queue.wait(ticket, QueueWait::results);
  { queue.host(bytes) } -> std::same_as<typename Q::Memory>;
  queue.lend(room);
  queue.multiply(call);
  queue.graph(place, body);
  queue.give();
  { std::as_const(queue).graph_counts() } -> std::convertible_to<GraphCounts>;
};

} // namespace sluice::kernels
