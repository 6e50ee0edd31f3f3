// SPDX-License-Identifier: Apache-2.0
// The flags of sluice-load.
#include "load/options.hpp"

#include "sluice/core/text.hpp"
#include "sluice/workload/generator.hpp"

#include "shared/slo_classes_flag.hpp"
#include "shared/trace_flags.hpp"

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace loading {

using namespace sluice;

std::optional<int> parse_options(int argc, char** argv, Options& options) {
  Flags flags("sluice-load", "Asks a server for completions as a workload has them, measures how they come, and checks "
                             "every byte of them.");
  CLI::App& app = flags.app();
  app.add_option("--url", options.url, "the server's address, without /v1")->capture_default_str();
  app.add_option("--model", options.model, "what to ask for (default: the first that the server lists)");
  app.add_option("--cacert", options.cacert,
                 "of https: trust these certificates, a file in PEM (default: the system's)");
  app.add_flag("--insecure", options.insecure, "of https: trust any certificate");
  app.add_option("--endpoint", options.endpoint, "chat or completions")->capture_default_str();
  app.add_option("--api-key", options.api_key, "sent as a bearer token");
  add_trace_flags(flags, options, "arrivals and lengths of a trace file");
  flags.number("--step-time", options.step_time, 0, false,
               "seconds of an engine's step, for traces whose arrivals count steps (orbitflow)");
  app.add_option("--generate", options.generate, "arrivals and lengths to be drawn: " + std::string{generator_help});
  flags.whole("--limit", options.limit, 1, std::numeric_limits<std::int64_t>::max(), "ask the first N requests only");
  flags.number("--rate-scale", options.rate_scale, 0, false, "divide the arrival times by this (default: 1)");
  const CLI::Option* const concurrency = flags.whole(
      "--concurrency", options.concurrency, 1, 60'000,
      "requests under way at most; others wait here, and are timed from when they are sent (default: 4096)");
  app.add_flag("--closed-loop", options.closed_loop,
               "send a request whenever another has ended, --concurrency of them at once, whatever the arrival times");
  app.add_option("--prompt-text", options.prompt_text,
                 "a file whose text prompts are pieces of (default: common words); as many tokens as wanted where the "
                 "server has /tokenize");
  flags.whole("--max-tokens", options.max_tokens, 1, 1 << 28, "ask for at most so many tokens each");
  flags.number("--temperature", options.temperature, 0, true, "of sampling (default: 0)");
  flags.whole("--seed", options.seed, 0, 1LL << 53,
              "seed of the workload; with the request's number it seeds sampling too (default: 1)");
  flags.number("--slo-ttft", options.slo_ttft, 0, false,
               "seconds to the first token that users are promised; sent as a header, and judged");
  flags.number("--slo-tbt", options.slo_tbt, 0, false, "the same, seconds between two tokens");
  add_slo_classes(flags, options.slo_classes);
  flags.number(
      "--leave", options.leave, 0, true,
      "share of requests whose client leaves: a third each while they wait, in prefill, in decode (default: 0)");
  flags.number("--slow", options.slow, 0, true,
               "share of requests whose client reads slowly, or, every other one, never (default: 0)");
  flags.number("--timeout", options.timeout, 0, false,
               "seconds without a byte until a request is given up (default: 600)");
  app.add_flag("--count-tokens", options.count_tokens,
               "ask for logprobs, by which every token can be counted, whether or not it has text");
  app.add_flag("--standard", options.standard, "send nothing that is not OpenAI's; answers may then end early");
  app.add_option("--json", options.json, "write the figures, named as by vLLM's serving benchmark");
  app.add_option("--out", options.out,
                 "write when each request was sent and got its first and last token: a recording (TraceV2, CSV)");
  app.add_flag("--quiet", options.quiet, "no progress");
  const std::optional<int> status = flags.parse(argc, argv);
  options.has_concurrency = concurrency->count() > 0;
  return status;
}

namespace {

Expected<Url> read_url(std::string_view text) {
  const auto wrong = [&](std::string what) {
    return flag_error("--url", std::move(what), "an address such as http://127.0.0.1:8080 or https://host");
  };
  Url url;
  url.tls = text.starts_with("https://");
  if (!url.tls && !text.starts_with("http://"))
    return wrong("'" + excerpt(text) + "' does not begin with http:// or https://");
  text.remove_prefix(url.tls ? 8 : 7);
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) url.prefix = std::string{text.substr(slash)};
  while (!url.prefix.empty() && url.prefix.back() == '/') url.prefix.pop_back();
  if (url.prefix == "/v1" || url.prefix.ends_with("/v1")) url.prefix.resize(url.prefix.size() - 3);
  for (const char character : url.prefix)
    if (static_cast<unsigned char>(character) <= 0x20 || character == 0x7f) return wrong("its path has a space");
  const std::string_view authority = text.substr(0, slash);
  std::size_t colon = authority.rfind(':');
  if (authority.starts_with('[')) {
    const std::size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return wrong("a bracket is not closed");
    url.host = std::string{authority.substr(1, bracket - 1)};
    if (colon != std::string_view::npos && colon < bracket) colon = std::string_view::npos;
  } else {
    url.host = std::string{authority.substr(0, colon)};
  }
  url.port = colon == std::string_view::npos ? (url.tls ? "443" : "80") : std::string{authority.substr(colon + 1)};
  unsigned port = 0;
  const auto [end, error] = std::from_chars(url.port.data(), url.port.data() + url.port.size(), port);
  if (error != std::errc{} || end != url.port.data() + url.port.size() || port < 1 || port > 65535)
    return wrong("its port is '" + excerpt(url.port) + "'");
  if (url.host.empty() || url.host.find_first_of(" @\r\n") != std::string::npos)
    return wrong("its host is '" + excerpt(url.host) + "'");
  return url;
}

} // namespace

