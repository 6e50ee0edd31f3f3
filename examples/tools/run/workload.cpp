// SPDX-License-Identifier: Apache-2.0
// Prompts and traces of sluice-run.
#include "run/workload.hpp"

#include "sluice/core/random.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"
#include "sluice/world/local/model.hpp"

#include "shared/trace_flags.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace running {

using namespace sluice;

std::vector<std::int32_t> Workload::prompt(std::size_t request) const {
  if (!prompts.empty()) return prompts[request];
  // A separate random stream per request, so that no prompt depends on earlier requests.
  Random random(seed * 0x9e3779b97f4a7c15u + request);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(requests[request].prompt.count()));
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  return tokens;
}

namespace {

constexpr std::int64_t default_tokens = 32;

Expected<std::vector<std::int32_t>> read_ids(std::string_view text, const ModelShape& shape) {
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view one = text.substr(begin, end - begin);
    std::int64_t id = 0;
    const auto [stop, wrong] = std::from_chars(one.data(), one.data() + one.size(), id);
    if (wrong == std::errc::invalid_argument || stop != one.data() + one.size())
      return flag_error("--prompt-ids", "it has '" + excerpt(one) + "'", "token ids with commas, such as 1,2,3");
    if (wrong != std::errc{} || id < 0 || id >= shape.vocabulary)
      return flag_error("--prompt-ids", "the token " + excerpt(one) + " is not in the vocabulary of " + shape.name,
                        "ids from 0 to " + std::to_string(shape.vocabulary - 1));
    ids.push_back(static_cast<std::int32_t>(id));
    begin = end + 1;
  }
  return ids;
}

Expected<std::vector<std::int32_t>> encode(const Options& options, const std::string& text, const LocalModel& model) {
  Expected<std::vector<std::int32_t>> ids = encode_prompt(model, text);
  if (options.chat) {
    const Expected<ChatFormat> format = options.chat_format ? *options.chat_format : chat_format_of(*model.tokenizer);
    if (!format) return flag_error("--chat", format.error().what + " (" + options.model + ")", format.error().expected);
    ids = encode_chat(model, *format, text);
  }
  if (ids) return ids;
  const bool another = ids.error().code == ErrorCode::not_found; // the tokenizer belongs to another model
  return flag_error("--prompt", ids.error().what, ids.error().expected + (another ? ", or --prompt-ids" : ""));
}

} // namespace

Expected<Workload> read_prompts(const Options& options, const LocalModel& model) {
  const DecoderConfig& config = model.weights.config;
  const bool texts = !options.prompts.empty();
  const std::string flag = texts ? "--prompt" : "--prompt-ids";
  Workload workload;
  workload.vocabulary = config.shape.vocabulary;
  const std::int64_t output = options.max_tokens.value_or(default_tokens);
  for (const std::string& given : texts ? options.prompts : options.prompt_ids) {
    Expected<std::vector<std::int32_t>> tokens = texts ? encode(options, given, model) : read_ids(given, config.shape);
    if (!tokens) return tokens.error();
    const auto length = static_cast<std::int64_t>(tokens->size());
    if (length == 0) return flag_error(flag, "it is empty", "at least one token");
    if (length + output > config.max_positions)
      return flag_error(
          flag,
          "it has " + std::to_string(length) + " tokens, and --max-tokens " + std::to_string(output) + " more follow",
          "at most the " + std::to_string(config.max_positions) + " positions of " + options.model + " together");
    workload.requests.push_back({.prompt = Tokens{length},
                                 .output = Tokens{output},
                                 .slo = {Seconds{options.slo_ttft}, Seconds{options.slo_tbt}}});
    workload.prompts.push_back(std::move(*tokens));
  }
  return workload;
}

namespace {

/// For traces whose arrivals count steps: the time of a decode step whose KV fills the budget that the trace gives,
/// with nothing offloaded, as in sluice-compare.
Expected<std::optional<Seconds>> step_time(const TraceFile& file, const engines::CostChoice& cost, int layers) {
  if (file.format != TraceFormat::orbitflow) return std::optional<Seconds>{};
  const Expected<OrbitFlowHeader> header = read_orbitflow_header(file.path);
  if (!header) return header.error();
  Work work;
  work.decodes = work.samples = 1;
  work.decode_context = Tokens{std::max<std::int64_t>(1, header->budget.count() * 16)};
  return std::optional<Seconds>{cost.step(work).total(layers)};
}

} // namespace

Expected<Workload> read_trace(const Options& options, const LocalModel& model, const engines::CostChoice& cost) {
  const ModelShape& shape = model.weights.config.shape;
  const ReadOptions read{.limit = options.limit,
                         .rate_scale = options.rate_scale.value_or(1),
                         .slo = {Seconds{options.slo_ttft}, Seconds{options.slo_tbt}},
                         .slo_classes = options.slo_classes,
                         .class_seed = options.sampling.seed,
                         .open_sessions = true}; // as recorded: this program has no closed loop
  if (Status status = check(read); !status) return status.error();
  const Expected<TraceFile> file = find_trace(options);
  if (!file) return file.error();
  const Expected<std::optional<Seconds>> step = step_time(*file, cost, shape.layers);
  if (!step) return step.error();
  Expected<Trace> trace = open_trace(*file, read, *step);
  if (!trace) return trace.error();
  Expected<std::vector<RequestSpec>> requests = read_all(*trace);
  if (!requests) return requests.error();
  Workload workload;
  workload.taken_for = taken_for_text(trace->workload(), *requests);
  workload.requests = std::move(*requests);
  workload.format = trace->workload().format;
  workload.seed = options.sampling.seed;
  workload.vocabulary = shape.vocabulary;
  if (options.max_tokens)
    for (RequestSpec& request : workload.requests)
      request.output = std::min(request.output, Tokens{*options.max_tokens});
  return workload;
}

} // namespace running
