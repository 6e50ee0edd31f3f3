// SPDX-License-Identifier: Apache-2.0
// Connections in plain HTTP.
#include "serve/front_of.hpp"

#include <memory>

namespace serving {

std::unique_ptr<Front> plain_front(const Options& options) {
  return std::make_unique<FrontOf<sluice::PlainHttp>>(options, sluice::PlainHttp{});
}

} // namespace serving
