// SPDX-License-Identifier: Apache-2.0
#include "sluice/state/view/request_row.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <type_traits>

using namespace sluice;

namespace {

struct Oracle {
  static constexpr bool knows_lengths = true;
  static LengthPermit<Oracle> permit() { return {}; }
};
struct Blind {
  static constexpr bool knows_lengths = false;
};
struct Silent {};
static_assert(KnowsLengths<Oracle> && !KnowsLengths<Blind> && !KnowsLengths<Silent>);

// Hiding costs nothing, and a full spec is not had by a conversion.
static_assert(sizeof(KnownSpec) == sizeof(RequestSpec) && std::is_trivially_copyable_v<KnownSpec>);
static_assert(std::is_empty_v<LengthPermit<Oracle>> && !std::is_default_constructible_v<LengthPermit<Oracle>>);
static_assert(!std::is_convertible_v<KnownSpec, RequestSpec> &&
              !std::is_convertible_v<const KnownSpec&, const RequestSpec&>);

} // namespace

TEST_CASE("a KnownSpec is the request without its length, which a permit shows and a client's bound says") {
  RequestSpec spec{.arrival = Seconds{3},
                   .prompt = Tokens{70},
                   .output = Tokens{90},
                   .slo = {Seconds{5}, Seconds{0.1}},
                   .priority = 2,
                   .session = 7,
                   .turn = 4,
                   .follows = true,
                   .delay = Seconds{1}};
  RequestRow row;
  row.spec = spec;
  row.generated = Tokens{30};
  CHECK(row.spec.arrival == spec.arrival);
  CHECK(row.spec.prompt == spec.prompt);
  CHECK(row.spec.slo == spec.slo);
  CHECK(row.spec.priority == 2);
  CHECK(row.spec.session == 7);
  CHECK(row.spec.turn == 4);
  CHECK(row.spec.follows);
  CHECK(row.spec.delay == spec.delay);
  CHECK_FALSE(row.spec.output_bound().has_value());
  CHECK(row.output(Oracle::permit()) == Tokens{90});
  CHECK(row.remaining(Oracle::permit()) == Tokens{60});
  CHECK(row.spec.whole(not_a_policy) == spec);

  row.hides_length = true;
  CHECK_THROWS_AS((void)row.remaining(Oracle::permit()), std::domain_error);
  CHECK(row.remaining(not_a_policy) == Tokens{60});

  spec.output_is_bound = true;
  row.spec = spec;
  CHECK(row.spec.output_bound() == Tokens{90});
}
