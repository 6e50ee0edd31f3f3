// SPDX-License-Identifier: Apache-2.0
// OpenAiApp: the server's HTTP endpoints, in front of any GenerationEngine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/answer_headers.hpp"
#include "sluice/serve/answer_log.hpp"
#include "sluice/serve/api_keys.hpp"
#include "sluice/serve/completion_job.hpp"
#include "sluice/serve/cors.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/live_page.hpp"
#include "sluice/serve/nlohmann/openai_headers.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"
#include "sluice/serve/nlohmann/responses_request.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/process_metrics.hpp"
#include "sluice/serve/serve_metrics.hpp"
#include "sluice/serve/wall_time.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// The model that a server offers, and the rules for clients.
struct OpenAiSetup {
  std::string model;                    ///< the name that clients use
  std::string fingerprint;              ///< system_fingerprint of answers: version and weights; empty: none
  std::string about;                    ///< a line on the live page: the system and its device
  const Tokenizer* tokenizer = nullptr; ///< outlives the app
  std::optional<ChatFormat> chat;       ///< none: /v1/chat/completions is refused
  int vocabulary = 0;                   ///< the model's number of tokens
  std::int64_t context = 0;             ///< most tokens of a prompt and its answer together
  Slo slo;                              ///< of requests without an SLO of their own
  std::vector<std::string> api_keys;    ///< keys without a name or limits
  std::shared_ptr<ApiKeys> keys;        ///< instead of `api_keys`: keys that can change while the server runs
  std::string cors;                     ///< the origin whose pages may use the server, or *; empty: none
  bool logprobs = true;                 ///< whether tokens have log-probabilities; if not, requests for them fail
  bool rules = false; ///< whether the decoder applies LogitRules and scores prompts: a DecoderRunner's does
  UnknownFields unknown_fields = UnknownFields::refused; ///< in requests' bodies
  std::int64_t created = 0;                              ///< when the model was created, seconds since 1970
  std::function<std::int64_t()> now_s;                   ///< wall clock, seconds since 1970
  std::function<std::int64_t()> now_ms;                  ///< the same in milliseconds, for the log; empty: of `now_s`
  std::function<double()> clock;                         ///< seconds, for latencies
  std::function<std::uint64_t()> random;                 ///< for ids, and for seeds of requests without one
  std::function<void(std::string)> log;                  ///< called with one JSON object per event; may be empty
  std::function<void(PrometheusWriter&)> transport_metrics; ///< writes those of the connections; may be empty
  std::function<std::string()> what_if;                     ///< returns the JSON of /whatif at once; empty: no /whatif
  std::function<void(PrometheusWriter&)> metrics;           ///< adds the program's own to /metrics; may be empty
};

