// SPDX-License-Identifier: Apache-2.0
// OpenAiApp: the path of a completion from its body to the engine.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"

namespace sluice {

SLUICE_SERVER_INLINE void OpenAiApp::complete(const HttpRequest& request, Kind kind,
                                              std::unique_ptr<Exchange> exchange) {
  const bool chat = kind != Kind::text;
  Completion wanted;
  wanted.slo = setup_.slo;
  std::vector<std::vector<std::int32_t>> prompts;
  const std::string_view effort = setup_.chat ? fixed_effort(*setup_.chat) : "none";
  std::optional<ApiError> error = kind == Kind::response
                                      ? read_response_request(request.body, wanted, setup_.unknown_fields, effort)
                                      : read_completion(request.body, chat, wanted, setup_.unknown_fields, effort);
  if (!error) error = read_slo_headers(request.headers, wanted.slo);
  if (!error) error = check_model(wanted.model);
  if (!error && wanted.logprobs >= 0 && !setup_.logprobs)
    error = detail::api_error("logprobs", "this engine is simulated: its tokens are drawn, and have no logprobs; "
                                          "expected none to be asked for");
  if (!error) error = read_rules(wanted);
  if (!error) error = encode(wanted, prompts);
  if (!error && (draining_ || !engine_->ready())) return exchange->respond(not_ready());
  ReplyHead head{.id = new_id(kind == Kind::response ? "resp_"
                              : chat                 ? "chatcmpl-"
                                                     : "cmpl-"),
                 .chat = chat,
                 .created = setup_.now_s(),
                 .model = setup_.model,
                 .fingerprint = setup_.fingerprint};
  if (error) return exchange->respond(error_response(*error));
  const std::shared_ptr<KeyAccount> account = account_of(request);
  if (const auto full = queue_.full(account, setup_.keys->size(), setup_.most_held)) {
    metrics_.requests += 1;
    metrics_.refused += 1;
    return exchange->respond(held_back(*full));
  }
  log_request(request, head.id, wanted, prompts);

  const std::uint64_t seed = wanted.seeded ? wanted.sampling.seed : setup_.random();
  const std::uint64_t key = ++last_job_;
  const int choices = wanted.choices;
  const Slo slo = wanted.slo;
  const std::shared_ptr<const LogitRules> rules =
      wanted.rules.empty() ? nullptr : std::make_shared<const LogitRules>(wanted.rules);
  const std::uint64_t salt = account == nullptr ? 0 : account->salt();
  const std::string_view session = request.headers.find("x-session-id");
  const SessionNumbers::Turn turn = session.empty() ? SessionNumbers::Turn{} : sessions_.next(salt, session);
  std::vector<Generation> generations;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    for (int choice = 0; choice < choices; ++choice) {
      Generation generation;
      generation.prompt = prompt;
      const auto left = setup_.context - static_cast<std::int64_t>(prompt.size());
      generation.max_tokens = std::max(std::int64_t{1}, wanted.max_tokens.value_or(left));
      generation.ignore_end = wanted.ignore_end;
      generation.sampling = wanted.sampling;
      generation.sampling.seed = seed;
      generation.sequence = generations.size(); // the first answer equals that of a request with one answer and this
                                                // seed
      generation.logprobs = wanted.logprobs;
      generation.scores_prompt = wanted.scores_prompt();
      generation.rules = rules;
      generation.slo = wanted.slo;
      generation.lead = metrics_.slos.lead(wanted.slo);
      generation.priority = wanted.priority;
      generation.hints = wanted.hints;
      generation.salt = salt;
      generation.session = turn.session;
      generation.turn = turn.turn;
      generations.push_back(std::move(generation));
    }
  }
  exchange->on_gone([this, key] { leave(key); });
  std::string name = head.id;
  const auto placed = jobs_.try_emplace(
      key,
      CompletionJob(std::move(head), std::move(wanted), std::move(prompts), *setup_.tokenizer, std::move(exchange)),
      setup_.clock());
  Job& job = placed.first->second;
  job.name = std::move(name);
  job.slo = slo;
  job.account = account;
  job.asked = asked_of(request, request_id_);
  job.last.assign(generations.size(), -1);
  job.kept.assign(generations.size(), SloAttainment{.slo = job.slo, .arrival = Seconds{job.begun}});
  for (const Generation& generation : generations)
    job.lengths.push_back({static_cast<std::int64_t>(generation.prompt.size()), 0, generation.max_tokens, choices});
  metrics_.requests += 1;
  for (std::size_t at = 0; at < generations.size(); ++at) {
    const GenerationId id{++last_generation_};
    job.ids.push_back(id);
    where_.emplace(id, std::pair{key, at});
    queue_.submit(id, std::move(generations[at]), account, setup_.keys->size());
  }
}

