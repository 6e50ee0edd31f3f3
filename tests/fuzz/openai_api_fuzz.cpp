// SPDX-License-Identifier: Apache-2.0
// A body of the OpenAI API is refused with 400, 404 or 413 and one sentence, or answered: with the generation's text up
// to its stop string, in UTF-8, JSON and whole events. The input's first byte chooses the endpoint.
#include "fuzz/openai_world.hpp"

#include <algorithm>
#include <string>

namespace {

using namespace sluice;
using sluice_test::require;

struct Answer {
  HttpResponse head;
  std::string body;
  bool begun = false, streamed = false, finished = false;
};

class KeptExchange final : public Exchange {
 public:
  explicit KeptExchange(Answer& answer) : answer_(&answer) {}
  void respond(HttpResponse response) override {
    require(!answer_->begun, "one answer for a request");
    answer_->begun = answer_->finished = true;
    answer_->body = response.body;
    answer_->head = std::move(response);
  }
  void begin(HttpResponse head) override {
    require(!answer_->begun, "one answer for a request");
    answer_->begun = answer_->streamed = true;
    answer_->body = head.body;
    answer_->head = std::move(head);
  }
  void send(std::string_view piece) override {
    require(answer_->streamed && !answer_->finished, "pieces follow a beginning");
    answer_->body += piece;
  }
  void finish(const HttpHeaders& /*trailers*/) override {
    require(answer_->streamed && !answer_->finished, "a stream ends once");
    answer_->finished = true;
  }
  void on_gone(std::function<void()> /*gone*/) override {}

 private:
  Answer* answer_;
};

/// The text that an answer must have, where it is unambiguous: its bytes and the prompt's are whole characters.
std::optional<std::string> expected_text(const Generation& generation, const std::vector<std::string>& stops) {
  const auto text_of = [](const std::vector<std::int32_t>& tokens) {
    std::string text;
    for (const std::int32_t token : tokens)
      if (token < 256) text += static_cast<char>(static_cast<unsigned char>(token));
    return text;
  };
  const std::string prompt = text_of(generation.prompt), text = text_of(sluice_test::EchoEngine::tokens_of(generation));
  if (replace_broken_utf8(prompt) != prompt || replace_broken_utf8(text) != text) return std::nullopt;
  std::size_t first_end = std::string::npos, cut = text.size();
  for (const std::string& stop : stops) { // bytes come one by one: the first complete stop string ends the text
    const std::size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t end = at + stop.size();
    if (end > first_end || (end == first_end && at >= cut)) continue;
    first_end = end;
    cut = at;
  }
  return text.substr(0, cut);
}

void check_texts(const std::vector<std::string>& texts, const sluice_test::OpenAiWorld& world,
                 const Completion& wanted) {
  require(texts.size() == world.engine.answered.size(), "an answer for each generation");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Generation& generation = world.engine.answered[i].second;
    const std::optional<std::string> expected = expected_text(generation, wanted.stop);
    if (!expected || wanted.echo) continue;
    require(texts[i] == *expected, "the text is the generation's, up to a stop string");
  }
}

} // namespace

SLUICE_FUZZ_TARGET(openai_api) {
  if (size == 0) return 0;
  constexpr const char* paths[] = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"};
  const char* const path = paths[data[0] % 4];
  const bool completes = data[0] % 4 < 2, chat = data[0] % 4 == 1;
  const std::string body = sluice_test::text_of(data + 1, size - 1);
  sluice_test::OpenAiWorld world;
  Answer answer;
  HttpRequest request{"POST", path, {}, body};
  world.app.handle(std::move(request), std::make_unique<KeptExchange>(answer));
  world.run();
  require(answer.begun && answer.finished, "every request is answered to its end");
  require(world.app.under_way() == 0, "nothing remains of an answered request");

  Completion wanted;
  const bool refused = completes && read_completion(body, chat, wanted).has_value();
  const int status = answer.head.status;
  if (refused) require(status == 400, "an unreadable body is refused with 400");
  if (status != 200) {
    require(!answer.streamed, "a refusal is no stream");
    const bool failed = status == 429 || status == 500;
    require(status == 400 || status == 404 || status == 413 || (failed && completes), "a refusal has its status");
    sluice_test::require_error(sluice_test::require_json(answer.body));
    if (!failed) require(world.engine.answered.empty(), "no part of a refused request reaches the engine");
    return 0;
  }
  if (!completes) {
    sluice_test::require_json(answer.body);
    return 0;
  }
  require(wanted.choices >= 1 && wanted.choices <= 128 && wanted.stop.size() <= 16, "counts in range");
  require(answer.streamed == wanted.stream, "a stream if the request asked for one");
  if (wanted.stream) {
    const sluice_test::Streamed streamed = sluice_test::require_stream(answer.body);
    if (streamed.whole) check_texts(streamed.texts, world, wanted);
    return 0;
  }
  const nlohmann::json whole = sluice_test::require_json(answer.body);
  std::vector<std::string> texts;
  for (const nlohmann::json& choice : whole.at("choices"))
    texts.push_back((chat ? choice.at("message").at("content") : choice.at("text")).get<std::string>());
  check_texts(texts, world, wanted);
  return 0;
}