/// Runs on the transport's thread, to which the engine's events are posted.
class OpenAiApp final : public HttpApp, public GenerationListener {
 public:
  OpenAiApp(OpenAiSetup setup, HttpTransport& transport, GenerationEngine& engine)
      : setup_(std::move(setup)),
        cors_(setup_.cors),
        headers_(setup_.now_s),
        transport_(&transport),
        engine_(&engine),
        answers_(
            setup_.log, [this] { return stamp(); }, setup_.clock) {
    SLUICE_ASSERT(setup_.tokenizer != nullptr, "a model with a tokenizer");
    if (setup_.keys == nullptr) {
      std::vector<ApiKey> keys;
      for (const std::string& secret : setup_.api_keys)
        keys.push_back({.name = "key " + std::to_string(keys.size() + 1), .secret = secret});
      setup_.keys = std::make_shared<ApiKeys>(keys, setup_.clock());
    }
    const Vocabulary& vocabulary = setup_.tokenizer->vocabulary();
    for (std::int32_t token = 0; token < vocabulary.size(); ++token)
      longest_token_ = std::max(longest_token_, vocabulary.text_of(token).size());
  }

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override {
    const std::string_view given = request.headers.find("x-request-id");
    const bool names_itself = is_request_id(given);
    request_id_ = names_itself ? std::string{given} : new_id("req-");
    exchange =
        headers_.with(cors_.open(answers_.noting(asked_of(request, request_id_), std::move(exchange))), request_id_);
    const std::string_view path = request.path();
    if (request.method == "OPTIONS" && cors_.allowed()) return exchange->respond(Cors::preflight(request));
    if (std::optional<HttpResponse> refused = check_key(request)) return exchange->respond(*std::move(refused));
    if (const std::shared_ptr<KeyAccount> account = account_of(request)) {
      if (request.method == "POST") account->take_request(setup_.clock());
      exchange = std::make_unique<AccountedExchange>(account, setup_.clock, std::move(exchange));
    }
    if (!names_itself && !given.empty())
      return exchange->respond(error_response(detail::api_error(
          "x-request-id", "x-request-id is '" + excerpt(given) + "'; expected 1 to 128 visible ASCII characters")));
    for (const Route& route : routes()) {
      if (!route.leads_to(path)) continue;
      if (request.method == "POST" && request.method == route.method && !says_json(request.headers))
        return exchange->respond(refusal(400, "the body's Content-Type is '" +
                                                  excerpt(request.headers.find("Content-Type")) +
                                                  "'; expected application/json"));
      if (request.method == route.method || (request.method == "HEAD" && route.method == "GET"))
        return (this->*route.answer)(request, std::move(exchange));
      HttpResponse response = refusal(405, "this path answers " + std::string{route.method} + " alone");
      response.headers.add("Allow", std::string{route.method});
      return exchange->respond(std::move(response));
    }
    exchange->respond(refusal(404, "there is nothing at " + without_controls(excerpt(path))));
  }

  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override {
    std::optional<HttpResponse> refused = check_key(head);
    if (!refused) return std::nullopt;
    const std::string_view given = head.headers.find("x-request-id");
    std::string id = is_request_id(given) ? std::string{given} : new_id("req-");
    answers_.answered(asked_of(head, id), refused->status, refused->why);
    return cors_.open(headers_.with(*std::move(refused), std::move(id)));
  }
  [[nodiscard]] bool watches(const HttpRequest& head) const override {
    for (const char* path : {"/health", "/ready", "/ping", "/metrics"})
      if (head.path() == path) return head.method == "GET" || head.method == "HEAD";
    return false;
  }
  [[nodiscard]] HttpResponse refuse(int status, std::string what) override {
    std::string id = new_id("req-");
    answers_.answered({.request_id = id}, status, what);
    return cors_.open(headers_.with(refusal(status, std::move(what)), std::move(id)));
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
    std::string_view method;
    std::string_view path; ///< one that ends with a slash is the beginning of many
    Answering answer;

    [[nodiscard]] bool leads_to(std::string_view asked) const {
      return path.ends_with('/') ? asked.starts_with(path) && asked != path : asked == path;
    }
  };
  /// Every endpoint; docs/serving.md lists them.
  [[nodiscard]] static std::span<const Route> routes() {
    static constexpr Route all[]{{"POST", "/v1/chat/completions", &OpenAiApp::chat_completions},
                                 {"POST", "/v1/completions", &OpenAiApp::completions},
                                 {"POST", "/v1/responses", &OpenAiApp::responses},
                                 {"GET", "/v1/models", &OpenAiApp::models},
                                 {"GET", "/v1/models/", &OpenAiApp::model},
                                 {"POST", "/tokenize", &OpenAiApp::tokenize},
                                 {"POST", "/detokenize", &OpenAiApp::detokenize},
                                 {"GET", "/health", &OpenAiApp::health},
                                 {"GET", "/ping", &OpenAiApp::health},
                                 {"GET", "/ready", &OpenAiApp::ready},
                                 {"GET", "/metrics", &OpenAiApp::prometheus},
                                 {"GET", "/live", &OpenAiApp::live},
                                 {"GET", "/live/state", &OpenAiApp::live_state},
                                 {"GET", "/whatif", &OpenAiApp::what_if}};
    return all;
  }

