// SPDX-License-Identifier: Apache-2.0
// OpenAiApp: the server's HTTP endpoints, in front of any GenerationEngine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/answer_log.hpp"
#include "sluice/serve/completion_job.hpp"
#include "sluice/serve/cors.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/live_page.hpp"
#include "sluice/serve/nlohmann/openai_headers.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/process_metrics.hpp"
#include "sluice/serve/serve_metrics.hpp"
#include "sluice/serve/wall_time.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// The model that a server offers, and the rules for clients.
struct OpenAiSetup {
  std::string model;                     ///< the name that clients use
  std::string about;                     ///< a line on the live page: the system and its device
  const Tokenizer* tokenizer = nullptr;  ///< outlives the app
  std::optional<ChatFormat> chat;        ///< none: /v1/chat/completions is refused
  int vocabulary = 0;                    ///< the model's number of tokens
  std::int64_t context = 0;              ///< most tokens of a prompt and its answer together
  Slo slo;                               ///< of requests without an SLO of their own
  std::vector<std::string> api_keys;     ///< empty: no key is needed
  std::string cors;                      ///< the origin whose pages may use the server, or *; empty: none
  bool logprobs = true;                  ///< whether tokens have log-probabilities; if not, requests for them fail
  std::int64_t created = 0;              ///< when the model was created, seconds since 1970
  std::function<std::int64_t()> now_s;   ///< wall clock, seconds since 1970
  std::function<std::int64_t()> now_ms;  ///< the same in milliseconds, for the log; empty: of `now_s`
  std::function<double()> clock;         ///< seconds, for latencies
  std::function<std::uint64_t()> random; ///< for ids, and for seeds of requests without one
  std::function<void(std::string)> log;  ///< called with one JSON object per event; may be empty
  std::function<std::string()> what_if;  ///< returns the JSON of /whatif at once; empty: no /whatif
  std::function<void(PrometheusWriter&)> metrics; ///< adds the program's own to /metrics; may be empty
};

/// Runs on the transport's thread, to which the engine's events are posted.
class OpenAiApp final : public HttpApp, public GenerationListener {
 public:
  OpenAiApp(OpenAiSetup setup, HttpTransport& transport, GenerationEngine& engine)
      : setup_(std::move(setup)),
        cors_(setup_.cors),
        transport_(&transport),
        engine_(&engine),
        answers_(
            setup_.log, [this] { return stamp(); }, setup_.clock) {
    SLUICE_ASSERT(setup_.tokenizer != nullptr, "a model with a tokenizer");
    const Vocabulary& vocabulary = setup_.tokenizer->vocabulary();
    for (std::int32_t token = 0; token < vocabulary.size(); ++token)
      longest_token_ = std::max(longest_token_, vocabulary.text_of(token).size());
  }

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override {
    exchange = cors_.open(answers_.noting(asked_of(request), std::move(exchange)));
    const std::string_view path = request.path();
    if (request.method == "OPTIONS" && cors_.allowed()) return exchange->respond(Cors::preflight(request));
    if (needs_key(path) && !bears_key(request.headers, setup_.api_keys)) {
      ApiError error;
      error.status = 401;
      error.message = "the API key is missing or wrong; expected the header Authorization: Bearer KEY";
      error.code = "invalid_api_key";
      return exchange->respond(error_response(error));
    }
    for (const Route& route : routes) {
      if (path != route.path) continue;
      if (request.method == "POST" && request.method == route.method && !says_json(request.headers))
        return exchange->respond(refusal(400, "the body's Content-Type is '" +
                                                  excerpt(request.headers.find("Content-Type")) +
                                                  "'; expected application/json"));
      if (request.method == route.method || (request.method == "HEAD" && route.method == std::string_view{"GET"}))
        return (this->*route.answer)(request, std::move(exchange));
      HttpResponse response = refusal(405, "this path answers " + std::string{route.method} + " alone");
      response.headers.add("Allow", std::string{route.method});
      return exchange->respond(std::move(response));
    }
    exchange->respond(refusal(404, "there is nothing at " + without_controls(excerpt(path))));
  }

