// SPDX-License-Identifier: Apache-2.0
// Options: the flags of sluice-serve.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/api_keys.hpp"
#include "sluice/serve/beast/http_server.hpp"

#include "run/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace serving {

struct Options {
  running::Options run; ///< the machine and its engine, as in sluice-run
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string admin;                 ///< PORT or HOST:PORT; empty: no admin port
  std::vector<std::string> api_keys; ///< values of --api-key
  std::string api_key_file;
  std::string cors;
  std::string tls_cert, tls_key;       ///< files; empty: plain HTTP
  std::string name;                    ///< the name that clients request; empty: the model's name
  std::optional<std::int64_t> context; ///< most tokens of a prompt and its answer; none: the model's context, at most
                                       ///< 4096
  std::int64_t queue = 256;
  std::string gate = "soft";                              ///< none, soft or hard
  std::int64_t max_body = std::int64_t{8} << 20;          ///< bytes
  std::int64_t max_bodies = std::int64_t{64} << 20;       ///< bytes
  std::optional<int> max_connections;                     ///< none: 4096, or fewer if the limit of open files requires
                                                          ///< it
  int max_per_address = 0;                                ///< connections; 0: no limit
  double drain = 30, drain_delay = 5;                     ///< seconds
  std::string simulate;                                   ///< a device; empty: serve on this machine
  std::string tee;                                        ///< a second system that gets the same requests; empty: none
  std::string what_if;                                    ///< names of systems, or `none`; empty: some suitable ones
  std::string record, record_clock, replay, replay_clock; ///< files; empty: not used
  std::optional<sluice::ChatFormat> chat_format;          ///< instead of the one of the model's template
  bool lenient = false;                                   ///< ignore unknown fields of requests
  bool list = false, quiet = false;
};

/// Parses the flags. Returns nothing to continue; otherwise the program's exit status.
std::optional<int> parse_options(int argc, char** argv, Options& options);

/// Returns how many connections the server accepts: --max-connections, or as many as the limit of open files allows, up
/// to 4,096. Raises that limit as far as possible. Errors: --max-connections exceeds it.
sluice::Expected<int> allow_connections(const Options& options, int reserved);

/// Reads the address in --admin. Errors: it is neither a port nor an address and a port.
sluice::Expected<std::optional<sluice::HttpAddress>> admin_address(const Options& options);

/// Returns the keys from --api-key and from --api-key-file, which is read now. Errors: the file does not exist or is
/// malformed.
sluice::Expected<std::vector<sluice::ApiKey>> read_keys(const Options& options);

/// Checks the flags against each other.
sluice::Status check_options(Options& options);

/// The main function: parses the command line, executes it and prints. Returns the exit status.
int program(int argc, char** argv);

} // namespace serving