SLUICE_SERVER_INLINE std::optional<ApiError> OpenAiApp::check_model(const std::string& name) const {
  if (name.empty() || name == setup_.model) return std::nullopt;
  ApiError error;
  error.status = 404;
  error.message = "there is no model '" + without_controls(excerpt(name)) + "'; expected '" + setup_.model + "'";
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

SLUICE_SERVER_INLINE std::optional<ApiError> OpenAiApp::read_rules(Completion& wanted) const {
  const auto check = [this](const char* param, std::int32_t token) -> std::optional<ApiError> {
    if (token < setup_.vocabulary) return std::nullopt;
    return detail::api_error(param, std::string{param} + " has the token " + std::to_string(token) +
                                        "; expected tokens from 0 to " + std::to_string(setup_.vocabulary - 1));
  };
  for (const auto& [token, bias] : wanted.rules.bias)
    if (std::optional<ApiError> error = check("logit_bias", token)) return error;
  for (const std::int32_t token : wanted.stop_tokens)
    if (std::optional<ApiError> error = check("stop_token_ids", token)) return error;
  wanted.rules.ends = wanted.stop_tokens;
  for (const std::string& word : wanted.bad_words) {
    // Like vLLM, forbids the word at the beginning of a text, and also after a space if both have equally many tokens.
    const auto plain = setup_.tokenizer->encode(word, AddSpecial::no);
    const auto spaced = setup_.tokenizer->encode(" " + word, AddSpecial::no);
    if (!plain || plain->empty())
      return detail::api_error("bad_words", "bad_words has a word without tokens; expected words of the model");
    if (spaced && spaced->size() == plain->size() && spaced->front() != plain->front())
      wanted.rules.bad_words.push_back(*spaced);
    wanted.rules.bad_words.push_back(*plain);
  }
  if (setup_.rules) return std::nullopt;
  const LogitRules& rules = wanted.rules;
  const char* const param = rules.presence != 0                       ? "presence_penalty"
                            : rules.frequency != 0                    ? "frequency_penalty"
                            : rules.repetition != 1                   ? "repetition_penalty"
                            : !rules.bias.empty()                     ? "logit_bias"
                            : !rules.bad_words.empty()                ? "bad_words"
                            : rules.min_tokens > 0 && setup_.logprobs ? "min_tokens" // drawn answers never end early

                            : wanted.scores_prompt() ? "logprobs"
                                                     : nullptr;
  if (param == nullptr) return std::nullopt;
  if (wanted.scores_prompt() && rules.empty())
    return detail::api_error(param, "logprobs of an echoed prompt are not supported by this server's engine; expected "
                                    "no echo, or --backend cpu");
  return detail::api_error(param, std::string{param} + " is not supported by this server's engine, which is simulated "
                                                       "or samples on a GPU; expected none, or --backend cpu");
}

SLUICE_SERVER_INLINE std::optional<ApiError> OpenAiApp::check_length(const char* param, std::string_view text) const {
  const std::size_t most = static_cast<std::size_t>(setup_.context) * longest_token_;
  if (text.size() <= most) return std::nullopt;
  ApiError error = detail::api_error(param, "this model's maximum context length is " + std::to_string(setup_.context) +
                                                " tokens of at most " + std::to_string(longest_token_) +
                                                " bytes; the prompt has " + std::to_string(text.size()) + " bytes");
  error.code = "context_length_exceeded";
  return error;
}

SLUICE_SERVER_INLINE std::optional<ApiError> OpenAiApp::encode(Completion& wanted,
                                                               std::vector<std::vector<std::int32_t>>& into) const {
  const char* const param = wanted.response ? "input" : wanted.chat ? "messages" : "prompt";
  // Texts behind one that does not fit are not tokenized: that would delay all streams.
  const auto add = [&](const std::string& text, AddSpecial special) -> std::optional<ApiError> {
    if (std::optional<ApiError> error = check_length(param, text)) return error;
    auto tokens = setup_.tokenizer->encode(text, special);
    if (!tokens) return detail::api_error(param, tokens.error());
    into.push_back(std::move(*tokens));
    return check_room(param, into.back(), wanted);
  };
  if (wanted.chat) {
    if (!setup_.chat)
      return detail::api_error(
          param, setup_.no_chat + (setup_.no_chat.find("; expected") == std::string::npos ? "; expected " : ", or ") +
                     "/v1/completions");
    const Expected<std::string> text = chat_text(*setup_.chat, wanted.messages);
    if (!text) return detail::api_error(param, text.error().line());
    return add(*text, AddSpecial::no);
  }
  for (CompletionPrompt& prompt : wanted.prompts) {
    std::optional<ApiError> error;
    if (prompt.is_tokens) {
      into.push_back(std::move(prompt.tokens));
      error = check_room(param, into.back(), wanted);
    } else {
      error = add(prompt.text, AddSpecial::yes);
    }
    if (error) return error;
  }
  return std::nullopt;
}

SLUICE_SERVER_INLINE std::optional<ApiError>
OpenAiApp::check_room(const char* param, std::span<const std::int32_t> tokens, const Completion& wanted) const {
  if (tokens.empty()) return detail::api_error(param, "the prompt has no tokens; expected at least one");
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= setup_.vocabulary)
      return detail::api_error(param, "the prompt has the token " + std::to_string(token) +
                                          "; expected tokens from 0 to " + std::to_string(setup_.vocabulary - 1));
  const auto prompt = static_cast<std::int64_t>(tokens.size());
  const std::int64_t least = wanted.rules.min_tokens; // of an answer that may take the rest of the context
  const std::int64_t answer = std::max(std::int64_t{1}, wanted.max_tokens.value_or(least));
  if (prompt + answer <= setup_.context) return std::nullopt;
  ApiError error = detail::api_error(param, "this model's maximum context length is " + std::to_string(setup_.context) +
                                                " tokens; the request has " + std::to_string(prompt + answer) + " (" +
                                                std::to_string(prompt) + " in the prompt, " + std::to_string(answer) +
                                                " in the completion)");
  error.code = "context_length_exceeded";
  return error;
}

} // namespace sluice