  [[nodiscard]] HttpResponse refuse(int status, std::string what) override {
    answers_.answered({}, status, what);
    return cors_.open(refusal(status, std::move(what)));
  }

  /// Called on the engine's thread.
  void happened(std::vector<GenerationEvent> events) override {
    transport_->post([this, events = std::move(events), told = Clock::now()] { take(events, told); });
  }

  void stopped(const std::string& why) override {
    transport_->post([this, why] {
      stopped_ = why;
      if (!setup_.log) return;
      std::string line;
      JsonWriter json(line);
      json.begin_object().key("event").value("engine_stopped").key("time").value(stamp());
      json.key("why").value(why).end_object();
      setup_.log(std::move(line));
    });
  }
  /// Why the engine stopped; empty while it runs.
  [[nodiscard]] const std::string& stopped_by() const { return stopped_; }

  /// From now on new requests get status 503.
  void drain() { draining_ = true; }
  /// Ends every request under way with an error: an event in a stream, otherwise status 503.
  void cut(const std::string& why) {
    std::vector<std::uint64_t> keys;
    for (const auto& [key, job] : jobs_) keys.push_back(key);
    for (const std::uint64_t key : keys) {
      const auto found = jobs_.find(key);
      if (found == jobs_.end()) continue; // its client left when it got another's end
      Job& job = found->second;
      GenerationEvent event;
      event.kind = GenerationEvent::Kind::failed;
      event.error = unavailable(why);
      event.retry_after_s = 1;
      metrics_.failed += 1;
      note_end(job, "drain", job.job.begun() ? 200 : event.error.status);
      job.job.take(0, event);
      job.job.flush();
      settle(found);
    }
  }
  /// Whether new requests are served.
  [[nodiscard]] bool ready() const { return !draining_ && engine_->ready(); }
  /// Requests under way.
  [[nodiscard]] std::size_t under_way() const { return jobs_.size(); }
  [[nodiscard]] const ServeMetrics& metrics() const { return metrics_; }

 private:
  /// Most bytes of a text for /tokenize, which take 0.2 s while all streams wait.
  static constexpr std::size_t most_tokenized = std::size_t{1} << 20;

  /// Requests per measurement of delivery time: all get the time of the last.
  static constexpr std::size_t timed_together = 32;

  using Clock = std::chrono::steady_clock;
  using Answering = void (OpenAiApp::*)(const HttpRequest&, std::unique_ptr<Exchange>);
  struct Route {
    const char* method;
    const char* path;
    Answering answer;
  };
  static const Route routes[12];

  struct Job {
    Job(CompletionJob job_, double begun_) : job(std::move(job_)), begun(begun_) {}
    CompletionJob job;
    std::vector<GenerationId> ids;
    std::vector<double> last;            ///< when each answer's last token came; below 0: none yet
    std::vector<AnsweredLength> lengths; ///< of each answer
    double begun;                        ///< when the request came
    std::size_t accepted = 0;            ///< answers that the engine accepted
    std::string name;                    ///< its id, for the log
    AskedOf asked;                       ///< for the log
    int status = 200;                    ///< HTTP status, for the log
    std::string reason;                  ///< why its answers ended, each reason once
  };

  [[nodiscard]] std::string why_not_ready() const {
    if (!stopped_.empty()) return "the engine has stopped: " + stopped_;
    return draining_ ? "the server is draining" : "the weights are still loading";
  }

  [[nodiscard]] static ApiError unavailable(std::string why) {
    ApiError error;
    error.status = 503;
    error.type = "server_error";
    error.message = std::move(why);
    return error;
  }
  /// Says when to ask again, unless the engine has stopped for good. A draining server's connections end, so that a
  /// client's next one reaches another server.
  [[nodiscard]] HttpResponse not_ready() const {
    HttpResponse response = error_response(unavailable(why_not_ready()));
    if (stopped_.empty()) response.headers.add("Retry-After", "1");
    response.close = draining_;
    return response;
  }

  // ---- endpoints

