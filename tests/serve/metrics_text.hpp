// SPDX-License-Identifier: Apache-2.0
// metrics_text: an engine's metrics for Prometheus, without the server's labels.
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
