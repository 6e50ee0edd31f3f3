// SPDX-License-Identifier: Apache-2.0
// add_link: --link, how fast the link between the two memories is, the same in every program that has one.
#pragma once

#include "shared/flags.hpp"

#include <string>

/// `place`: bytes a second, and 0 where it is unlimited. `more`: what else there is to say of it.
template <class Place>
void add_link(Flags& flags, Place& place, const std::string& more = "") {
  flags.rate(
      "--link", place, true,
      "bytes a second of the link between the two memories, e.g. 2GB/s, or unlimited: as fast as it is (default)" +
          more);
}