  void health(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    HttpResponse response;
    response.type = "text/plain";
    response.body = "ok\n";
    exchange->respond(std::move(response));
  }
  void ready(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    if (draining_ || !engine_->ready()) return exchange->respond(not_ready());
    HttpResponse response;
    response.type = "text/plain";
    response.body = "ready\n";
    exchange->respond(std::move(response));
  }
  void models(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    HttpResponse response;
    JsonWriter json(response.body);
    json.begin_object().key("object").value("list").key("data").begin_array().begin_object();
    json.key("id").value(setup_.model).key("object").value("model").key("created").value(setup_.created);
    json.key("owned_by").value("sluice").key("max_model_len").value(setup_.context);
    json.end_object().end_array().end_object();
    exchange->respond(std::move(response));
  }
  void prometheus(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    HttpResponse response;
    response.type = "text/plain; version=0.0.4; charset=utf-8";
    PrometheusWriter writer(response.body, {{"model_name", setup_.model}, {"engine", "0"}});
    metrics_.write(writer);
    answers_.write(writer);
    engine_->metrics(writer);
    if (setup_.metrics) setup_.metrics(writer);
    PrometheusWriter process(response.body, {}); // without labels, as other programs have them
    write_process_metrics(process);
    exchange->respond(std::move(response));
  }
  void live(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    HttpResponse response;
    response.type = "text/html; charset=utf-8";
    response.body = live_page();
    // Even if a prompt or a name injects markup, the page runs no other script and loads nothing.
    response.headers.add("Content-Security-Policy", live_page_policy);
    response.headers.add("Cache-Control", "no-cache");
    exchange->respond(std::move(response));
  }
  /// The data that the live page polls: the server's counters as in /metrics, and the engine's state.
  void live_state(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    HttpResponse response;
    response.body = "{\"server\":";
    JsonWriter json(response.body);
    json.begin_object().key("model").value(setup_.model).key("about").value(setup_.about);
    json.key("context").value(setup_.context).key("ready").value(engine_->ready()).key("draining").value(draining_);
    json.key("under_way").value(jobs_.size()).key("requests").value(metrics_.requests);
    json.key("refused").value(metrics_.refused).key("failed").value(metrics_.failed).key("left").value(metrics_.left);
    json.key("stopped").value(metrics_.stopped).key("cut").value(metrics_.cut);
    json.key("prompt_tokens").value(metrics_.prompt_tokens);
    json.key("generation_tokens").value(metrics_.generation_tokens);
    json.key("ttft_sum_s").value(metrics_.ttft.sum()).key("ttft_count").value(metrics_.ttft.count());
    json.key("itl_sum_s").value(metrics_.itl.sum()).key("itl_count").value(metrics_.itl.count()).end_object();
    response.body += ",\"engine\":" + engine_->live() + "}";
    response.headers.add("Cache-Control", "no-store");
    exchange->respond(std::move(response));
  }

  /// SLO attainment that other systems would have reached with the last requests.
  void what_if(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    if (!setup_.what_if) return exchange->respond(refusal(404, "this server replays nothing; expected --what-if"));
    HttpResponse response;
    response.body = setup_.what_if();
    response.headers.add("Cache-Control", "no-store");
    exchange->respond(std::move(response));
  }

