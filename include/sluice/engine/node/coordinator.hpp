// SPDX-License-Identifier: Apache-2.0
// Coordinator: the concept of the role that says which part of the shared resources each engine of a node may use.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/weights/weights.hpp"

#include <concepts>
#include <cstddef>
#include <limits>
#include <span>

namespace sluice {

namespace roles {
struct Coordinator; ///< of a node: which levels its engines take, and which engine lends memory to which
struct Sharing;     ///< of a node: which of its engines may run
} // namespace roles

/// What a coordinator knows about an engine.
struct Member {
  std::span<const WeightsLevel> levels; ///< offered when its weights were last asked, the preferred first
  BatchNeeds batch;                     ///< while the engine asks: the batch that it would like
  LayerBlocks own{0}; ///< KV memory with all weights resident; negative: the weights exceed the device
  Bytes layer_weight_bytes{0};
  Bytes block_bytes{0};    ///< of a layer block of KV
  BytesPerSecond link{0};  ///< the engine's own lane to the device, alone on the bus
  bool alive = false;      ///< the engine has requests
  bool inactive = false;   ///< it is another engine's turn (temporal sharing)
  Seconds active_until{0}; ///< when the engine was last active
  int priority = 0;        ///< the engine with the lowest gives its memory first
  int lendable = 0;        ///< layers whose memory the engine can do without until its turn
  int lent = 0;            ///< how many of these others and its own KV have now
};

/// Grants any level, and lends nothing.
struct Uncoordinated {
  using role = roles::Coordinator;
  static constexpr bool lends = false;
  static constexpr bool grants = false;

  void lend(std::span<const Member> /*members*/, std::size_t /*asks*/, Bytes /*missing*/,
            std::span<int> /*layers*/) const {}
  [[nodiscard]] int grant(std::span<const Member> /*members*/, std::size_t /*asks*/) const {
    return std::numeric_limits<int>::max();
  }
};

/// `P` says whether it lends and whether it grants.
template <class P>
concept SaysWhatItDoes = requires {
  requires std::convertible_to<decltype(P::lends), bool> && std::convertible_to<decltype(P::grants), bool>;
};

/// `P` lends memory of layers.
template <class P>
concept LendsMemory = requires(const P& policy, std::span<const Member> members, std::span<int> layers) {
  requires std::same_as<decltype(policy.lend(members, std::size_t{0}, Bytes{0}, layers)), void>;
};

/// `P` grants levels.
template <class P>
concept GrantsLevels = requires(const P& policy, std::span<const Member> members) {
  requires std::same_as<decltype(policy.grant(members, std::size_t{0})), int>;
};

/// Which part of the shared resources each engine of a node may use.
///
///  1. `P::role` is `roles::Coordinator`.
///  2. `P::lends` and `P::grants` say whether the policy lends and whether it grants. A node calls only those hooks.
///  3. `lend(members, asks, missing, layers)`: the engine `asks` is about to decide, and its KV would take `missing`
///     bytes more than its own memory; negative: that much less. `layers[i]` is how many layers' memory the engine has
///     of engine i; the policy changes `layers`.
///  4. `grant(members, asks)`: the highest level that the engine may then take (`WeightsPlan::level`); -1: none of the
///     levels that it offered.
///
/// Requirements that are not checked: `layers[i]` is at least 0, and together with what others have of engine i at most
/// `lendable`, unless the policy does not raise it; no memory of an active engine is taken.
template <class P>
concept Coordinator = PlaysRole<P, roles::Coordinator> && SaysWhatItDoes<P> && LendsMemory<P> && GrantsLevels<P>;

template <>
struct Contract<roles::Coordinator> {
  template <class P>
  static constexpr bool met = Coordinator<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(SaysWhatItDoes<P>,
                  "sluice: this Coordinator needs `static constexpr bool lends` and `grants`: what it "
                  "does not do is not asked");
    static_assert(LendsMemory<P>,
                  "sluice: this Coordinator needs `void lend(std::span<const Member>, std::size_t asks, "
                  "Bytes missing, std::span<int> layers) const`");
    static_assert(GrantsLevels<P>,
                  "sluice: this Coordinator needs `int grant(std::span<const Member>, std::size_t asks) "
                  "const`");
    return true;
  }
};

static_assert(Coordinator<Uncoordinated>);

} // namespace sluice
