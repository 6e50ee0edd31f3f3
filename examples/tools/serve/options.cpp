// SPDX-License-Identifier: Apache-2.0
// Defines the flags of sluice-serve.
#include "serve/options.hpp"

#include "sluice/core/text.hpp"
#include "sluice/serve/api_keys.hpp"

#include "engines/program.hpp"
#include "run/outputs.hpp"
#include "shared/chat_format_flag.hpp"
#include "shared/flags.hpp"
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace serving {

using namespace sluice;

namespace {

constexpr double longest_drain = 24 * 60 * 60; // seconds: the maximum of `drain`

} // namespace

std::optional<int> parse_options(int argc, char** argv, Options& options) {
  Flags flags(engines::program_name(),
              "Serves a model on this machine under a system's policies, behind the OpenAI API.");
  CLI::App& app = flags.app();
  app.add_option("--model", options.run.model,
                 "demo: a small Llama that speaks and comes with the repository; a Hugging Face folder (config.json, "
                 "*.safetensors, tokenizer.json); tiny: a small random Llama; tiny-window: one with windows; tiny-mla: "
                 "with latent attention; "
                 "tiny-mla-experts: with experts too; tiny-delta: one with the gated delta rule. With --simulate a "
                 "model by name")
      ->capture_default_str();
  app.add_option("--name", options.name, "what clients call the model (default: its folder's name)");
  running::add_machine(flags, options.run);
  flags.whole("--context", options.context, 2, 1 << 24,
              "the longest prompt and answer together, in tokens (default: the model's, at most 4096)");
  app.add_option("--simulate", options.simulate,
                 "no machine: the system on this device, by name or JSON file, at the pace that it would have, with "
                 "drawn tokens");
  app.add_option("--tee", options.tee,
                 "a second system on the same requests, with a machine and memory of its own: its tokens are compared "
                 "with those that clients get, and counted in /metrics");
  app.add_option("--decisions", options.run.decisions, "write a line for each decision, as it is made");
  app.add_option("--what-if", options.what_if,
                 "systems that the requests of the last ten minutes are replayed through, with commas, for /whatif; or "
                 "none (default: VllmSwap,SuperInfer,OrbitFlow, those that this program has)");
  app.add_option("--record", options.record,
                 "write a line for each request that ends: sluice-compare --trace FILE --format vllm reads them. An "
                 "earlier run's file is kept: FILE.1, FILE.2, … before its ending");
  app.add_option("--record-clock", options.record_clock, "record every time that the engine read");
  app.add_option("--replay", options.replay,
                 "serve nobody: put the requests of this --record through the system again, at the times of "
                 "--replay-clock, with the flags of the server that wrote both");
  app.add_option("--replay-clock", options.replay_clock, "what --record-clock wrote");
  app.add_option("--host", options.host, "the address to listen on")->capture_default_str();
  flags.whole("--port", options.port, 0, 65535, "the port; 0: any that is free (default: 8080)");
  app.add_option(
      "--admin", options.admin,
      "PORT or HOST:PORT of a second listener, in plain HTTP on 127.0.0.1 unless HOST says otherwise: it has "
      "/metrics, /live and POST /drain, and the first has them no longer");
  app.add_option("--api-key", options.api_keys, "a key that clients must send; may be given more than once")
      ->allow_extra_args(false);
  app.add_option("--api-key-file", options.api_key_file,
                 "the same, a line each: KEY, or NAME: KEY requests/min=60 tokens/min=20000; # begins a comment. HUP "
                 "reads it again");
  app.add_option(
      "--tls-cert", options.tls_cert,
      "serve over TLS, 1.2 or later, with this certificate: a file in PEM, those that vouch for it behind it");
  app.add_option("--tls-key", options.tls_key, "the certificate's private key: a file in PEM, without a passphrase");
  app.add_option("--cors", options.cors, "an origin whose pages may ask, or *");
  add_chat_format(flags, options.chat_format);
  app.add_flag("--lenient", options.lenient,
               "ignore fields of requests that neither the API nor this server knows, instead of refusing them");
  flags.whole("--queue", options.queue, 0, 1 << 30, "refuse newcomers while so many wait (default: 256)");
  app.add_option("--gate", options.gate,
                 "forecast whether a newcomer's SLO can be kept: soft says so in a response header, hard refuses with "
                 "429 where not, none forecasts nothing")
      ->capture_default_str();
  flags.size("--max-body", options.max_body, 1, "of a request, e.g. 8MiB (default)");
  flags.size("--max-bodies", options.max_bodies, 1,
             "memory for the bodies of all requests that are arriving; beyond: 503 (default: 64MiB)");
  flags.whole("--max-connections", options.max_connections, 1, 1 << 20,
              "beyond: 503, except for /health, /ready and /metrics (default: 4096, or what `ulimit -Hn` allows)");
  flags.whole("--max-per-address", options.max_per_address, 0, 1 << 20,
              "connections of one IPv4 address or one IPv6 /64; 0: any number (default)");
  flags.number(
      "--drain", options.drain, 0, true,
      "seconds that requests under way may take after TERM; a second TERM ends the program at once (default: 30)");
  flags.number("--drain-delay", options.drain_delay, 0, true,
               "seconds after TERM in which connections are still accepted: /ready and new requests get 503, and "
               "/metrics answers, until routers have noticed (default: 5; none after INT)");
  flags.from_file("--config");
  app.add_flag("--quiet", options.quiet, "no line for each request on standard error");
  app.add_flag("--list", options.list, "name the systems, and stop");
  if (const std::optional<int> status = flags.parse(argc, argv)) return status;
  running::conclude_machine(flags, options.run);
  return std::nullopt;
}

Expected<int> allow_connections(const Options& options, int reserved) {
  constexpr int usual = 4096;
  const int others = reserved + 128; // files that are not client connections
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return options.max_connections.value_or(usual);
  const rlim_t before = files.rlim_cur;
  files.rlim_cur = files.rlim_max; // a shell allows 1,024 files by default
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = before;
  const auto most = files.rlim_cur == RLIM_INFINITY || files.rlim_cur > (1 << 21)
                        ? 1 << 21
                        : std::max(1, static_cast<int>(files.rlim_cur) - others);
  if (options.max_connections.value_or(1) > most)
    return running::flag_error("--max-connections",
                               fmt::format("{} need more files than the {} that this process may open",
                                           *options.max_connections, files.rlim_cur),
                               fmt::format("at most {}, or a larger `ulimit -Hn`", most));
  return options.max_connections.value_or(std::min(usual, most));
}

Expected<std::optional<HttpAddress>> admin_address(const Options& options) {
  if (options.admin.empty()) return std::optional<HttpAddress>{};
  HttpAddress address{"127.0.0.1", 0};
  std::string_view port = options.admin;
  if (const std::size_t colon = port.rfind(':'); colon != std::string_view::npos) {
    std::string_view host = port.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    address.host = host;
    port.remove_prefix(colon + 1);
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size() || port.empty() || address.host.empty())
    return running::flag_error("--admin", "it is '" + excerpt(options.admin) + "'",
                               "PORT, or HOST:PORT as 0.0.0.0:9090 or [::1]:9090");
  return std::optional{address};
}

Expected<std::vector<ApiKey>> read_keys(const Options& options) {
  std::vector<ApiKey> keys;
  if (!options.api_key_file.empty()) {
    const std::string file = "'" + excerpt(options.api_key_file, 200) + "'";
    std::ifstream opened(options.api_key_file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(opened), {}};
    if (!opened.is_open() || opened.bad())
      return running::flag_error("--api-key-file", "there is no file " + file, "a file with a key a line");
    Expected<std::vector<ApiKey>> read = read_api_keys(text);
    if (!read) {
      Error error = read.error();
      error.what = file + ", " + error.where + ": " + error.what;
      error.where = "--api-key-file";
      return error;
    }
    if (read->empty()) return running::flag_error("--api-key-file", "it has no key", "a file with a key a line");
    keys = *std::move(read);
  }
  int number = 0;
  for (const std::string& secret : options.api_keys)
    keys.push_back({.name = fmt::format("--api-key {}", ++number), .secret = secret});
  return keys;
}

Status check_options(Options& options) {
  if (Status status = running::check_machine(options.run); !status) return status;
  if (!options.simulate.empty() && options.run.host_cache > 0)
    return running::flag_error("--host-cache", "with --simulate there is no KV", "one of the two");
  if (!options.tee.empty() && options.run.disk_cache)
    return running::flag_error("--tee", "its machine cannot use the folder of --disk-cache too", "one of the two");
  if (!options.simulate.empty() && options.run.backend != "cpu")
    return running::flag_error("--backend", "with --simulate nothing computes", "one of the two");
  if (options.gate != "none" && options.gate != "soft" && options.gate != "hard")
    return running::flag_error("--gate", "it is '" + excerpt(options.gate) + "'", "none, soft or hard");
  if (Status status = running::check_outputs(options.run,
                                             {{"--replay", options.replay},
                                              {"--replay-clock", options.replay_clock},
                                              {"--api-key-file", options.api_key_file},
                                              {"--tls-cert", options.tls_cert},
                                              {"--tls-key", options.tls_key}},
                                             {{"--record", options.record}, {"--record-clock", options.record_clock}});
      !status)
    return status;
  if (options.tls_cert.empty() != options.tls_key.empty())
    return running::flag_error(options.tls_cert.empty() ? "--tls-key" : "--tls-cert", "it stands alone",
                               "--tls-cert and --tls-key, a certificate and its key");
  if (options.max_bodies < options.max_body)
    return running::flag_error("--max-bodies", fmt::format("{} bytes hold no body of --max-body", options.max_bodies),
                               fmt::format("at least {}", options.max_body));
  for (const auto& [flag, seconds] : {std::pair{"--drain", options.drain}, {"--drain-delay", options.drain_delay}})
    if (seconds > longest_drain)
      return running::flag_error(flag, "it is above a day", fmt::format("at most {} seconds", longest_drain));
  if (options.replay.empty() != options.replay_clock.empty())
    return running::flag_error(options.replay.empty() ? "--replay-clock" : "--replay", "it stands alone",
                               "--replay and --replay-clock, of one server");
  if (options.simulate.empty())
    for (const auto& [flag, path] : {std::pair{"--record-clock", &options.record_clock}, {"--replay", &options.replay}})
      if (!path->empty())
        if (Status status = running::check_repeatable(options.run, flag); !status) return status;
  for (const auto& [flag, path] : {std::pair{"--record", &options.record}, {"--record-clock", &options.record_clock}})
    if (!options.replay.empty() && !path->empty())
      return running::flag_error(flag, "a replay has nothing new to write down", "--decisions with --replay");
  for (const std::string& key : options.api_keys)
    if (key.empty()) return running::flag_error("--api-key", "it is empty", "at least one character");
  return {};
}

} // namespace serving