  void tokenize(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    const Expected<nlohmann::json> body = parse_body(request.body);
    if (!body) return exchange->respond(error_response(detail::api_error("", body.error().line())));
    const Expected<std::string> text = JsonFields(*body, "the body").text("prompt", "a string");
    if (!text) return exchange->respond(error_response(detail::api_error("prompt", text.error())));
    if (text->size() > most_tokenized)
      return exchange->respond(error_response(
          detail::api_error("prompt", "the text has " + std::to_string(text->size()) + " bytes; expected at most " +
                                          std::to_string(most_tokenized))));
    const auto tokens = setup_.tokenizer->encode(*text);
    if (!tokens) return exchange->respond(error_response(detail::api_error("prompt", tokens.error())));
    HttpResponse response;
    JsonWriter json(response.body);
    json.begin_object().key("count").value(tokens->size()).key("max_model_len").value(setup_.context);
    json.key("tokens").begin_array();
    for (const std::int32_t token : *tokens) json.value(token);
    json.end_array().end_object();
    exchange->respond(std::move(response));
  }
  void detokenize(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    const Expected<nlohmann::json> body = parse_body(request.body);
    if (!body) return exchange->respond(error_response(detail::api_error("", body.error().line())));
    std::vector<CompletionPrompt> prompts;
    const auto tokens = body->find("tokens");
    bool good = tokens != body->end() && tokens->is_array();
    std::vector<std::int32_t> all;
    for (std::size_t i = 0; good && i < tokens->size(); ++i) {
      const nlohmann::json& token = (*tokens)[i];
      good = token.is_number_unsigned() && token.get<std::uint64_t>() < static_cast<std::uint64_t>(setup_.vocabulary);
      if (good) all.push_back(token.get<std::int32_t>());
    }
    if (!good)
      return exchange->respond(
          error_response(detail::api_error("tokens", "tokens is no list of tokens; expected whole numbers from 0 to " +
                                                         std::to_string(setup_.vocabulary - 1))));
    HttpResponse response;
    JsonWriter(response.body)
        .begin_object()
        .key("prompt")
        .value(replace_broken_utf8(setup_.tokenizer->decode(all)))
        .end_object();
    exchange->respond(std::move(response));
  }

