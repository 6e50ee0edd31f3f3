// SPDX-License-Identifier: Apache-2.0
// metrics_text: what an engine writes of itself for Prometheus, without labels of a server.
#pragma once

#include "sluice/serve/prometheus.hpp"

#include <string>

namespace sluice::testing {

[[nodiscard]] std::string metrics_text(auto&& engine) {
  std::string text;
  PrometheusWriter to(text, {});
  engine.metrics(to);
  return text;
}

} // namespace sluice::testing
