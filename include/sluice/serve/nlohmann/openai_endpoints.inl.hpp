// SPDX-License-Identifier: Apache-2.0
// OpenAiApp: the endpoints other than completions: probes, models, metrics, the live page, tokens of a text.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/report/pages.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"
#include "sluice/serve/process.hpp"

namespace sluice {

SLUICE_SERVER_INLINE void OpenAiApp::health(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
  HttpResponse response;
  response.type = "text/plain";
  response.body = "ok\n";
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::ready(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
  if (draining_ || !engine_->ready()) return exchange->respond(not_ready());
  HttpResponse response;
  response.type = "text/plain";
  response.body = "ready\n";
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::index(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
  HttpResponse response;
  JsonWriter json(response.body);
  json.begin_object().key("server").value("sluice").key("ready").value(ready());
  json.key("paths").begin_array();
  for (const Route& route : routes())
    if (!detail::shows_inside(route.path)) json.value(std::string{route.method} + " " + std::string{route.path});
  json.end_array().end_object();
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::models(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
  HttpResponse response;
  JsonWriter json(response.body);
  json.begin_object().key("object").value("list").key("data").begin_array();
  write_model(json);
  json.end_array().end_object();
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::model(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
  const std::string name = unescaped(request.path().substr(std::string_view{"/v1/models/"}.size()));
  if (const std::optional<ApiError> error = check_model(name)) return exchange->respond(error_response(*error));
  HttpResponse response;
  JsonWriter json(response.body);
  write_model(json);
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::write_model(JsonWriter& json) const {
  json.begin_object().key("id").value(setup_.model).key("object").value("model");
  json.key("created").value(setup_.created).key("owned_by").value("sluice");
  json.key("max_model_len").value(setup_.context).end_object();
}

SLUICE_SERVER_INLINE std::string OpenAiApp::unescaped(std::string_view path) {
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

SLUICE_SERVER_INLINE void OpenAiApp::prometheus(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
  HttpResponse response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  PrometheusWriter writer(response.body, {{"model_name", setup_.model}, {"engine", "0"}});
  metrics_.write(writer);
  queue_.write(writer);
  answers_.write(writer);
  if (setup_.transport_metrics) setup_.transport_metrics(writer);
  engine_->metrics(writer);
  if (setup_.metrics) setup_.metrics(writer);
  if (setup_.process_metrics) {
    PrometheusWriter process(response.body, {}); // without labels, as in other programs
    write_process_metrics(process);
  }
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::live(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
  HttpResponse response;
  response.type = "text/html; charset=utf-8";
  response.body = live_page();
  // If a prompt or a name injects markup, the page still runs no other script and loads nothing.
  response.headers.add("Content-Security-Policy", live_page_policy);
  response.headers.add("Cache-Control", "no-cache");
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::live_state(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
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
  const WrittenSlos& slos = metrics_.slos;
  json.key("on_time").value(slos.on_time()).key("missed").value(slos.missed());
  json.key("first_in_time").value(slos.first_in_time()).key("first_late").value(slos.first_late());
  json.key("ttft_sum_s").value(metrics_.ttft.sum()).key("ttft_count").value(metrics_.ttft.count());
  json.key("itl_sum_s").value(metrics_.itl.sum()).key("itl_count").value(metrics_.itl.count()).end_object();
  response.body += ",\"engine\":" + engine_->live() + "}";
  response.headers.add("Cache-Control", "no-store");
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::what_if(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange) {
  if (!setup_.what_if) return exchange->respond(refusal(404, "this server replays nothing; expected --what-if"));
  HttpResponse response;
  response.body = setup_.what_if();
  response.headers.add("Cache-Control", "no-store");
  exchange->respond(std::move(response));
}

SLUICE_SERVER_INLINE void OpenAiApp::tokenize(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
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
    return exchange->respond(
        error_response(detail::api_error("prompt", "the text has " + std::to_string(text->size()) +
                                                       " bytes; expected at most " + std::to_string(most_tokenized))));
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

SLUICE_SERVER_INLINE void OpenAiApp::detokenize(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
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

SLUICE_SERVER_INLINE std::optional<ApiError> OpenAiApp::check_fields(const nlohmann::json& body, std::string_view path,
                                                                     std::span<const std::string_view> known) const {
  if (setup_.unknown_fields == UnknownFields::ignored) return std::nullopt;
  return detail::only_fields(body, "", path, known);
}

SLUICE_SERVER_INLINE void OpenAiApp::chat_completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
  complete(request, Kind::chat, std::move(exchange));
}

SLUICE_SERVER_INLINE void OpenAiApp::responses(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
  complete(request, Kind::response, std::move(exchange));
}

SLUICE_SERVER_INLINE void OpenAiApp::completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange) {
  complete(request, Kind::text, std::move(exchange));
}

} // namespace sluice
