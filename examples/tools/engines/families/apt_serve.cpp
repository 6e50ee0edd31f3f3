// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/apt_serve.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System apt_serve() {
  return entry<sluice::AptServe>("AptServe", "K and V or hidden states on the device, by pending time per block");
}

} // namespace engines
