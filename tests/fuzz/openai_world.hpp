// SPDX-License-Identifier: Apache-2.0
// OpenAiWorld: an OpenAiApp over an engine that answers each prompt with its own bytes, for the server's fuzz targets;
// and their checks of its answers.
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"

#include "fuzz/fuzz_support.hpp"
#include <nlohmann/json.hpp>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice_test {

constexpr std::int64_t fuzz_context = 64;

/// Runs posted work when called.
class QueueTransport final : public sluice::HttpTransport {
 public:
  void post(std::function<void()> work) override { queue_.push_back(std::move(work)); }
  void after(double /*seconds*/, std::function<void()> work) override { post(std::move(work)); }
  void run() {
    for (; !queue_.empty(); queue_.pop_front()) queue_.front()();
  }

 private:
  std::deque<std::function<void()>> queue_; // its address stays the same while one of its calls adds another
};

/// Answers with the prompt's bytes, repeatedly, one token per event. A priority below 0 is refused; a priority above
/// 1000 fails after half of its tokens.
class EchoEngine final : public sluice::GenerationEngine {
 public:
  void submit(sluice::GenerationId id, sluice::Generation generation) override {
    require(!generation.prompt.empty(), "a prompt has tokens");
    for (const std::int32_t token : generation.prompt)
      require(token >= 0 && token < sluice::ByteTokenizer::tokens, "tokens are the model's");
    require(generation.max_tokens >= 1, "at least one token is requested");
    require(static_cast<std::int64_t>(generation.prompt.size()) + generation.max_tokens <= fuzz_context,
            "prompt and answer fit the context");
    require(generation.sampling.temperature >= 0 && generation.sampling.temperature <= 2, "a temperature in range");
    require(generation.sampling.top_p > 0 && generation.sampling.top_p <= 1, "top_p in range");
    require(generation.sampling.top_k >= 0 && generation.logprobs >= -1 && generation.logprobs <= 20,
            "counts in range");
    require(generation.slo.ttft.count() > 0 && generation.slo.tbt.count() > 0, "SLOs are above 0");
    submitted.emplace_back(id, std::move(generation));
  }
  void cancel(sluice::GenerationId /*id*/) override {}
  [[nodiscard]] bool ready() const override { return true; }
  void metrics(sluice::PrometheusWriter& /*to*/) override {}
  [[nodiscard]] std::string live() override { return "{}"; }

  /// The answer's tokens, repeated forever.
  static std::vector<std::int32_t> tokens_of(const sluice::Generation& generation) {
    std::vector<std::int32_t> bytes, all;
    for (const std::int32_t token : generation.prompt)
      if (token < 256) bytes.push_back(token);
    while (!bytes.empty() && static_cast<std::int64_t>(all.size()) < generation.max_tokens)
      all.push_back(bytes[all.size() % bytes.size()]);
    return all;
  }
  /// Delivers every event of the submitted requests.
  void answer(sluice::GenerationListener& listener) {
    using Kind = sluice::GenerationEvent::Kind;
    for (const auto& [id, generation] : submitted) {
      const auto event = [&id = id](Kind kind) {
        sluice::GenerationEvent one;
        one.id = id;
        one.kind = kind;
        one.error.status = kind == Kind::refused ? 429 : 500;
        one.error.message = "as the test wants it";
        return one;
      };
      if (generation.priority < 0) {
        listener.happened({event(Kind::refused)});
        continue;
      }
      listener.happened({event(Kind::accepted)});
      std::vector<std::int32_t> tokens = tokens_of(generation);
      const bool fails = generation.priority > 1000;
      if (fails) tokens.resize(tokens.size() / 2);
      for (const std::int32_t token : tokens) {
        sluice::GenerationEvent one = event(Kind::tokens);
        one.tokens = {token};
        if (generation.logprobs >= 0) {
          one.chances.emplace_back();
          for (int i = 0; i <= generation.logprobs; ++i) one.chances[0].push_back({(token + i) % 258, -0.5 * i});
        }
        listener.happened({std::move(one)});
      }
      listener.happened({event(fails ? Kind::failed : Kind::ended)});
    }
    answered.insert(answered.end(), submitted.begin(), submitted.end());
    submitted.clear();
  }

  std::vector<std::pair<sluice::GenerationId, sluice::Generation>> submitted, answered;
};

