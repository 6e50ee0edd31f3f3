// SPDX-License-Identifier: Apache-2.0
// Numbers: a policy's parameters are read and set by name, whatever their type.
#include "sluice/core/numbers.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace sluice;

namespace {

struct Options {
  double alpha = 1;
};
struct Policy {
  double share = 0.5;
  int turn = 3;
  bool last = true;
  Seconds wait{2.5};
  Tokens chunk{64};
  Options options{};
  static constexpr auto numbers =
      Numbers{"Policy",
              Number{"share", &Policy::share, 0, 1, "a share"},
              Number{"turn", &Policy::turn, 1, 9, "a turn"},
              Number{"last", &Policy::last, 0, 1, "a switch"},
              Number{"wait", &Policy::wait, 0, 60, "seconds"},
              Number{"chunk", &Policy::chunk, 1, 100, "tokens"},
              Number{"alpha", member_of(&Policy::options, &Options::alpha), 0, 2, "a member's member"}};
};
struct Plain {
  double share = 0.5;
};

static_assert(HasNumbers<Policy> && !HasNumbers<Plain>);
static_assert(numbers_name<Policy>() == "Policy" && numbers_name<Plain>().empty());

std::map<std::string, double> values(const Policy& policy) {
  std::map<std::string, double> all;
  Policy::numbers.for_each([&](const auto& number) { all[std::string{number.name}] = number.get(policy); });
  return all;
}

} // namespace

TEST_CASE("a policy's numbers are its members, with their defaults") {
  CHECK(values({}) == std::map<std::string, double>{
                          {"share", 0.5}, {"turn", 3}, {"last", 1}, {"wait", 2.5}, {"chunk", 64}, {"alpha", 1}});
}

TEST_CASE("a number that is set changes its member alone") {
  const std::map<std::string, double> before = values({});
  for (const auto& one : before) {
    const std::string name = one.first;
    Policy policy;
    Policy::numbers.for_each([&](const auto& number) {
      if (number.name == name) number.set(policy, number.least);
    });
    for (const auto& [other, value] : values(policy)) CHECK((value == before.at(other)) == (other != name));
  }
}

TEST_CASE("whole numbers and switches are known as such") {
  std::map<std::string, bool> whole;
  Policy::numbers.for_each(
      [&](const auto& number) { whole[std::string{number.name}] = number.template whole<Policy>; });
  CHECK(whole ==
        std::map<std::string, bool>{
            {"share", false}, {"turn", true}, {"last", true}, {"wait", false}, {"chunk", true}, {"alpha", false}});
}