Status check_options(Options& options) {
  Expected<Url> url = read_url(options.url);
  if (!url) return url.error();
  options.address = *std::move(url);
  for (const auto& [flag, given] : {std::pair{"--cacert", !options.cacert.empty()}, {"--insecure", options.insecure}})
    if (given && !options.address.tls) return flag_error(flag, "--url is plain HTTP", "an address with https://");
  if (options.insecure && !options.cacert.empty())
    return flag_error("--insecure", "with --cacert it says the opposite", "one of the two");
  if (options.closed_loop && !options.has_concurrency)
    return flag_error("--closed-loop", "it does not say how many at once", "--concurrency as well");
  if (options.endpoint != "chat" && options.endpoint != "completions")
    return flag_error("--endpoint", "it is '" + excerpt(options.endpoint) + "'", "chat or completions");
  if (options.trace.empty() == options.generate.empty())
    return options.trace.empty()
               ? flag_error("command line", "there is nothing to ask for", "--generate or --trace")
               : flag_error("--generate", "a trace is given as well", "--trace or --generate, not both");
  if (const char* flag = options.read_without_trace()) return flag_error(flag, "no trace is given", "--trace as well");
  if (options.trace.empty() && options.step_time)
    return flag_error("--step-time", "no trace is given", "--trace as well");
  for (const auto& [flag, slo] : {std::pair{"--slo-ttft", options.slo_ttft}, {"--slo-tbt", options.slo_tbt}})
    if (!options.slo_classes.empty() && !std::isinf(slo))
      return flag_error(flag, "every request has the SLO of its class", "this flag or --slo-classes, not both");
  for (const auto& [flag, share] : {std::pair{"--leave", options.leave}, {"--slow", options.slow}})
    if (share > 1) return flag_error(flag, "it is above 1", "a share from 0 to 1");
  if (options.leave + options.slow > 1)
    return flag_error("--slow", "with --leave it is more than all requests", "two shares of at most 1 together");
  for (const char character : options.api_key)
    if (static_cast<unsigned char>(character) <= 0x20 || character == 0x7f)
      return flag_error("--api-key", "it has a space or a control character", "a key of one word");
  return {};
}

} // namespace loading