struct OpenAiWorld {
  OpenAiWorld() : app(setup(tokenizer, random), transport, engine) {}

  /// Runs until no event is left.
  void run() {
    do {
      transport.run();
      engine.answer(app);
      transport.run();
    } while (!engine.submitted.empty());
  }

  static sluice::OpenAiSetup setup(const sluice::Tokenizer& of, std::uint64_t& drawn) {
    sluice::OpenAiSetup setup;
    setup.model = "bytes";
    setup.tokenizer = &of;
    setup.chat = sluice::ChatFormat::llama2; // its turns are the shortest
    setup.vocabulary = of.vocabulary().size();
    setup.context = fuzz_context;
    setup.now_s = [] { return 1; };
    setup.clock = [] { return 0.5; };
    setup.random = [&drawn] { return ++drawn; };
    setup.log = [](const std::string& line) {
      require(!nlohmann::json::parse(line, nullptr, false).is_discarded(), "a line of the log is JSON");
      require(line.find('\n') == std::string::npos, "an event of the log is one line");
    };
    return setup;
  }

  static inline const sluice::ByteTokenizer tokenizer{};
  std::uint64_t random = 0;
  QueueTransport transport;
  EchoEngine engine;
  sluice::OpenAiApp app; // last: it refers to the others
};

inline nlohmann::json require_json(std::string_view text) {
  require(sluice::replace_broken_utf8(text) == text, "an answer is UTF-8");
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  require(value.is_object(), "an answer is a JSON object");
  return value;
}

/// {"error": {"message", "type", "param", "code"}}; the message is one sentence.
inline void require_error(const nlohmann::json& body) {
  require(body.size() == 1 && body.contains("error") && body["error"].is_object(), "an error has OpenAI's form");
  const nlohmann::json& error = body["error"];
  require(error.contains("message") && error["message"].is_string(), "an error has a message");
  const std::string message = error["message"].get<std::string>();
  require(!message.empty() && message.size() < 1000, "a message is a sentence");
  for (const char character : message)
    require(static_cast<unsigned char>(character) >= 0x20 && character != 0x7f, "a message is one line");
  require(error.contains("type") && error["type"].is_string(), "an error has a type");
  for (const char* name : {"param", "code"})
    require(error.contains(name) && (error[name].is_string() || error[name].is_null()), "an error has param and code");
}

/// The texts of a stream's choices; `whole`: whether the stream ended.
struct Streamed {
  std::vector<std::string> texts;
  bool whole = false;
};

/// Every event of a stream is UTF-8 and JSON, a choice sends nothing after its end, and [DONE] is the last event.
inline Streamed require_stream(std::string_view body) {
  Streamed streamed;
  std::vector<bool> ended;
  bool failed = false;
  while (!body.empty()) {
    require(!streamed.whole && !failed, "nothing follows [DONE] or an error");
    require(body.starts_with("data: "), "an event is data");
    const std::size_t end = body.find("\n\n");
    require(end != std::string_view::npos, "an event ends");
    const std::string_view event = body.substr(6, end - 6);
    body.remove_prefix(end + 2);
    require(event.find('\n') == std::string_view::npos, "an event is one line");
    if (event == "[DONE]") {
      streamed.whole = true;
      continue;
    }
    const nlohmann::json chunk = require_json(event);
    if (chunk.contains("error")) {
      require_error(chunk);
      failed = true;
      continue;
    }
    require(chunk.contains("choices") && chunk["choices"].is_array(), "a chunk has choices");
    for (const nlohmann::json& choice : chunk["choices"]) {
      const auto index = choice.at("index").get<std::size_t>();
      require(index < 1024, "a choice that was requested");
      if (streamed.texts.size() <= index) {
        streamed.texts.resize(index + 1);
        ended.resize(index + 1);
      }
      require(!ended[index], "nothing follows a finish_reason");
      if (choice.contains("text")) streamed.texts[index] += choice["text"].get<std::string>();
      if (choice.contains("delta") && choice["delta"].contains("content"))
        streamed.texts[index] += choice["delta"]["content"].get<std::string>();
      if (!choice.at("finish_reason").is_null()) ended[index] = true;
    }
  }
  if (streamed.whole)
    for (const bool one : ended) require(one, "every choice has ended before [DONE]");
  return streamed;
}

} // namespace sluice_test