  void chat_completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    complete(request, true, std::move(exchange));
  }
  void completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    complete(request, false, std::move(exchange));
  }

  // ---- completions

  void complete(const HttpRequest& request, bool chat, std::unique_ptr<Exchange> exchange) {
    Completion wanted;
    wanted.slo = setup_.slo;
    std::vector<std::vector<std::int32_t>> prompts;
    std::optional<ApiError> error = read_completion(request.body, chat, wanted);
    if (!error) error = read_slo_headers(request.headers, wanted.slo);
    if (!error) error = check_model(wanted);
    if (!error && wanted.logprobs >= 0 && !setup_.logprobs)
      error = detail::api_error("logprobs", "this engine is simulated: its tokens are drawn, and have no logprobs; "
                                            "expected none to be asked for");
    if (!error) error = encode(wanted, prompts);
    if (!error && (draining_ || !engine_->ready())) return exchange->respond(not_ready());
    ReplyHead head{.id = new_id(chat), .chat = chat, .created = setup_.now_s(), .model = setup_.model};
    if (error) return exchange->respond(error_response(*error));
    log_request(request, head.id, wanted, prompts);

    const std::uint64_t seed = wanted.seeded ? wanted.sampling.seed : setup_.random();
    const std::uint64_t key = ++last_job_;
    const int choices = wanted.choices;
    std::vector<Generation> generations;
    for (const std::vector<std::int32_t>& prompt : prompts) {
      for (int choice = 0; choice < choices; ++choice) {
        Generation generation;
        generation.prompt = prompt;
        const auto left = setup_.context - static_cast<std::int64_t>(prompt.size());
        generation.max_tokens = wanted.max_tokens.value_or(left);
        generation.ignore_end = wanted.ignore_end;
        generation.sampling = wanted.sampling;
        generation.sampling.seed = seed;
        generation.sequence = generations.size(); // the first answer is the same as that of a single run with this seed
        generation.logprobs = wanted.logprobs;
        generation.slo = wanted.slo;
        generation.priority = wanted.priority;
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
    job.asked = asked_of(request);
    job.last.assign(generations.size(), -1);
    for (const Generation& generation : generations)
      job.lengths.push_back({static_cast<std::int64_t>(generation.prompt.size()), 0, generation.max_tokens, choices});
    metrics_.requests += 1;
    for (std::size_t at = 0; at < generations.size(); ++at) {
      const GenerationId id{++last_generation_};
      job.ids.push_back(id);
      where_.emplace(id, std::pair{key, at});
      engine_->submit(id, std::move(generations[at]));
    }
  }

  [[nodiscard]] std::optional<ApiError> check_model(const Completion& wanted) const {
    if (wanted.model.empty() || wanted.model == setup_.model) return std::nullopt;
    ApiError error;
    error.status = 404;
    error.message =
        "there is no model '" + without_controls(excerpt(wanted.model)) + "'; expected '" + setup_.model + "'";
    error.param = "model";
    error.code = "model_not_found";
    return error;
  }

  /// Refuses a text that is too long for the context however it is tokenized. Tokenizing ten megabytes would take a
  /// second, during which all streams wait.
  [[nodiscard]] std::optional<ApiError> check_length(const char* param, std::string_view text) const {
    const std::size_t most = static_cast<std::size_t>(setup_.context) * longest_token_;
    if (text.size() <= most) return std::nullopt;
    ApiError error = detail::api_error(
        param, "this model's maximum context length is " + std::to_string(setup_.context) + " tokens of at most " +
                   std::to_string(longest_token_) + " bytes; the prompt has " + std::to_string(text.size()) + " bytes");
    error.code = "context_length_exceeded";
    return error;
  }

  /// Tokenizes the prompts; an error if a prompt and its answer exceed the context.
  [[nodiscard]] std::optional<ApiError> encode(Completion& wanted, std::vector<std::vector<std::int32_t>>& into) const {
    if (wanted.chat) {
      if (!setup_.chat) return detail::api_error("messages", "this model has no chat format; expected /v1/completions");
      const Expected<std::string> text = chat_text(*setup_.chat, wanted.messages);
      if (!text) return detail::api_error("messages", text.error().line());
      if (std::optional<ApiError> error = check_length("messages", *text)) return error;
      auto tokens = setup_.tokenizer->encode(*text, AddSpecial::no);
      if (!tokens) return detail::api_error("messages", tokens.error());
      into.push_back(std::move(*tokens));
    }
    for (CompletionPrompt& prompt : wanted.prompts) {
      if (prompt.is_tokens) {
        into.push_back(std::move(prompt.tokens));
        continue;
      }
      if (std::optional<ApiError> error = check_length("prompt", prompt.text)) return error;
      auto tokens = setup_.tokenizer->encode(prompt.text);
      if (!tokens) return detail::api_error("prompt", tokens.error());
      into.push_back(std::move(*tokens));
    }
    for (const std::vector<std::int32_t>& tokens : into) {
      const char* const param = wanted.chat ? "messages" : "prompt";
      if (tokens.empty()) return detail::api_error(param, "the prompt has no tokens; expected at least one");
      for (const std::int32_t token : tokens)
        if (token < 0 || token >= setup_.vocabulary)
          return detail::api_error(param, "the prompt has the token " + std::to_string(token) +
                                              "; expected tokens from 0 to " + std::to_string(setup_.vocabulary - 1));
      const auto prompt = static_cast<std::int64_t>(tokens.size());
      const std::int64_t answer = wanted.max_tokens.value_or(1);
      if (prompt + answer <= setup_.context) continue;
      ApiError error = detail::api_error(
          param, "this model's maximum context length is " + std::to_string(setup_.context) +
                     " tokens; the request has " + std::to_string(prompt + answer) + " (" + std::to_string(prompt) +
                     " in the prompt, " + std::to_string(answer) + " in the completion)");
      error.code = "context_length_exceeded";
      return error;
    }
    return std::nullopt;
  }

  // ---- events

  void take(const std::vector<GenerationEvent>& events, Clock::time_point told) {
    const double now = setup_.clock();
    std::vector<std::pair<std::uint64_t, std::int64_t>> touched; // requests, and how many tokens each got
    for (const GenerationEvent& event : events) {
      const auto found = where_.find(event.id);
      if (found == where_.end()) continue; // the client has left
      const auto [key, at] = found->second;
      Job& job = jobs_.at(key);
      const std::int64_t before = job.job.usage().completion;
      const bool was_over = job.job.over() || job.job.stopped(at);
      job.job.take(at, event);
      if (!was_over) count(job, at, event, job.job.usage().completion - before, now);
      if (touched.empty() || touched.back().first != key) touched.emplace_back(key, 0);
      touched.back().second += static_cast<std::int64_t>(event.tokens.size());
    }
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < touched.size(); ++i) {
      const auto found = jobs_.find(touched[i].first);
      if (found != jobs_.end()) {
        found->second.job.flush();
        settle(found);
      }
      tokens += touched[i].second;
      if (i % timed_together == timed_together - 1 || i + 1 == touched.size())
        time_delivery(std::exchange(tokens, 0), told);
    }
  }
  /// Measures the delivery time of `tokens`, passed to the transport since the last call: it sends them before it runs
  /// later posted work.
  void time_delivery(std::int64_t tokens, Clock::time_point told) {
    if (tokens == 0) return;
    transport_->post([this, tokens, told] {
      metrics_.delivery.observe(std::chrono::duration<double>(Clock::now() - told).count(), tokens);
    });
  }

  /// Counts as the client does. `tokens`: the event's tokens that are part of the answer, without those after a stop
  /// string.
  void count(Job& job, std::size_t at, const GenerationEvent& event, std::int64_t tokens, double now) {
    switch (event.kind) {
    case GenerationEvent::Kind::accepted: // counted once all are accepted: one refusal refuses the request
      if (++job.accepted == job.ids.size()) metrics_.prompt_tokens += job.job.usage().prompt;
      break;
    case GenerationEvent::Kind::refused:
      metrics_.refused += 1;
      note_end(job, "refused", event.error.status);
      break;
    case GenerationEvent::Kind::failed:
      metrics_.failed += 1;
      note_end(job, "error", job.job.begun() ? 200 : event.error.status);
      break;
    case GenerationEvent::Kind::ended:
      count_end(job, at, job.job.stopped(at) ? FinishReason::stop : event.reason, now);
      break;
    case GenerationEvent::Kind::tokens:
      if (tokens == 0) break;
      metrics_.generation_tokens += tokens;
      job.lengths[at].generated += tokens;
      (job.last[at] < 0 ? metrics_.ttft : metrics_.itl).observe(now - (job.last[at] < 0 ? job.begun : job.last[at]));
      if (tokens > 1) metrics_.itl.observe(0, tokens - 1);
      job.last[at] = now;
      if (job.job.stopped(at)) count_end(job, at, FinishReason::stop, now); // the engine sends no `ended` for it
      break;
    }
  }

  void count_end(Job& job, std::size_t at, FinishReason reason, double now) {
    metrics_.ended(reason, now - job.begun, job.lengths[at]);
    note_end(job, reason == FinishReason::stop ? "stop" : "length", 200);
  }
  /// For the log. A request with several answers may end for several reasons.
  static void note_end(Job& job, std::string_view reason, int status) {
    if (job.reason.find(reason) == std::string::npos) job.reason.append(job.reason.empty() ? "" : ",").append(reason);
    job.status = status;
  }

  using Jobs = std::unordered_map<std::uint64_t, Job>;

  /// Cancels generations that are no longer needed, and forgets a request that is over.
  void settle(Jobs::iterator at) {
    Job& job = at->second;
    for (const std::size_t answer : job.job.to_cancel()) {
      engine_->cancel(job.ids[answer]);
      where_.erase(job.ids[answer]);
    }
    if (!job.job.over()) return;
    log_end(job);
    for (const GenerationId id : job.ids) where_.erase(id);
    jobs_.erase(at);
  }

  void leave(std::uint64_t key) {
    const auto found = jobs_.find(key);
    if (found == jobs_.end()) return;
    metrics_.left += 1;
    if (found->second.accepted < found->second.ids.size()) metrics_.prompt_tokens += found->second.job.usage().prompt;
    note_end(found->second, "abort", found->second.job.begun() ? 200 : AnswerLog::client_left);
    found->second.job.abandon();
    // The caller is the exchange, which the job owns: the job must not end before this call returns.
    for (const std::size_t answer : found->second.job.to_cancel()) {
      engine_->cancel(found->second.ids[answer]);
      where_.erase(found->second.ids[answer]);
    }
    transport_->post([this, key] {
      const auto still = jobs_.find(key);
      if (still != jobs_.end()) settle(still);
    });
  }

  // ---- the rest

  /// Requests to the model need a key. Probes, metrics and the live page contain no client's text, and the programs
  /// that use them have no key.
  [[nodiscard]] static bool needs_key(std::string_view path) {
    return path.starts_with("/v1/") || path == "/tokenize" || path == "/detokenize";
  }
  [[nodiscard]] static HttpResponse refusal(int status, std::string what) {
    ApiError error;
    error.status = status;
    error.message = std::move(what);
    if (status >= 500) error.type = "server_error";
    return error_response(error);
  }
  [[nodiscard]] std::string new_id(bool chat) const {
    std::string id = chat ? "chatcmpl-" : "cmpl-";
    for (std::uint64_t part : {setup_.random(), setup_.random()})
      for (int i = 0; i < 12; ++i, part >>= 4U) id += "0123456789abcdef"[part & 15U];
    return id;
  }
  /// The wall clock, for the log.
  [[nodiscard]] std::string stamp() const { return iso_time(setup_.now_ms ? setup_.now_ms() : setup_.now_s() * 1000); }
  /// What the log says of a request.
  [[nodiscard]] AskedOf asked_of(const HttpRequest& request) const {
    AskedOf asked;
    for (const Route& route : routes)
      if (request.path() == route.path) asked.route = route.path;
    asked.method = request.method;
    asked.path = request.path();
    asked.request_id = request.headers.find("x-request-id");
    asked.traceparent = request.headers.find("traceparent");
    asked.begun = setup_.clock();
    return asked;
  }
  void log_request(const HttpRequest& request, const std::string& id, const Completion& wanted,
                   const std::vector<std::vector<std::int32_t>>& prompts) const {
    if (!setup_.log) return;
    std::int64_t tokens = 0;
    for (const auto& prompt : prompts) tokens += static_cast<std::int64_t>(prompt.size());
    std::string line;
    JsonWriter json(line);
    json.begin_object().key("event").value("request").key("time").value(stamp()).key("id").value(id);
    json.key("path").value(request.path()).key("prompt_tokens").value(tokens).key("n").value(wanted.choices);
    json.key("max_tokens").value(wanted.max_tokens.value_or(-1)).key("stream").value(wanted.stream);
    asked_of(request).write(json);
    json.key("generation").value(last_generation_ + 1).end_object(); // the name of its first answer in other lines
    setup_.log(std::move(line));
  }
  void log_end(const Job& job) const {
    if (!setup_.log) return;
    std::string line;
    JsonWriter json(line);
    json.begin_object().key("event").value("end").key("time").value(stamp()).key("id").value(job.name);
    job.asked.write(json);
    json.key("path").value(job.asked.path).key("status").value(job.status).key("reason").value(job.reason);
    json.key("completion_tokens").value(job.job.usage().completion);
    json.key("seconds").value(setup_.clock() - job.begun).end_object();
    setup_.log(std::move(line));
  }

  OpenAiSetup setup_;
  Cors cors_;
  HttpTransport* transport_;
  GenerationEngine* engine_;
  ServeMetrics metrics_;
  AnswerLog answers_;
  Jobs jobs_;
  std::unordered_map<GenerationId, std::pair<std::uint64_t, std::size_t>> where_; ///< each generation's job and answer
  std::uint64_t last_job_ = 0;
  std::uint64_t last_generation_ = 0;
  std::size_t longest_token_ = 1; ///< bytes
  bool draining_ = false;
  std::string stopped_; ///< why the engine stopped; empty while it runs
};

inline const OpenAiApp::Route OpenAiApp::routes[12] = {
    {"POST", "/v1/chat/completions", &OpenAiApp::chat_completions},
    {"POST", "/v1/completions", &OpenAiApp::completions},
    {"GET", "/v1/models", &OpenAiApp::models},
    {"POST", "/tokenize", &OpenAiApp::tokenize},
    {"POST", "/detokenize", &OpenAiApp::detokenize},
    {"GET", "/health", &OpenAiApp::health},
    {"GET", "/ready", &OpenAiApp::ready},
    {"GET", "/metrics", &OpenAiApp::prometheus},
    {"GET", "/live", &OpenAiApp::live},
    {"GET", "/live/state", &OpenAiApp::live_state},
    {"GET", "/whatif", &OpenAiApp::what_if},
    {"GET", "/ping", &OpenAiApp::health},
};

} // namespace sluice
