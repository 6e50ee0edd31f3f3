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

TEST_CASE("when the user has all tokens: with the last one, or one per TBT SLO from the deposit") {
  RequestRow row;
  row.spec.slo.tbt = Seconds{0.5};
  row.generated = row.delivered = Tokens{7};
  row.last_token = Seconds{3};
  CHECK(all_delivered_at(row) == Seconds{3}); // a Delivery that holds nothing back
  row.last_delivery = Seconds{4};
  CHECK(all_delivered_at(row) == Seconds{4}); // the deposit's last token was due later
  row.due = Seconds{4.5};
  for (const int deposit : {1, 2, 6}) {
    CAPTURE(deposit);
    row.delivered = row.generated - Tokens{deposit};
    CHECK(all_delivered_at(row) == Seconds{4.5 + 0.5 * (deposit - 1)});
  }
}
