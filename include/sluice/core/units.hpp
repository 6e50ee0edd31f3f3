// SPDX-License-Identifier: Apache-2.0
// Units: seconds, bytes, tokens and the two kinds of block, as distinct types; a request's id and its row's index.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// A number with a unit: `Tag` is the unit, `Rep` the type of the count.
///
/// Quantities of one unit add, subtract, compare, and divide to a plain ratio; a plain number scales a quantity. Units
/// never convert implicitly; the few meaningful products (bytes over a rate is a time) are defined below.
///
/// Rejected: a dimensional-analysis library. Sluice has eight units and six products, and needs only that a layer block
/// is never mistaken for a token block; a tag ensures that.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;

  constexpr Quantity() = default;

  /// Explicit for integers from any integer and for doubles from any number: `Tokens{16}`, `Seconds{1}`.
  template <class Number>
    requires std::integral<Number> || std::same_as<Number, Rep> ||
        (std::floating_point<Rep>&& std::floating_point<Number>)explicit constexpr Quantity(Number count)
        : count_(static_cast<Rep>(count)) {}

    [[nodiscard]] constexpr Rep count() const { return count_; }

    friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;

    constexpr Quantity& operator+=(Quantity other) {
      count_ += other.count_;
      return *this;
    }
    constexpr Quantity& operator-=(Quantity other) {
      count_ -= other.count_;
      return *this;
    }
    friend constexpr Quantity operator+(Quantity a, Quantity b) {
      return Quantity{static_cast<Rep>(a.count_ + b.count_)};
    }
    friend constexpr Quantity operator-(Quantity a, Quantity b) {
      return Quantity{static_cast<Rep>(a.count_ - b.count_)};
    }
    friend constexpr Quantity operator-(Quantity a) { return Quantity{static_cast<Rep>(-a.count_)}; }
    friend constexpr Quantity operator*(Quantity a, Rep factor) {
      return Quantity{static_cast<Rep>(a.count_ * factor)};
    }
    friend constexpr Quantity operator*(Rep factor, Quantity a) {
      return Quantity{static_cast<Rep>(a.count_ * factor)};
    }
    friend constexpr Quantity operator/(Quantity a, Rep divisor) {
      return Quantity{static_cast<Rep>(a.count_ / divisor)};
    }
    /// The plain ratio of two quantities of one unit (integers divide as integers).
    friend constexpr Rep operator/(Quantity a, Quantity b) { return static_cast<Rep>(a.count_ / b.count_); }

   private:
    Rep count_{};
};

namespace units {
struct SecondsTag;
struct BytesTag;
struct TokensTag;
struct LayerBlocksTag;
struct TokenBlocksTag;
struct FlopsTag;
struct BytesPerSecondTag;
struct FlopsPerSecondTag;
} // namespace units

using Seconds = Quantity<units::SecondsTag, double>;
using Bytes = Quantity<units::BytesTag, std::int64_t>;
using Tokens = Quantity<units::TokensTag, std::int64_t>;
/// K and V of `block_tokens` tokens of one request in *one layer*. Plans count these.
using LayerBlocks = Quantity<units::LayerBlocksTag, std::int64_t>;
/// The same tokens in *all layers*. Servers report these, and `--kv-blocks` takes them.
using TokenBlocks = Quantity<units::TokenBlocksTag, std::int64_t>;
using Flops = Quantity<units::FlopsTag, double>;
using BytesPerSecond = Quantity<units::BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<units::FlopsPerSecondTag, double>;

/// Time to move `bytes` at `rate`.
constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return Seconds{static_cast<double>(bytes.count()) / rate.count()};
}
/// Time to do `work` at `rate`.
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) { return Seconds{work.count() / rate.count()}; }

/// The blocks for `tokens`, the last one possibly partial: ceil(tokens / block_tokens).
constexpr TokenBlocks blocks_for(Tokens tokens, Tokens block_tokens) {
  return TokenBlocks{(tokens.count() + block_tokens.count() - 1) / block_tokens.count()};
}
/// One token block is one layer block of each of `layers` layers.
constexpr LayerBlocks across_layers(TokenBlocks blocks, int layers) { return LayerBlocks{blocks.count() * layers}; }

// Ids: a request's identity, and the index of its row.

/// A request of the workload, in the order of arrival: stable from submission to the report.
enum class RequestId : std::uint32_t {};

/// The index of a live request's row in the engine's table; reused after the request ends.
enum class Slot : std::uint32_t {};

constexpr std::uint32_t index(RequestId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t index(Slot slot) { return static_cast<std::uint32_t>(slot); }

} // namespace sluice
