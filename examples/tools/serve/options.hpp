// SPDX-License-Identifier: Apache-2.0
// Options: the flags of sluice-serve.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/http_server.hpp"
#include "sluice/serve/key_account.hpp"

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
  std::string admin;                 ///< PORT or HOST:PORT; empty: none
  std::vector<std::string> api_keys; ///< of --api-key
  std::string api_key_file;
  std::string cors;
  std::string tls_cert, tls_key;       ///< files; empty: plain HTTP
  std::string name;                    ///< that clients ask for; empty: the model's
  std::optional<std::int64_t> context; ///< tokens of a prompt and its answer; none: the model's, at most 4096
  std::int64_t queue = 256;
  std::string gate = "soft";                              ///< none, soft or hard
  std::int64_t max_body = std::int64_t{8} << 20;          ///< bytes
  std::int64_t max_bodies = std::int64_t{64} << 20;       ///< bytes
  std::optional<int> max_connections;                     ///< none: 4096, or what the limit of open files allows
  int max_per_address = 0;                                ///< connections; 0: any number
  double drain = 30, drain_delay = 5;                     ///< seconds
  std::string simulate;                                   ///< a device; empty: this machine
  std::string tee;                                        ///< a second system on the same requests; empty: none
  std::string what_if;                                    ///< systems, or none; empty: some that suit
  std::string record, record_clock, replay, replay_clock; ///< files; empty: none
  bool lenient = false;                                   ///< unknown fields of requests are ignored
  bool list = false, quiet = false;
};

/// Nothing: go on; otherwise the program's exit status.
std::optional<int> parse_options(int argc, char** argv, Options& options);

/// How many connections the server takes: --max-connections, or as many as the limit of open files allows, up to 4,096.
/// Raises that limit as far as it goes. Errors: --max-connections is beyond it.
sluice::Expected<int> allow_connections(const Options& options, int reserved);

/// Where --admin says. Errors: it is not a port, or an address and a port.
sluice::Expected<std::optional<sluice::HttpAddress>> admin_address(const Options& options);

/// The keys of --api-key and those of --api-key-file, which is read now. Errors: no such file, a mistake in it.
sluice::Expected<std::vector<sluice::ApiKey>> read_keys(const Options& options);

/// The flags' own rules.
sluice::Status check_options(Options& options);

/// The program: parses the command line, does what it asks and prints. Returns the exit status.
int program(int argc, char** argv);

} // namespace serving
