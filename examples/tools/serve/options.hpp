// SPDX-License-Identifier: Apache-2.0
// Options: the flags of sluice-serve.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace serving {

struct Options {
  running::Options run; ///< of the machine and its engine, as of sluice-run
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string cors;
  std::string tls_cert, tls_key;       ///< files; empty: plain HTTP
  std::string name;                    ///< that clients ask for; empty: the model's
  std::optional<std::int64_t> context; ///< tokens of a prompt and its answer; none: the model's, at most 4096
  std::int64_t queue = 256;
  std::string gate = "soft"; ///< none, soft or hard
  std::int64_t max_body = std::int64_t{8} << 20;
  double drain = 30, drain_delay = 5;                     ///< seconds
  std::string simulate;                                   ///< a device; empty: this machine
  std::string tee;                                        ///< a second system on the same requests; empty: none
  std::string what_if;                                    ///< systems, or none; empty: some that suit
  std::string record, record_clock, replay, replay_clock; ///< files; empty: none
  bool list = false, quiet = false;
};

/// Nothing: go on; otherwise the program's exit status.
std::optional<int> parse_options(int argc, char** argv, Options& options);

/// The flags' own rules, and the keys of --api-key-file.
sluice::Status check_options(Options& options);

} // namespace serving
