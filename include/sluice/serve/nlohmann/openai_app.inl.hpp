// SPDX-License-Identifier: Apache-2.0
// OpenAiApp: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/text.hpp"
#include "sluice/report/pages.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/process.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace sluice {

SLUICE_SERVER_INLINE OpenAiApp::OpenAiApp(OpenAiSetup setup, HttpTransport& transport, GenerationEngine& engine)
    : setup_(std::move(setup)),
      cors_(setup_.cors),
      headers_(setup_.now_s),
      transport_(&transport),
      engine_(&engine),
      queue_(engine, setup_.clock, setup_.places),
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

SLUICE_SERVER_INLINE void OpenAiApp::handle(HttpRequest request, std::unique_ptr<Exchange> exchange) {
  const std::string_view given = request.headers.find("x-request-id");
  request_id_ = id_of(request);
  exchange =
      headers_.with(cors_.open(answers_.noting(asked_of(request, request_id_), std::move(exchange))), request_id_);
  const std::string_view path = request.path();
  if (request.method == "OPTIONS" && cors_.allowed()) return exchange->respond(Cors::preflight(request));
  if (std::optional<HttpResponse> refused = check_key(request)) return exchange->respond(*std::move(refused));
  if (const std::shared_ptr<KeyAccount> account = account_of(request)) {
    if (request.method == "POST") account->take_request(setup_.clock());
    exchange = std::make_unique<AccountedExchange>(account, setup_.clock, std::move(exchange));
  }
  if (!is_request_id(given) && !given.empty())
    return exchange->respond(error_response(detail::api_error(
        "x-request-id", "x-request-id is '" + excerpt(given) + "'; expected 1 to 128 visible ASCII characters")));
  if (const std::string_view session = request.headers.find("x-session-id");
      request.headers.has("x-session-id") && !is_request_id(session))
    return exchange->respond(error_response(detail::api_error(
        "x-session-id", "x-session-id is '" + excerpt(session) + "'; expected 1 to 128 visible ASCII characters")));
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

SLUICE_SERVER_INLINE std::optional<HttpResponse> OpenAiApp::refuse_head(const HttpRequest& head) {
  std::optional<HttpResponse> refused = check_key(head);
  if (!refused) return std::nullopt;
  return adopt(*std::move(refused), head);
}

SLUICE_SERVER_INLINE bool OpenAiApp::watches(const HttpRequest& head) const {
  for (const char* path : {"/health", "/ready", "/ping", "/metrics"})
    if (head.path() == path) return head.method == "GET" || head.method == "HEAD";
  return false;
}

SLUICE_SERVER_INLINE HttpResponse OpenAiApp::refuse(int status, std::string what, const HttpRequest* head) {
  if (head != nullptr) return adopt(refusal(status, std::move(what)), *head);
  std::string id = new_id("req-");
  AskedOf unread;
  unread.request_id = id;
  answers_.answered(unread, status, what);
  return cors_.open(headers_.with(refusal(status, std::move(what)), std::move(id)));
}

SLUICE_SERVER_INLINE HttpResponse OpenAiApp::adopt(HttpResponse response, const HttpRequest& request) {
  std::string id = id_of(request);
  answers_.answered(asked_of(request, id), response.status, response.why);
  return cors_.open(headers_.with(std::move(response), std::move(id)));
}

SLUICE_SERVER_INLINE void OpenAiApp::happened(std::vector<GenerationEvent> events) {
  transport_->post([this, events = std::move(events), told = setup_.clock()] { take(events, told); });
}

SLUICE_SERVER_INLINE void OpenAiApp::stopped(const std::string& why) {
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

SLUICE_SERVER_INLINE void OpenAiApp::cut(const std::string& why) {
  std::vector<std::uint64_t> keys;
  for (const auto& [key, job] : jobs_) keys.push_back(key);
  for (const std::uint64_t key : keys) {
    const auto found = jobs_.find(key);
    if (found == jobs_.end()) continue; // its client disconnected when it received the end of another request
    Job& job = found->second;
    GenerationEvent event;
    event.kind = GenerationEvent::Kind::failed;
    event.error = unavailable(why);
    event.retry_after_s = 1;
    metrics_.failed += 1;
    note_end(job, "drain", job.job.begun() ? 200 : event.error.status);
    for (const GenerationId id : job.ids) metrics_.slos.fail(id);
    job.job.fail(event);
    job.job.flush();
    settle(found);
  }
}

SLUICE_SERVER_INLINE bool OpenAiApp::Route::leads_to(std::string_view asked) const {
  return path.size() > 1 && path.ends_with('/') ? asked.starts_with(path) && asked != path : asked == path;
}

SLUICE_SERVER_INLINE std::span<const OpenAiApp::Route> OpenAiApp::routes() {
  static constexpr Route all[]{{"GET", "/", &OpenAiApp::index},
                               {"POST", "/v1/chat/completions", &OpenAiApp::chat_completions},
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

SLUICE_SERVER_INLINE std::string OpenAiApp::why_not_ready() const {
  if (!stopped_.empty()) return "the engine has stopped: " + stopped_;
  return draining_ ? "the server is draining" : "the weights are still loading";
}

SLUICE_SERVER_INLINE ApiError OpenAiApp::unavailable(std::string why) {
  ApiError error;
  error.status = 503;
  error.type = "server_error";
  error.message = std::move(why);
  return error;
}

SLUICE_SERVER_INLINE HttpResponse OpenAiApp::held_back(const FairQueue::Full& full) const {
  ApiError error;
  error.status = 429;
  error.type = "rate_limit_error";
  error.code = "queue_full";
  error.message = full.own_limit ? "the key's queue is full: " + std::to_string(full.held) +
                                       " of its answers wait for its own limit of answers at once; expected below "
                                 : "the queue is full: " + std::to_string(full.held) +
                                       " answers wait for the places that the keys share; expected below ";
  error.message += std::to_string(setup_.most_held);
  HttpResponse response = error_response(error);
  add_retry_after(response.headers, full.retry_s);
  return response;
}

SLUICE_SERVER_INLINE HttpResponse OpenAiApp::not_ready() const {
  HttpResponse response = error_response(unavailable(why_not_ready()));
  if (stopped_.empty()) response.headers.add("Retry-After", "1");
  response.close = draining_;
  return response;
}

SLUICE_SERVER_INLINE void OpenAiApp::take(const std::vector<GenerationEvent>& events, double told) {
  const double now = setup_.clock();
  std::vector<Passed> passed;
  std::vector<std::pair<std::uint64_t, std::size_t>> touched; // each request, and the position in `passed` after its
                                                              // last entry
  // An exception is one of a request's answer: others' events must not be lost with it.
  const auto give_up = [this](Job& job) {
    metrics_.failed += 1;
    note_end(job, "error", job.job.begun() ? 200 : 500);
    job.error = "its answer could not be written";
    for (const GenerationId id : job.ids) metrics_.slos.fail(id);
    job.job.abandon();
  };
  for (const GenerationEvent& event : events) {
    using Is = GenerationEvent::Kind;
    if (event.kind == Is::ended || event.kind == Is::refused || event.kind == Is::failed) queue_.left(event.id);
    const auto found = where_.find(event.id);
    if (found == where_.end()) continue; // the client has disconnected
    const auto [key, at] = found->second;
    Job& job = jobs_.at(key);
    const std::int64_t before = job.job.usage().completion;
    const bool was_over = job.job.over() || job.job.stopped(at);
    try {
      job.job.take(at, event);
    } catch (...) {
      give_up(job);
    }
    const std::int64_t tokens = job.job.usage().completion - before;
    if (!was_over) {
      count(job, at, event, tokens, now);
      const bool ends = event.kind == GenerationEvent::Kind::ended || job.job.stopped(at);
      if (tokens > 0 || ends) passed.push_back({event.id, tokens, event.due_s < 0 ? told : event.due_s, ends});
    }
    if (touched.empty() || touched.back().first != key) touched.emplace_back(key, 0);
    touched.back().second = passed.size();
  }
  auto begin = passed.begin();
  for (std::size_t i = 0; i < touched.size(); ++i) {
    const auto found = jobs_.find(touched[i].first);
    if (found != jobs_.end()) {
      try {
        if (found->second.job.ends()) found->second.job.tell(outcome_of(found->second, now).headers());
        found->second.job.flush();
      } catch (...) {
        give_up(found->second);
      }
      settle(found);
    }
    if (i % timed_together != timed_together - 1 && i + 1 != touched.size()) continue;
    const auto end = passed.begin() + static_cast<std::ptrdiff_t>(touched[i].second);
    time_delivery({begin, end});
    begin = end;
  }
}

SLUICE_SERVER_INLINE void OpenAiApp::time_delivery(std::vector<Passed> passed) {
  if (passed.empty()) return;
  transport_->post([this, passed = std::move(passed)] {
    const double now = setup_.clock();
    for (const Passed& one : passed) {
      if (one.tokens > 0) metrics_.delivery.observe(std::max(0.0, now - one.due), one.tokens);
      metrics_.slos.written(one.id, one.tokens, one.due, now);
      if (one.ends) metrics_.slos.end(one.id);
    }
  });
}

SLUICE_SERVER_INLINE void OpenAiApp::count(Job& job, std::size_t at, const GenerationEvent& event, std::int64_t tokens,
                                           double now) {
  switch (event.kind) {
  case GenerationEvent::Kind::accepted:
    metrics_.slos.begin(event.id, job.slo, job.begun);
    if (++job.accepted == job.ids.size()) { // one refused answer refuses the whole request
      metrics_.prompt_tokens += job.job.usage().prompt;
      if (job.account) job.account->take_tokens(job.job.usage().prompt, now);
    }
    break;
  case GenerationEvent::Kind::refused:
    metrics_.refused += 1;
    for (const GenerationId id : job.ids) metrics_.slos.forget(id);
    note_end(job, "refused", job.job.begun() ? 200 : event.error.status);
    break;
  case GenerationEvent::Kind::failed:
    metrics_.failed += 1;
    for (const GenerationId id : job.ids) metrics_.slos.fail(id);
    note_end(job, "error", job.job.begun() ? 200 : event.error.status);
    job.error = event.error.message;
    break;
  case GenerationEvent::Kind::ended:
    count_end(job, at, job.job.stopped(at) ? FinishReason::stop : event.reason, now);
    break;
  case GenerationEvent::Kind::tokens:
    if (tokens == 0) break;
    metrics_.generation_tokens += tokens;
    if (job.account) job.account->take_tokens(tokens, now);
    queue_.charge(event.id, tokens);
    job.lengths[at].generated += tokens;
    (job.last[at] < 0 ? metrics_.ttft : metrics_.itl).observe(now - (job.last[at] < 0 ? job.begun : job.last[at]));
    if (tokens > 1) metrics_.itl.observe(0, tokens - 1);
    if (begins_prompt(job, at)) metrics_.cached_tokens += event.cached.value_or(0);
    job.last[at] = now;
    (void)job.kept[at].release(tokens, Seconds{now});
    if (job.job.stopped(at)) count_end(job, at, FinishReason::stop, now); // the engine sends no `ended` for it
    break;
  }
}

SLUICE_SERVER_INLINE bool OpenAiApp::begins_prompt(const Job& job, std::size_t at) {
  const auto choices = static_cast<std::size_t>(job.lengths[at].choices);
  const auto first = job.last.begin() + static_cast<std::ptrdiff_t>(at / choices * choices);
  return std::all_of(first, first + static_cast<std::ptrdiff_t>(choices), [](double last) { return last < 0; });
}

SLUICE_SERVER_INLINE void OpenAiApp::count_end(Job& job, std::size_t at, FinishReason reason, double now) {
  metrics_.ended(reason, now - job.begun, job.lengths[at]);
  note_end(job, reason == FinishReason::stop ? "stop" : "length", 200);
}

SLUICE_SERVER_INLINE void OpenAiApp::note_end(Job& job, std::string_view reason, int status) {
  if (job.reason.find(reason) == std::string::npos) job.reason.append(job.reason.empty() ? "" : ",").append(reason);
  job.status = status;
}

SLUICE_SERVER_INLINE void OpenAiApp::settle(Jobs::iterator at) {
  Job& job = at->second;
  for (const std::size_t answer : job.job.to_cancel()) {
    queue_.cancel(job.ids[answer]);
    where_.erase(job.ids[answer]);
  }
  if (!job.job.over()) return;
  answers_.took(setup_.clock() - job.begun, job.asked);
  log_end(job);
  for (const GenerationId id : job.ids) {
    where_.erase(id);
    queue_.left(id);
  }
  jobs_.erase(at);
}

SLUICE_SERVER_INLINE void OpenAiApp::leave(std::uint64_t key) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  metrics_.left += 1;
  if (found->second.accepted < found->second.ids.size()) metrics_.prompt_tokens += found->second.job.usage().prompt;
  for (const GenerationId id : found->second.ids) metrics_.slos.leave(id, setup_.clock());
  note_end(found->second, "abort", found->second.job.begun() ? 200 : AnswerLog::client_left);
  found->second.job.abandon();
  // The exchange calls this, and the job owns the exchange: the job must not be destroyed before this call returns.
  for (const std::size_t answer : found->second.job.to_cancel()) {
    queue_.cancel(found->second.ids[answer]);
    where_.erase(found->second.ids[answer]);
  }
  transport_->post([this, key] {
    const auto still = jobs_.find(key);
    if (still != jobs_.end()) settle(still);
  });
}

SLUICE_SERVER_INLINE bool OpenAiApp::needs_key(std::string_view path) {
  return path.starts_with("/v1/") || path == "/tokenize" || path == "/detokenize";
}

SLUICE_SERVER_INLINE std::shared_ptr<KeyAccount> OpenAiApp::account_of(const HttpRequest& request) const {
  if (setup_.keys->empty() || !needs_key(request.path())) return nullptr;
  return setup_.keys->find(request.headers);
}

SLUICE_SERVER_INLINE std::optional<HttpResponse> OpenAiApp::check_key(const HttpRequest& request) {
  if (setup_.keys->empty() || !needs_key(request.path())) return std::nullopt;
  if (request.method == "OPTIONS" && cors_.allowed()) return std::nullopt;
  const std::shared_ptr<KeyAccount> account = setup_.keys->find(request.headers);
  if (account != nullptr) {
    if (request.method != "POST") return std::nullopt;
    const double now = setup_.clock();
    const std::optional<ApiError> error = account->why_not(now);
    if (!error) return std::nullopt;
    (error->type == "tokens" ? metrics_.over_tokens : metrics_.over_requests) += 1;
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

SLUICE_SERVER_INLINE HttpResponse OpenAiApp::refusal(int status, std::string what) {
  ApiError error;
  error.status = status;
  error.message = std::move(what);
  if (status >= 500) error.type = "server_error";
  return error_response(error);
}

SLUICE_SERVER_INLINE std::string OpenAiApp::new_id(std::string id) const {
  for (std::uint64_t part : {setup_.random(), setup_.random()})
    for (int i = 0; i < 12; ++i, part >>= 4U) id += "0123456789abcdef"[part & 15U];
  return id;
}

SLUICE_SERVER_INLINE std::string OpenAiApp::id_of(const HttpRequest& request) const {
  const std::string_view given = request.headers.find("x-request-id");
  return is_request_id(given) ? std::string{given} : new_id("req-");
}

SLUICE_SERVER_INLINE AskedOf OpenAiApp::asked_of(const HttpRequest& request, std::string id) const {
  AskedOf asked;
  for (const Route& route : routes())
    if (route.leads_to(request.path())) asked.route = route.path;
  asked.method = request.method;
  asked.path = request.path();
  asked.request_id = std::move(id);
  if (const std::shared_ptr<KeyAccount> account = account_of(request)) asked.key = account->name();
  asked.session = request.headers.find("x-session-id");
  asked.traceparent = request.headers.find("traceparent");
  asked.client = request.client;
  asked.probe = watches(request);
  asked.begun = setup_.clock();
  return asked;
}

SLUICE_SERVER_INLINE void OpenAiApp::log_request(const HttpRequest& request, const std::string& id,
                                                 const Completion& wanted,
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
  json.key("generation").value(last_generation_ + 1).end_object(); // other lines identify the request by its first
                                                                   // answer
  setup_.log(std::move(line));
}

SLUICE_SERVER_INLINE void OpenAiApp::log_end(const Job& job) const {
  if (!setup_.log) return;
  std::string line;
  JsonWriter json(line);
  json.begin_object().key("event").value("end").key("time").value(stamp()).key("id").value(job.name);
  job.asked.write(json);
  json.key("path").value(job.asked.path).key("status").value(job.status).key("reason").value(job.reason);
  if (!job.error.empty()) json.key("error").value(job.error);
  json.key("prompt_tokens").value(job.job.usage().prompt).key("completion_tokens").value(job.job.usage().completion);
  const double now = setup_.clock();
  outcome_of(job, now).write(json);
  json.key("seconds").value(now - job.begun).end_object();
  setup_.log(std::move(line));
}

SLUICE_SERVER_INLINE OpenAiApp::Outcome OpenAiApp::outcome_of(const Job& job, double now) const {
  Outcome outcome;
  outcome.cached = job.job.usage().cached;
  for (const SloAttainment& kept : job.kept) {
    if (kept.started()) outcome.ttft_s = std::max(outcome.ttft_s, (kept.first - kept.arrival).count());
    // After the last token no deadline passes.
    const SloAttainment::Verdict verdict = kept.verdict(job.job.ends() && kept.started() ? kept.last : Seconds{now});
    if (verdict == SloAttainment::Verdict::none) continue;
    outcome.kept_slo = outcome.kept_slo.value_or(true) && verdict == SloAttainment::Verdict::met;
    const Seconds first = kept.started() ? kept.first : Seconds{now};
    outcome.late_s = std::max(
        {outcome.late_s, (first - kept.arrival - kept.slo.ttft).count(), (kept.longest - kept.slo.tbt).count()});
  }
  return outcome;
}

SLUICE_SERVER_INLINE HttpHeaders OpenAiApp::Outcome::headers() const {
  const auto in_ms = [](double seconds) { return std::to_string(std::llround(seconds * 1e3)); };
  HttpHeaders all;
  if (ttft_s >= 0) all.add("x-sluice-ttft-ms", in_ms(ttft_s));
  if (cached) all.add("x-sluice-cached-tokens", std::to_string(*cached));
  if (kept_slo) all.add("x-sluice-slo", *kept_slo ? "kept" : "missed");
  if (kept_slo && !*kept_slo) all.add("x-sluice-slo-late-ms", in_ms(late_s));
  return all;
}

SLUICE_SERVER_INLINE void OpenAiApp::Outcome::write(JsonWriter& json) const {
  if (ttft_s >= 0) json.key("ttft_seconds").value(ttft_s);
  if (cached) json.key("cached_tokens").value(*cached);
  if (kept_slo) json.key("slo").value(*kept_slo ? "kept" : "missed");
  if (kept_slo && !*kept_slo) json.key("slo_late_seconds").value(late_s);
}

} // namespace sluice
