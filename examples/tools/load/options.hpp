// SPDX-License-Identifier: Apache-2.0
// Options: the flags of sluice-load.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "shared/trace_options.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace loading {

/// "http://127.0.0.1:8080/prefix", in parts.
struct Url {
  std::string host, port;
  std::string prefix; ///< of every path; empty, or with a slash before and none behind
  bool tls = false;
  [[nodiscard]] std::string authority() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
  }
};

struct Options : TraceOptions {
  std::string url = "http://127.0.0.1:8080";
  Url address; ///< `url`, read by `check_options`
  std::string model, api_key;
  std::string endpoint = "completions";
  std::string generate, prompt_text, json, out;
  std::optional<std::int64_t> limit, max_tokens;
  std::optional<double> rate_scale, step_time;
  std::string cacert; ///< a file; empty: the system's certificates
  std::int64_t concurrency = 4096;
  std::int64_t seed = 1; ///< the others', so that one text is one workload
  double temperature = 0;
  double leave = 0, slow = 0; ///< shares of the requests
  double timeout = 600;       ///< seconds
  double slo_ttft = std::numeric_limits<double>::infinity();
  double slo_tbt = std::numeric_limits<double>::infinity();
  std::vector<sluice::SloClass> slo_classes;
  bool count_tokens = false, standard = false, quiet = false, insecure = false;
  bool closed_loop = false, has_concurrency = false;

  [[nodiscard]] bool chat() const { return endpoint == "chat"; }
  [[nodiscard]] sluice::Slo slo() const { return {sluice::Seconds{slo_ttft}, sluice::Seconds{slo_tbt}}; }
};

/// Nothing: go on; otherwise the program's exit status.
std::optional<int> parse_options(int argc, char** argv, Options& options);

/// The flags' own rules.
sluice::Status check_options(Options& options);

[[nodiscard]] inline sluice::Error flag_error(std::string flag, std::string what, std::string expected) {
  return {sluice::ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

} // namespace loading