  struct Job {
    Job(CompletionJob job_, double begun_) : job(std::move(job_)), begun(begun_) {}
    CompletionJob job;
    std::vector<GenerationId> ids;
    std::vector<double> last;            ///< when each answer's last token came; below 0: none yet
    std::vector<AnsweredLength> lengths; ///< of each answer
    double begun;                        ///< when the request came
    std::size_t accepted = 0;            ///< answers that the engine accepted
    std::string name;                    ///< its id, for the log
    std::shared_ptr<KeyAccount> account; ///< its key's; null: it needs none
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
    json.begin_object().key("object").value("list").key("data").begin_array();
    write_model(json);
    json.end_array().end_object();
    exchange->respond(std::move(response));
  }
  void model(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    const std::string name = unescaped(request.path().substr(std::string_view{"/v1/models/"}.size()));
    if (const std::optional<ApiError> error = check_model(name)) return exchange->respond(error_response(*error));
    HttpResponse response;
    JsonWriter json(response.body);
    write_model(json);
    exchange->respond(std::move(response));
  }
  void write_model(JsonWriter& json) const {
    json.begin_object().key("id").value(setup_.model).key("object").value("model");
    json.key("created").value(setup_.created).key("owned_by").value("sluice");
    json.key("max_model_len").value(setup_.context).end_object();
  }
  /// A path with its %XX: clients escape the slash of a model's name, or not.
  [[nodiscard]] static std::string unescaped(std::string_view path) {
    std::string text;
    for (std::size_t at = 0; at < path.size(); ++at) {
      unsigned byte = 0;
      const char* const digits = path.data() + at + 1;
      if (path[at] == '%' && at + 2 < path.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        text += static_cast<char>(byte);
        at += 2;
      } else {
        text += path[at];
      }
    }
    return text;
  }
  void prometheus(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
    HttpResponse response;
    response.type = "text/plain; version=0.0.4; charset=utf-8";
    PrometheusWriter writer(response.body, {{"model_name", setup_.model}, {"engine", "0"}});
    metrics_.write(writer);
    answers_.write(writer);
    if (setup_.transport_metrics) setup_.transport_metrics(writer);
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
    static constexpr std::string_view known[]{"prompt", "model", "add_special_tokens"};
    if (const auto error = check_fields(*body, "/tokenize", known)) return exchange->respond(error_response(*error));
    AddSpecial add = AddSpecial::yes;
    if (const JsonFields fields(*body, "the body"); fields.has("add_special_tokens")) {
      const Expected<bool> wanted = fields.flag("add_special_tokens");
      if (!wanted) return exchange->respond(error_response(detail::api_error("add_special_tokens", wanted.error())));
      add = AddSpecial{*wanted};
    }
    const Expected<std::string> text = JsonFields(*body, "the body").text("prompt", "a string");
    if (!text) return exchange->respond(error_response(detail::api_error("prompt", text.error())));
    if (text->size() > most_tokenized)
      return exchange->respond(error_response(
          detail::api_error("prompt", "the text has " + std::to_string(text->size()) + " bytes; expected at most " +
                                          std::to_string(most_tokenized))));
    const auto tokens = setup_.tokenizer->encode(*text, add);
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
    static constexpr std::string_view known[]{"tokens", "model"};
    if (const auto error = check_fields(*body, "/detokenize", known)) return exchange->respond(error_response(*error));
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

  [[nodiscard]] std::optional<ApiError> check_fields(const nlohmann::json& body, std::string_view path,
                                                     std::span<const std::string_view> known) const {
    if (setup_.unknown_fields == UnknownFields::ignored) return std::nullopt;
    return detail::only_fields(body, "", path, known);
  }

  void chat_completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    complete(request, Kind::chat, std::move(exchange));
  }
  void responses(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    complete(request, Kind::response, std::move(exchange));
  }
  void completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
    complete(request, Kind::text, std::move(exchange));
  }

  // ---- completions

  enum class Kind : std::uint8_t { chat, text, response };

  void complete(const HttpRequest& request, Kind kind, std::unique_ptr<Exchange> exchange) {
    const bool chat = kind != Kind::text;
    Completion wanted;
    wanted.slo = setup_.slo;
    std::vector<std::vector<std::int32_t>> prompts;
    std::optional<ApiError> error = kind == Kind::response
                                        ? read_response_request(request.body, wanted, setup_.unknown_fields)
                                        : read_completion(request.body, chat, wanted, setup_.unknown_fields);
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
    log_request(request, head.id, wanted, prompts);

    const std::uint64_t seed = wanted.seeded ? wanted.sampling.seed : setup_.random();
    const std::uint64_t key = ++last_job_;
    const int choices = wanted.choices;
    const std::shared_ptr<const LogitRules> rules =
        wanted.rules.empty() ? nullptr : std::make_shared<const LogitRules>(wanted.rules);
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
        generation.sequence = generations.size(); // the first answer is the same as that of a single run with this seed
        generation.logprobs = wanted.logprobs;
        generation.scores_prompt = wanted.scores_prompt();
        generation.rules = rules;
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
    job.account = account_of(request);
    job.asked = asked_of(request, request_id_);
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

  [[nodiscard]] std::optional<ApiError> check_model(const std::string& name) const {
    if (name.empty() || name == setup_.model) return std::nullopt;
    ApiError error;
    error.status = 404;
    error.message = "there is no model '" + without_controls(excerpt(name)) + "'; expected '" + setup_.model + "'";
    error.param = "model";
    error.code = "model_not_found";
    return error;
  }

  /// Completes the rules with what needs the tokenizer; an error if a token is none of the model's, or the decoder
  /// applies no rules.
  [[nodiscard]] std::optional<ApiError> read_rules(Completion& wanted) const {
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
      // As in vLLM: the word at the beginning of a text, and after a space if that is as many other tokens.
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
      return detail::api_error(param,
                               "logprobs of an echoed prompt are not supported by this server's engine; expected "
                               "no echo, or --backend cpu");
    return detail::api_error(param, std::string{param} +
                                        " is not supported by this server's engine, which is simulated "
                                        "or samples on a GPU; expected none, or --backend cpu");
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
      const std::int64_t answer = std::max(std::int64_t{1}, wanted.max_tokens.value_or(1));
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
      if (++job.accepted == job.ids.size()) {
        metrics_.prompt_tokens += job.job.usage().prompt;
        if (job.account) job.account->take_tokens(job.job.usage().prompt, now);
      }
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
      if (job.account) job.account->take_tokens(tokens, now);
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
  /// The account of the request's key; null: the request needs none.
  [[nodiscard]] std::shared_ptr<KeyAccount> account_of(const HttpRequest& request) const {
    if (setup_.keys->empty() || !needs_key(request.path())) return nullptr;
    return setup_.keys->find(request.headers);
  }
  /// The refusal of a request without a key, or whose key has used up its limits; changes nothing.
  [[nodiscard]] std::optional<HttpResponse> check_key(const HttpRequest& request) const {
    if (setup_.keys->empty() || !needs_key(request.path())) return std::nullopt;
    if (request.method == "OPTIONS" && cors_.allowed()) return std::nullopt;
    const std::shared_ptr<KeyAccount> account = setup_.keys->find(request.headers);
    if (account != nullptr) {
      if (request.method != "POST") return std::nullopt;
      const double now = setup_.clock();
      const std::optional<ApiError> error = account->why_not(now);
      if (!error) return std::nullopt;
      HttpResponse response = error_response(*error);
      account->tell(response.headers, now, true);
      return response;
    }
    ApiError error;
    error.status = 401;
    error.message = "the API key is missing or wrong; expected the header Authorization: Bearer KEY";
    error.code = "invalid_api_key";
    return error_response(error);
  }
  [[nodiscard]] static HttpResponse refusal(int status, std::string what) {
    ApiError error;
    error.status = status;
    error.message = std::move(what);
    if (status >= 500) error.type = "server_error";
    return error_response(error);
  }
  [[nodiscard]] std::string new_id(std::string id) const {
    for (std::uint64_t part : {setup_.random(), setup_.random()})
      for (int i = 0; i < 12; ++i, part >>= 4U) id += "0123456789abcdef"[part & 15U];
    return id;
  }
  /// The wall clock, for the log.
  [[nodiscard]] std::string stamp() const { return iso_time(setup_.now_ms ? setup_.now_ms() : setup_.now_s() * 1000); }
  /// What the log says of a request.
  [[nodiscard]] AskedOf asked_of(const HttpRequest& request, std::string id) const {
    AskedOf asked;
    for (const Route& route : routes())
      if (route.leads_to(request.path())) asked.route = route.path;
    asked.method = request.method;
    asked.path = request.path();
    asked.request_id = std::move(id);
    if (const std::shared_ptr<KeyAccount> account = account_of(request)) asked.key = account->name();
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
    asked_of(request, request_id_).write(json);
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
  AnswerHeaders headers_;
  HttpTransport* transport_;
  GenerationEngine* engine_;
  ServeMetrics metrics_;
  AnswerLog answers_;
  Jobs jobs_;
  std::unordered_map<GenerationId, std::pair<std::uint64_t, std::size_t>> where_; ///< each generation's job and answer
  std::string request_id_; ///< of the request that is being handled
  std::uint64_t last_job_ = 0;
  std::uint64_t last_generation_ = 0;
  std::size_t longest_token_ = 1; ///< bytes
  bool draining_ = false;
  std::string stopped_; ///< why the engine stopped; empty while it runs
};

} // namespace sluice
