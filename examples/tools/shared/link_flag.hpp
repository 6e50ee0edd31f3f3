// SPDX-License-Identifier: Apache-2.0
// add_link: adds --link, the rate of the link between the two memories, which is the same in every program that has
// one.
#pragma once

#include "shared/flags.hpp"

#include <string>

/// `place`: bytes per second; 0: unlimited. `more`: appended to the help.
template <class Place>
void add_link(Flags& flags, Place& place, const std::string& more = "") {
  flags.rate(
      "--link", place, true,
      "bytes per second of the link between the two memories, e.g. 2GB/s, or unlimited: the link's own rate (default)" +
          more);
}
