// SPDX-License-Identifier: Apache-2.0
// OutputLengths: the last lengths, against a plain list of them.
#include "sluice/core/random.hpp"
#include "sluice/state/view/view.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <vector>

using namespace sluice;

TEST_CASE("the lengths are those of the last requests, sorted") {
  Random random(3);
  OutputLengths lengths;
  std::deque<std::int64_t> last;
  for (std::size_t i = 0; i < 3 * OutputLengths::window; ++i) {
    const auto output = static_cast<std::int64_t>(1 + random.below(300));
    lengths.learn(Tokens{output});
    last.push_back(output);
    if (last.size() > OutputLengths::window) last.pop_front();
    if (i % 37 != 0) continue;
    REQUIRE(lengths.known() == last.size());
    const auto than = static_cast<std::int64_t>(random.below(320));
    std::vector<std::int64_t> longer;
    std::copy_if(last.begin(), last.end(), std::back_inserter(longer), [&](std::int64_t one) { return one > than; });
    std::sort(longer.begin(), longer.end());
    const auto found = lengths.longer_than(Tokens{than});
    CHECK(std::equal(found.begin(), found.end(), longer.begin(), longer.end()));
    if (longer.empty()) continue;
    CHECK(lengths.remaining(Tokens{than}, 0, 1, 7) == static_cast<double>(longer.front() - than));
    CHECK(lengths.remaining(Tokens{than}, 1, 1, 7) == static_cast<double>(longer.back() - than));
    CHECK(lengths.remaining(Tokens{than}, 0.5, last.size() + 1, 7) == 7);
  }
  CHECK(lengths.remaining(Tokens{300}, 0.5, 1, 7) == 7); // none was longer
}
