// SPDX-License-Identifier: Apache-2.0
#include "sluice/state/view/request_row.hpp"

#include <doctest/doctest.h>

using namespace sluice;

TEST_CASE("the host attends one token of a request that has no other to compute") {
  RequestRow row;
  row.spec.prompt = Tokens{20};
  for (const bool attended : {false, true})
    for (const int pending : {1, 2, 5})
      for (const int computed : {0, 1, 2}) {
        CAPTURE(attended);
        CAPTURE(pending);
        CAPTURE(computed);
        row.holding.attended_on_host = attended;
        row.computed = Tokens{20 - pending};
        // With more, the device computes them, also one by one.
        CHECK(is_hosted(row, Tokens{computed}) == (attended && pending == 1 && computed == 1));
      }
}
