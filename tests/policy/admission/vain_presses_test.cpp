// SPDX-License-Identifier: Apache-2.0
// VainPresses: a claim that changed nothing is not made again until the batch changes.
#include "sluice/policy/admission/pressing.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Two requests that run and two that wait, after one of the latter has pressed on the first.
struct Pressed {
  HandMade made;
  Slot pays = made.decoding(Tokens{10}, Tokens{10}, Tokens{90}),
       other = made.decoding(Tokens{10}, Tokens{10}, Tokens{90});
  Slot comes = made.add(Tokens{5}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting),
       next = made.add(Tokens{5}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
  VainPresses vain;

  Pressed() {
    vain.look_back(made.view());
    vain.pressed(made.view(), comes, pays);
    ++made.step;
  }
  bool in_vain(Slot one, Slot on) { return vain.in_vain(made.rows[index(one)], made.rows[index(on)]); }
};

} // namespace

TEST_CASE("the same request presses on the same payer in vain until the batch changes") {
  Pressed one;
  one.vain.look_back(one.made.view());
  CHECK(one.in_vain(one.comes, one.pays));
  CHECK_FALSE(one.in_vain(one.comes, one.other));
  CHECK(one.in_vain(one.next, one.pays)); // it is as large
  one.vain.pressed(one.made.view(), one.next, one.pays);
  ++one.made.step;
  one.vain.look_back(one.made.view()); // both are known now
  CHECK(one.in_vain(one.comes, one.pays));
  CHECK(one.in_vain(one.next, one.pays));
  ++one.made.step;
  SUBCASE("one leaves") { one.made.running.pop_back(); }
  SUBCASE("one leaves and another joins") {
    one.made.running.erase(one.made.running.begin() + 1);
    one.made.decoding(Tokens{10}, Tokens{10}, Tokens{90});
  }
  one.vain.look_back(one.made.view());
  CHECK_FALSE(one.in_vain(one.comes, one.pays));
  CHECK_FALSE(one.in_vain(one.next, one.pays));
}

TEST_CASE("on a payer that was too small for one, larger requests press in vain too, and smaller ones may not") {
  Pressed one;
  one.vain.look_back(one.made.view());
  one.made.rows[index(one.next)].spec.prompt = Tokens{6};
  CHECK(one.in_vain(one.next, one.pays));
  one.made.rows[index(one.next)].spec.prompt = Tokens{4};
  CHECK_FALSE(one.in_vain(one.next, one.pays));
}

TEST_CASE("a claim was not in vain for good if somebody left in its iteration") {
  Pressed one;
  one.made.running.pop_back();
  one.vain.look_back(one.made.view());
  CHECK_FALSE(one.in_vain(one.comes, one.pays));
}

TEST_CASE("a claim that was met, or whose proposal was discarded, was not in vain") {
  Pressed one;
  SUBCASE("it joined beside the payer") { one.made.rows[index(one.comes)].phase = Phase::running; }
  SUBCASE("the payer paid") { one.made.rows[index(one.pays)].phase = Phase::preempted; }
  SUBCASE("it has ended") { one.made.rows[index(one.comes)].phase = Phase::ended; }
  SUBCASE("its row has another request") { one.made.rows[index(one.comes)].id = RequestId{77}; }
  SUBCASE("the payer's row has another request") { one.made.rows[index(one.pays)].id = RequestId{77}; }
  SUBCASE("no iteration ran") { --one.made.step; }
  one.vain.look_back(one.made.view());
  CHECK_FALSE(one.in_vain(one.comes, one.pays));
}
