// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

using namespace sluice;
using nlohmann::json;

namespace {

/// Runs posted work when the test asks for it.
class StepTransport final : public HttpTransport {
 public:
  void post(std::function<void()> work) override { queue.push_back(std::move(work)); }
  void after(double /*seconds*/, std::function<void()> work) override { queue.push_back(std::move(work)); }
  void run() {
    while (!queue.empty()) {
      auto work = std::move(queue.front());
      queue.pop_front();
      work();
    }
  }
  std::deque<std::function<void()>> queue;
};

/// A client's view of its exchange.
struct Seen {
  HttpResponse response;
  HttpHeaders trailers;
  bool begun = false, finished = false;
  bool breaks = false; ///< nothing more can be sent
  std::function<void()> gone;

  [[nodiscard]] json body() const { return json::parse(response.body); }
  /// The events of a stream, without [DONE], which must be the last.
  [[nodiscard]] std::vector<json> events() const {
    std::vector<json> all;
    std::string_view rest = response.body;
    REQUIRE(rest.ends_with("data: [DONE]\n\n"));
    rest.remove_suffix(14);
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      all.push_back(json::parse(rest.substr(6, end - 6)));
      rest.remove_prefix(end + 2);
    }
    return all;
  }
};

class TestExchange final : public Exchange {
 public:
  explicit TestExchange(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  void respond(HttpResponse response) override {
    CHECK(!seen_->begun);
    seen_->response = std::move(response);
    seen_->begun = seen_->finished = true;
  }
  void begin(HttpResponse head) override {
    CHECK(!seen_->begun);
    seen_->response = std::move(head);
    seen_->begun = true;
  }
  void send(std::string_view piece) override {
    if (seen_->breaks) throw std::bad_alloc();
    seen_->response.body += piece;
  }
  void finish(const HttpHeaders& trailers) override {
    seen_->finished = true;
    seen_->trailers = trailers;
  }
  void on_gone(std::function<void()> gone) override { seen_->gone = std::move(gone); }

 private:
  std::shared_ptr<Seen> seen_;
};

/// Records submissions; the test makes the events.
class ScriptedEngine final : public GenerationEngine {
 public:
  void submit(GenerationId id, Generation generation) override {
    order.push_back(id);
    generations[id] = std::move(generation);
  }
  void cancel(GenerationId id) override { cancelled.insert(id); }
  bool ready() const override { return is_ready; }
  void metrics(PrometheusWriter& to) override { to.counter("sluice:steps_total", "Steps.", 7); }
  std::string live() override { return "{}"; }

  std::vector<GenerationId> order;
  std::map<GenerationId, Generation> generations;
  std::set<GenerationId> cancelled;
  bool is_ready = true;
};

struct World {
  explicit World(const std::function<void(OpenAiSetup&)>& change = [](OpenAiSetup&) {}) {
    OpenAiSetup setup;
    setup.model = "tiny";
    setup.tokenizer = &tokenizer;
    setup.vocabulary = tokenizer.vocabulary().size();
    setup.context = 100;
    setup.now_s = [] { return 1'700'000'000; };
    setup.clock = [this] { return clock; };
    setup.random = [this] { return ++drawn; };
    change(setup);
    app = std::make_unique<OpenAiApp>(std::move(setup), transport, engine);
  }
  std::shared_ptr<Seen> ask(std::string method, std::string target, std::string body = "", HttpHeaders headers = {}) {
    auto seen = std::make_shared<Seen>();
    app->handle({std::move(method), std::move(target), std::move(headers), std::move(body)},
                std::make_unique<TestExchange>(seen));
    return seen;
  }
  void happen(std::vector<GenerationEvent> events) {
    app->happened(std::move(events));
    transport.run();
  }
  GenerationEvent event(std::size_t submitted, GenerationEvent::Kind kind, std::string_view bytes = "") {
    GenerationEvent one;
    one.id = engine.order.at(submitted);
    one.kind = kind;
    for (const char byte : bytes) {
      const auto token = tokenizer.encode(std::string(1, byte), AddSpecial::no);
      one.tokens.push_back(token->at(0));
    }
    return one;
  }

  ByteTokenizer tokenizer;
  StepTransport transport;
  ScriptedEngine engine;
  std::unique_ptr<OpenAiApp> app;
  double clock = 0;
  std::uint64_t drawn = 0;
};

using Kind = GenerationEvent::Kind;

} // namespace

TEST_CASE("OpenAiApp responds to a completion") {
  World world;
  const auto seen = world.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":5,"seed":3,"temperature":0})");
  REQUIRE(world.engine.order.size() == 1);
  const Generation& generation = world.engine.generations.begin()->second;
  CHECK(generation.max_tokens == 5);
  CHECK(generation.sampling.seed == 3);
  CHECK(generation.sequence == 0);
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::tokens, "cd")});
  CHECK(!seen->begun);
  GenerationEvent end = world.event(0, Kind::ended);
  end.reason = FinishReason::length;
  world.happen({world.event(0, Kind::tokens, "e"), end});
  REQUIRE(seen->finished);
  CHECK(seen->response.status == 200);
  CHECK(seen->body()["choices"][0]["text"] == "cde");
  CHECK(seen->body()["choices"][0]["finish_reason"] == "length");
  CHECK(seen->body()["usage"]["completion_tokens"] == 3);
  CHECK(world.app->under_way() == 0);
  CHECK(world.engine.cancelled.empty());
}

TEST_CASE("OpenAiApp streams two answers in parallel, in whole characters, with usage at the end") {
  World world;
  const auto seen = world.ask("POST", "/v1/completions",
                              R"({"prompt":"a","n":2,"stream":true,"stream_options":{"include_usage":true}})");
  REQUIRE(world.engine.order.size() == 2);
  world.happen({world.event(0, Kind::accepted)});
  CHECK(!seen->begun); // the other answer may still be refused
  world.happen({world.event(1, Kind::accepted)});
  CHECK(seen->begun);
  CHECK(seen->response.type.starts_with("text/event-stream"));
  const std::string smile = "\xF0\x9F\x98\x80";
  for (const char byte : smile) world.happen({world.event(0, Kind::tokens, std::string(1, byte))});
  world.happen({world.event(1, Kind::tokens, "xy"), world.event(1, Kind::ended), world.event(0, Kind::tokens, "\xF0"),
                world.event(0, Kind::ended)});
  REQUIRE(seen->finished);
  std::map<int, std::string> text;
  for (const json& each : seen->events())
    for (const json& choice : each["choices"]) text[choice["index"]] += choice["text"].get<std::string>();
  CHECK(text[0] == smile + "\xEF\xBF\xBD"); // an incomplete character becomes U+FFFD
  CHECK(text[1] == "xy");
  CHECK(seen->events().back()["usage"]["completion_tokens"] == 7);
}

TEST_CASE("OpenAiApp ends an answer before its stop string and cancels the generation") {
  World world;
  const auto seen = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true,"stop":"END"})");
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::tokens, "xE")});
  world.happen({world.event(0, Kind::tokens, "N")});
  CHECK(seen->response.body.find("EN") == std::string::npos);
  world.happen({world.event(0, Kind::tokens, "Dyz")});
  REQUIRE(seen->finished);
  std::string text;
  for (const json& each : seen->events()) text += each["choices"][0]["text"].get<std::string>();
  CHECK(text == "x");
  CHECK(seen->events().back()["choices"][0]["finish_reason"] == "stop");
  CHECK(world.engine.cancelled.count(world.engine.order[0]) == 1);
  world.happen({world.event(0, Kind::tokens, "late")}); // arrives after the cancellation
  CHECK(world.app->under_way() == 0);
}

TEST_CASE("OpenAiApp ends an answer at a stop token, whose text and that of stop strings are sent only if asked for") {
  World world;
  const std::int32_t e = world.tokenizer.encode("e", AddSpecial::no)->at(0);
  const auto ask = [&](const char* fields) {
    const std::size_t at = world.engine.order.size();
    const auto seen = world.ask("POST", "/v1/completions",
                                R"({"prompt":"a","stop_token_ids":[)" + std::to_string(e) + "]," + fields + "}");
    world.happen({world.event(at, Kind::accepted), world.event(at, Kind::tokens, "defec"),
                  world.event(at, Kind::tokens, "late"), world.event(at, Kind::ended)});
    return seen->finished ? seen->body()["choices"][0]["text"].get<std::string>() + "/" +
                                seen->body()["choices"][0]["finish_reason"].get<std::string>() + "/" +
                                seen->body()["usage"]["completion_tokens"].dump()
                          : std::string{"unfinished"};
  };
  CHECK(ask(R"("n":1)") == "d/stop/2");
  CHECK(world.engine.cancelled.count(world.engine.order[0]) == 1);
  CHECK(ask(R"("include_stop_str_in_output":true)") == "de/stop/2");
  CHECK(ask(R"("stop":"f","include_stop_str_in_output":true)") == "de/stop/2");
  CHECK(ask(R"("stop":"d","include_stop_str_in_output":true)") == "d/stop/1");
  World ruled([](OpenAiSetup& setup) { setup.rules = true; });
  const auto seen =
      ruled.ask("POST", "/v1/completions",
                R"({"prompt":"a","stop":"de","stop_token_ids":[)" + std::to_string(e) + R"(],"min_tokens":3})");
  ruled.happen({ruled.event(0, Kind::accepted), ruled.event(0, Kind::tokens, "defec")});
  REQUIRE(seen->finished);
  CHECK(seen->body()["choices"][0]["text"] == "def"); // neither counts before the fourth token
  CHECK(ruled.app->metrics().stopped == 1);
}

TEST_CASE("OpenAiApp passes rules to a decoder that applies them, and otherwise refuses each by its name") {
  World world([](OpenAiSetup& setup) { setup.rules = true; });
  world.ask("POST", "/v1/completions",
            R"({"prompt":"a","n":2,"presence_penalty":1,"bad_words":["xy"],"min_tokens":2,"stop_token_ids":[3]})");
  world.ask("POST", "/v1/completions", R"({"prompt":"a","presence_penalty":0,"logit_bias":{}})");
  REQUIRE(world.engine.order.size() == 3);
  const auto rules = world.engine.generations[world.engine.order[0]].rules;
  REQUIRE(rules != nullptr);
  CHECK(rules->presence == 1);
  CHECK(rules->bad_words == std::vector<std::vector<std::int32_t>>{*world.tokenizer.encode("xy", AddSpecial::no)});
  CHECK(rules->ends == std::vector<std::int32_t>{3});
  CHECK(world.engine.generations[world.engine.order[1]].rules == rules);
  CHECK(world.engine.generations[world.engine.order[2]].rules == nullptr);
  for (const char* field : {R"("logit_bias":{"99999":1})", R"("stop_token_ids":[99999])"})
    CHECK(world.ask("POST", "/v1/completions", std::string{R"({"prompt":"a",)"} + field + "}")->response.status == 400);

  World none;
  for (const std::string field :
       {R"("presence_penalty":1)", R"("frequency_penalty":1)", R"("repetition_penalty":1.5)", R"("logit_bias":{"1":1})",
        R"("bad_words":["a"])", R"("min_tokens":1)", R"("logprobs":1,"echo":true)"}) {
    const auto refused = none.ask("POST", "/v1/completions", R"({"prompt":"a",)" + field + "}");
    CHECK(refused->response.status == 400);
    CHECK(refused->body()["error"]["param"] == field.substr(1, field.find('"', 1) - 1));
  }
  World drawn([](OpenAiSetup& setup) { setup.logprobs = false; }); // whose answers never end early
  CHECK(!drawn.ask("POST", "/v1/completions", R"({"prompt":"a","min_tokens":1})")->begun);
  CHECK(none.engine.order.empty());
}

TEST_CASE("OpenAiApp answers the requests by which lm-eval measures the likelihood of texts") {
  World world([](OpenAiSetup& setup) { setup.rules = true; });
  const auto chances = [&](std::string_view text, double first) {
    std::vector<std::vector<TokenChance>> all;
    for (const char letter : text) {
      const std::int32_t token = world.tokenizer.encode(std::string(1, letter), AddSpecial::no)->at(0);
      all.push_back({{token, first}, {token, first}});
      first -= 1;
    }
    return all;
  };
  const auto ask = [&](const char* fields) {
    const std::size_t at = world.engine.order.size();
    const json prompt = *world.tokenizer.encode("abc", AddSpecial::no);
    const auto seen = world.ask("POST", "/v1/completions",
                                R"({"echo":true,"logprobs":1,"prompt":)" + prompt.dump() + "," + fields + "}");
    REQUIRE(world.engine.order.size() == at + 1);
    CHECK(world.engine.generations[world.engine.order[at]].scores_prompt);
    CHECK(world.engine.generations[world.engine.order[at]].max_tokens == 1);
    GenerationEvent tokens = world.event(at, Kind::tokens, "d");
    tokens.prompt_chances = chances("bc", -1);
    tokens.chances = chances("d", -3);
    GenerationEvent end = world.event(at, Kind::ended);
    end.reason = FinishReason::length;
    world.happen({world.event(at, Kind::accepted)});
    world.happen({tokens, end});
    REQUIRE(seen->finished);
    return seen;
  };
  const json one = ask(R"("max_tokens":1)")->body();
  CHECK(one["choices"][0]["text"] == "abcd");
  CHECK(one["choices"][0]["logprobs"]["token_logprobs"] == json{nullptr, -1.0, -2.0, -3.0});
  CHECK(one["choices"][0]["logprobs"]["tokens"] == json{"a", "b", "c", "d"});
  CHECK(one["choices"][0]["logprobs"]["text_offset"] == json{0, 1, 2, 3});
  CHECK(one["usage"]["completion_tokens"] == 1);

  const json none = ask(R"("max_tokens":0)")->body();
  CHECK(none["choices"][0]["text"] == "abc");
  CHECK(none["choices"][0]["logprobs"]["token_logprobs"] == json{nullptr, -1.0, -2.0});
  CHECK(none["choices"][0]["finish_reason"] == "length");
  CHECK(none["usage"]["completion_tokens"] == 0);
  CHECK(world.app->metrics().generation_tokens == 1);

  const auto stream = ask(R"("max_tokens":1,"stream":true)");
  std::string text;
  json scores = json::array();
  for (const json& chunk : stream->events()) {
    text += chunk["choices"][0]["text"].get<std::string>();
    if (!chunk["choices"][0]["logprobs"].is_null())
      for (const json& score : chunk["choices"][0]["logprobs"]["token_logprobs"]) scores.push_back(score);
  }
  CHECK(text == "abcd");
  CHECK(scores == json{nullptr, -1.0, -2.0, -3.0});
}

TEST_CASE("OpenAiApp answers /v1/responses, whole and streamed") {
  World world([](OpenAiSetup& setup) {
    setup.chat = ChatFormat::chatml;
    setup.context = 400;
  });
  const auto whole = world.ask("POST", "/v1/responses",
                               R"({"input":"hi","instructions":"Be brief.","max_output_tokens":5,"store":true})");
  REQUIRE(world.engine.order.size() == 1);
  CHECK(world.engine.generations[world.engine.order[0]].max_tokens == 5);
  CHECK(world.tokenizer.decode(world.engine.generations[world.engine.order[0]].prompt) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  const auto stream = world.ask("POST", "/v1/responses", R"({"stream":true,"max_output_tokens":3,"input":[
    {"role":"user","content":[{"type":"input_text","text":"a"}]},
    {"type":"message","id":"m","status":"completed","role":"assistant","content":[{"type":"output_text","text":"b"}]},
    {"role":"user","content":"c"}]})");
  GenerationEvent end = world.event(1, Kind::ended);
  end.reason = FinishReason::length;
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::tokens, "yo"), world.event(0, Kind::ended),
                world.event(1, Kind::accepted), world.event(1, Kind::tokens, "x")});
  world.happen({world.event(1, Kind::tokens, "yz"), end});
  REQUIRE(whole->finished);
  CHECK(whole->body()["object"] == "response");
  CHECK(whole->body()["id"].get<std::string>().starts_with("resp_"));
  CHECK(whole->body()["status"] == "completed");
  CHECK(whole->body()["output"][0]["content"][0]["text"] == "yo");
  CHECK(whole->body()["usage"]["output_tokens"] == 2);

  REQUIRE(stream->finished);
  std::vector<json> events;
  for (std::string_view rest = stream->response.body; !rest.empty();) {
    const std::size_t data = rest.find("\ndata: "), after = rest.find("\n\n");
    events.push_back(json::parse(rest.substr(data + 7, after - data - 7)));
    CHECK(rest.substr(7, data - 7) == events.back()["type"]);
    rest.remove_prefix(after + 2);
  }
  REQUIRE(events.size() == 11);
  const char* const types[]{"created",           "in_progress",       "output_item.added", "content_part.added",
                            "output_text.delta", "output_text.delta", "output_text.delta", "output_text.done",
                            "content_part.done", "output_item.done",  "incomplete"};
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i]["type"] == std::string{"response."} + types[i]);
    CHECK(events[i]["sequence_number"] == i);
  }
  CHECK(events[4]["delta"] == "x");
  CHECK(events[5]["delta"] == "y");
  CHECK(events[7]["text"] == "xyz");
  CHECK(events[10]["response"]["output"][0]["content"][0]["text"] == "xyz");
  CHECK(events[10]["response"]["incomplete_details"]["reason"] == "max_output_tokens");
  CHECK(world.app->under_way() == 0);

  const auto cut = world.ask("POST", "/v1/responses", R"({"input":"a","stream":true})");
  GenerationEvent failed = world.event(2, Kind::failed);
  failed.error.message = "a copy failed";
  world.happen({world.event(2, Kind::accepted), world.event(2, Kind::tokens, "x")});
  world.happen({failed});
  CHECK(cut->response.body.find("event: error\ndata: {\"type\":\"error\"") != std::string::npos);

  const auto param = [&](const char* body) {
    const auto refused = world.ask("POST", "/v1/responses", body);
    CHECK(refused->response.status == 400);
    return refused->body()["error"]["param"];
  };
  CHECK(param(R"({})") == "input");
  CHECK(param(R"({"input":"a","tools":[{}]})") == "tools");
  CHECK(param(R"({"input":"a","previous_response_id":"resp_1"})") == "previous_response_id");
  CHECK(param(R"({"input":"a","max_output_tokens":0})") == "max_output_tokens");
  CHECK(param(R"({"input":"a","messages":[]})") == "messages");
  CHECK(param(R"({"input":"a","instructions":1})") == "instructions");
  CHECK(param(R"({"input":[{"type":"function_call_output","output":"a"}]})") == "input[0]");
  CHECK(param(R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})") == "input[0]");
  CHECK(param(R"({"input":"a","text":{"format":{"type":"json_schema"}}})") == "text");
  CHECK(param(R"({"input":"a","include":["message.output_text.logprobs"]})") == "include");
  CHECK(param(R"({"input":"a","include":"x"})") == "include");
  CHECK(param(R"({"input":"a","stream_options":{"include_obfuscation":false}})") == "stream_options"); // no stream
  CHECK(param(R"({"input":"a","stream":true,"stream_options":7})") == "stream_options");
  CHECK(param(R"({"input":"a","stream":true,"stream_options":{"include_usage":true}})") ==
        "stream_options.include_usage");
  const auto harmless =
      world.ask("POST", "/v1/responses",
                R"({"input":"a","stream":true,"stream_options":{"include_obfuscation":false},"include":[)"
                R"("reasoning.encrypted_content"]})");
  CHECK(!harmless->finished);
  for (const char* none :
       {R"("text":{})", R"("text":{"format":null})", R"("text":{"format":{"type":"text"}})",
        R"("text":{"verbosity":"medium"})", R"("reasoning":{})", R"("reasoning":{"effort":null,"summary":null})",
        R"("tools":[],"tool_choice":"auto")", R"("tool_choice":"auto")", R"("truncation":"auto")",
        R"("truncation":"disabled","reasoning":{"effort":"none"})", R"("context_management":[])",
        R"("tools":[{"type":"function","name":"f"}],"tool_choice":"none")"}) {
    const auto seen =
        world.ask("POST", "/v1/responses", std::string{R"({"input":"a","max_output_tokens":3,)"} + none + "}");
    CHECK_MESSAGE(!seen->finished, none);
  }
  // openai-python sends an answer back with each of its fields.
  const auto again = world.ask(
      "POST", "/v1/responses",
      R"({"input":[{"role":"user","content":"a"},{"id":"m","type":"message","role":"assistant","status":"completed",)"
      R"("phase":null,"content":[{"type":"output_text","text":"b","annotations":[],"logprobs":null}]},)"
      R"({"role":"user","content":"c"}],"max_output_tokens":3})");
  CHECK(!again->finished);
  CHECK(param(R"({"input":[{"role":"user","content":"a","phases":"x"}]})") == "input[0]");
  CHECK(param(R"({"input":"a","truncation":"middle"})") == "truncation");
  CHECK(param(R"({"input":"a","tools":[{"type":"function","name":"f"}]})") == "tools");
  CHECK(param(R"({"input":"a","text":{"verbosity":"low"}})") == "text");
  CHECK(param(R"({"input":"a","reasoning":{"effort":"low"}})") == "reasoning");
  CHECK(param(R"({"input":"a","tool_choice":"required"})") == "tool_choice");
  // An error names the field that the client has sent, not the chat's.
  const auto refused =
      world.ask("POST", "/v1/responses",
                R"({"instructions":"a","input":[{"role":"user","content":"a"},{"role":"user","content":5}]})");
  CHECK(refused->body()["error"]["param"] == "input[1].content");
  CHECK(refused->body()["error"]["message"].get<std::string>().starts_with("input[1].content "));
  CHECK(param(R"({"input":"a","max_output_tokens":1000})") == "input");
  CHECK(param(R"({"input":[{"role":"user","content":[{"type":"input_text","text":5}]}]})") == "input[0]");
}

TEST_CASE("OpenAiApp ignores at /v1/responses what nobody knows, if it is lenient, but no field of other paths") {
  World world([](OpenAiSetup& setup) {
    setup.chat = ChatFormat::chatml;
    setup.unknown_fields = UnknownFields::ignored;
  });
  const auto status = [&](const char* field) {
    const auto seen =
        world.ask("POST", "/v1/responses", std::string{R"({"input":"a","max_output_tokens":3,)"} + field + "}");
    return seen->begun ? seen->response.status : 0;
  };
  CHECK(status(R"("nobody_knows":1)") == 0);
  for (const char* neutral : {R"("logit_bias":null)", R"("logit_bias":{})", R"("n":1)", R"("presence_penalty":0)",
                              R"("logprobs":false)", R"("echo":false)", R"("functions":[])"})
    CHECK_MESSAGE(status(neutral) == 0, neutral);
  for (const char* field :
       {R"("response_format":{"type":"json_object"})", R"("logit_bias":{"5":1})", R"("n":2)", R"("max_tokens":4)",
        R"("guided_json":{})", R"("top_logprobs":2)", R"("functions":[{}])", R"("reasoning_effort":"high")",
        R"("modalities":["audio"])", R"("echo":true)", R"("stream":true,"stream_options":{"include_obfuscation":1})"})
    CHECK_MESSAGE(status(field) == 400, field);
}

TEST_CASE("the reasoning effort that has no effect is that of the chat format") {
  struct Case {
    ChatFormat format;
    std::string fixed;
  };
  for (const Case& one :
       {Case{ChatFormat::chatml, "none"}, Case{ChatFormat::gpt_oss, "medium"}, Case{ChatFormat::qwen3, ""}}) {
    const ChatFormat format = one.format;
    const std::string& fixed = one.fixed;
    World world([&](OpenAiSetup& setup) { setup.chat = format; });
    for (const std::string effort : {"none", "medium", "high"})
      for (const bool response : {false, true}) {
        const auto seen =
            response
                ? world.ask("POST", "/v1/responses", R"({"input":"a","reasoning":{"effort":")" + effort + "\"}}")
                : world.ask("POST", "/v1/chat/completions",
                            R"({"messages":[{"role":"user","content":"a"}],"reasoning_effort":")" + effort + "\"}");
        const bool names_it = seen->finished && seen->body()["error"]["param"].is_string() &&
                              seen->body()["error"]["param"] == (response ? "reasoning" : "reasoning_effort");
        CHECK_MESSAGE(names_it == (effort != fixed), name(format) << " " << effort);
        if (!names_it) continue;
        const std::string only = '"' + fixed + '"';
        CHECK(seen->body()["error"]["message"] ==
              (response ? "reasoning.effort is \"" : "reasoning_effort is \"") + effort +
                  "\"; this model's chat format " +
                  (format == ChatFormat::qwen3
                       ? "leaves the effort to the model; expected no such field"
                       : "always asks for " + only + "; expected " + only + " or no such field"));
      }
  }
}

TEST_CASE("OpenAiApp passes on a gate's refusal with its retry time") {
  World world;
  const auto seen = world.ask("POST", "/v1/completions", R"({"prompt":"a","n":2,"stream":true})");
  GenerationEvent refused = world.event(1, Kind::refused);
  refused.error.status = 429;
  refused.error.message = "TTFT 2.3 s predicted, 0.5 asked";
  refused.retry_after_s = 1.8;
  world.happen({world.event(0, Kind::accepted), refused});
  REQUIRE(seen->finished);
  CHECK(seen->response.status == 429);
  CHECK(seen->response.headers.find("retry-after") == "2");
  CHECK(seen->response.headers.find("Retry-After-MS") == "1800");
  CHECK(world.engine.cancelled.count(world.engine.order[0]) == 1);
  CHECK(world.app->under_way() == 0);
}

TEST_CASE("OpenAiApp cancels the generations of a client that left") {
  World world;
  const auto waiting = world.ask("POST", "/v1/completions", R"({"prompt":"a","n":3})");
  const auto streaming = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  world.happen({world.event(3, Kind::accepted), world.event(3, Kind::tokens, "x")});
  waiting->gone();
  streaming->gone();
  world.transport.run();
  CHECK(world.engine.cancelled.size() == 4);
  CHECK(world.app->under_way() == 0);
  world.happen({world.event(3, Kind::tokens, "y"), world.event(0, Kind::accepted)});
  CHECK(world.app->metrics().left == 2);
}

TEST_CASE("OpenAiApp gives up a request whose answer cannot be written, and serves the others of the same step") {
  World world;
  const auto broken = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true,"n":2})");
  const auto other = world.ask("POST", "/v1/completions", R"({"prompt":"a"})");
  broken->breaks = true;
  world.happen({world.event(0, Kind::accepted), world.event(1, Kind::accepted), world.event(0, Kind::tokens, "x"),
                world.event(2, Kind::accepted), world.event(2, Kind::tokens, "y"), world.event(2, Kind::ended)});
  CHECK(other->finished);
  CHECK(json::parse(other->response.body)["choices"][0]["text"] == "y");
  CHECK(!broken->finished);
  CHECK(world.engine.cancelled.size() == 2);
  CHECK(world.app->under_way() == 0);
}

TEST_CASE("OpenAiApp counts what its clients count") {
  World world;
  // Two answers. A stop string ends one in the middle of an event: "cd" is part of the answer, "ef" is not.
  const auto seen = world.ask("POST", "/v1/completions", R"({"prompt":"abc","n":2,"stop":"d","max_tokens":9})");
  world.happen({world.event(0, Kind::accepted), world.event(1, Kind::accepted)});
  GenerationEvent first_end = world.event(0, Kind::ended), second_end = world.event(1, Kind::ended);
  first_end.reason = second_end.reason = FinishReason::length;
  world.happen({world.event(0, Kind::tokens, "cdef"), world.event(1, Kind::tokens, "x"), first_end});
  world.happen({world.event(0, Kind::tokens, "late"), world.event(1, Kind::tokens, "yz"), second_end});
  REQUIRE(seen->finished);
  const ServeMetrics& counted = world.app->metrics();
  CHECK(counted.requests == 1);
  CHECK(counted.prompt_tokens == seen->body()["usage"]["prompt_tokens"]);
  CHECK(counted.generation_tokens == seen->body()["usage"]["completion_tokens"]);
  CHECK(counted.generation_tokens == 5);
  CHECK(counted.stopped == 1);
  CHECK(counted.cut == 1);
  CHECK(counted.ttft.count() == 2);
  CHECK(counted.itl.count() == 3);
  CHECK(counted.e2e.count() == 2);

  // A refusal of one answer refuses the request, which counts once, without its prompt tokens.
  const auto refused = world.ask("POST", "/v1/completions", R"({"prompt":"abcd","n":3})");
  world.happen({world.event(2, Kind::accepted), world.event(3, Kind::refused), world.event(4, Kind::refused)});
  CHECK(refused->finished);
  CHECK(counted.requests == 2);
  CHECK(counted.refused == 1);
  CHECK(counted.failed == 0);
  CHECK(counted.prompt_tokens == 4); // with the begin token

  // The prompt of a client that leaves counts, whether the engine has accepted it by then or not.
  for (const bool accepted : {true, false}) {
    const auto leaves = world.ask("POST", "/v1/completions", R"({"prompt":"ab"})");
    if (accepted) world.happen({world.event(world.engine.order.size() - 1, Kind::accepted)});
    leaves->gone();
    world.transport.run();
  }
  CHECK(counted.left == 2);
  CHECK(counted.prompt_tokens == 4 + 3 + 3);
  CHECK(counted.requests == 4);

  // A request that fails had been accepted.
  const auto fails = world.ask("POST", "/v1/completions", R"({"prompt":"abcde"})");
  world.happen({world.event(world.engine.order.size() - 1, Kind::accepted),
                world.event(world.engine.order.size() - 1, Kind::failed)});
  CHECK(fails->finished);
  CHECK(counted.failed == 1);
  CHECK(counted.refused == 1);
  CHECK(counted.prompt_tokens == 10 + 6);
  CHECK(counted.e2e.count() == 2);
}

TEST_CASE("OpenAiApp reports a failed generation in its stream") {
  World world;
  const auto seen = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  GenerationEvent failed = world.event(0, Kind::failed);
  failed.error.message = "a copy failed";
  failed.error.type = "server_error";
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::tokens, "x"), failed});
  CHECK(seen->finished);
  CHECK(seen->response.body.find("\"a copy failed\"") != std::string::npos);
  CHECK(seen->response.body.find("[DONE]") == std::string::npos);
}

TEST_CASE("OpenAiApp drains: 503 with Retry-After to newcomers, and an error to those whom it cuts") {
  std::vector<json> ends;
  World world([&](OpenAiSetup& setup) {
    setup.log = [&](const std::string& text) {
      if (json line = json::parse(text); line["event"] == "end") ends.push_back(std::move(line));
    };
  });
  CHECK(world.ask("GET", "/ready")->response.status == 200);
  const auto whole = world.ask("POST", "/v1/completions", R"({"prompt":"a"})");
  const auto stream = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  world.happen({world.event(0, Kind::accepted), world.event(1, Kind::accepted), world.event(1, Kind::tokens, "x")});
  world.app->drain();
  for (const auto& seen : {world.ask("GET", "/ready"), world.ask("POST", "/v1/completions", R"({"prompt":"a"})")}) {
    CHECK(seen->response.status == 503);
    CHECK(seen->response.headers.find("Retry-After") == "1");
    CHECK(seen->response.close);
  }
  CHECK(world.ask("GET", "/health")->response.status == 200);
  CHECK(world.ask("GET", "/metrics")->response.status == 200);
  CHECK(!stream->finished); // those under way go on
  world.app->cut("too long");
  CHECK(whole->response.status == 503);
  CHECK(whole->response.headers.find("Retry-After") == "1");
  CHECK(stream->finished);
  CHECK(stream->response.body.find(R"(data: {"error":{"message":"too long")") != std::string::npos);
  CHECK(stream->response.body.find("[DONE]") == std::string::npos);
  REQUIRE(ends.size() == 2);
  for (const json& line : ends) CHECK(line["reason"] == "drain");
  CHECK(ends[0]["status"].get<int>() + ends[1]["status"].get<int>() == 503 + 200);
  CHECK(world.engine.cancelled.size() == 2);
  CHECK(world.app->under_way() == 0);
  world.happen({world.event(1, Kind::tokens, "late")});
}

TEST_CASE("OpenAiApp cuts requests of which one answer has ended") {
  std::vector<json> ends;
  World world([&](OpenAiSetup& setup) {
    setup.log = [&](const std::string& text) {
      if (json line = json::parse(text); line["event"] == "end") ends.push_back(std::move(line));
    };
  });
  const auto whole = world.ask("POST", "/v1/completions", R"({"prompt":"a","n":2,"stop":"x"})");
  const auto stream = world.ask("POST", "/v1/completions", R"({"prompt":["a","b"],"stop":"x","stream":true})");
  for (const std::size_t at : {0U, 1U, 2U, 3U}) world.happen({world.event(at, Kind::accepted)});
  world.happen({world.event(0, Kind::tokens, "x"), world.event(2, Kind::tokens, "x")});
  CHECK(world.app->under_way() == 2);
  world.app->cut("too long");
  CHECK(whole->response.status == 503);
  CHECK(stream->finished);
  CHECK(stream->response.body.find(R"(data: {"error":{"message":"too long")") != std::string::npos);
  CHECK(stream->response.body.find("[DONE]") == std::string::npos);
  CHECK(ends.size() == 2);
  CHECK(world.engine.cancelled.size() == 4);
  CHECK(world.app->under_way() == 0);
}

TEST_CASE("OpenAiApp refuses requests that the model cannot serve") {
  World world;
  CHECK(world.ask("POST", "/v1/completions", R"({"prompt":"a","model":"gpt-4"})")->response.status == 404);
  CHECK(world.ask("POST", "/v1/completions", R"({"prompt":[]})")->body()["error"]["param"] == "prompt");
  CHECK(world.ask("POST", "/v1/completions", R"({"prompt":[99999]})")->response.status == 400);
  CHECK(world.ask("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})")->response.status ==
        400); // bytes have no chat format
  const auto longer = world.ask("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":98})");
  CHECK(longer->body()["error"]["code"] == "context_length_exceeded");
  CHECK(
      longer->body()["error"]["message"] ==
      "this model's maximum context length is 100 tokens; the request has 102 (4 in the prompt, 98 in the completion)");
  CHECK(world.ask("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":96})")->begun == false);
  const auto parts = world.ask("POST", "/v1/completions", R"({"prompt":["a","abcdefgh","a"],"max_tokens":92})");
  CHECK(parts->body()["error"]["message"].get<std::string>().find("101 (9 in the prompt") != std::string::npos);
  World chat([](OpenAiSetup& setup) {
    setup.chat = ChatFormat::chatml;
    setup.rules = true;
    setup.context = 400;
  });
  const auto least = [&](const char* tokens) {
    return chat.ask("POST", "/v1/chat/completions",
                    std::string{R"({"messages":[{"role":"user","content":"a"}],"min_tokens":)"} + tokens + "}");
  };
  CHECK(!least("50")->begun);
  CHECK(least("400")->body()["error"]["code"] == "context_length_exceeded"); // the answer could not have so many
  HttpHeaders headers;
  headers.add("X-SLO-TTFT-MS", "soon");
  CHECK(world.ask("POST", "/v1/completions", R"({"prompt":"a"})", headers)->body()["error"]["param"] ==
        "x-slo-ttft-ms");
  world.engine.is_ready = false;
  CHECK(world.ask("POST", "/v1/completions", R"({"prompt":"a"})")->response.status == 503);
  CHECK(world.ask("GET", "/ready")->response.status == 503);
  CHECK(world.ask("GET", "/health")->response.status == 200);
}

TEST_CASE("OpenAiApp lists its paths at /, without a key") {
  World world([](OpenAiSetup& setup) { setup.api_keys = {"secret"}; });
  const auto seen = world.ask("GET", "/");
  CHECK(seen->response.status == 200);
  const json paths = seen->body()["paths"];
  CHECK(std::find(paths.begin(), paths.end(), "POST /v1/chat/completions") != paths.end());
  CHECK(world.ask("POST", "/")->response.status == 405);
  CHECK(world.ask("GET", "/nothing")->response.status == 404);
}

TEST_CASE("OpenAiApp checks keys, paths and methods; /health needs no key") {
  World world([](OpenAiSetup& setup) { setup.api_keys = {"secret", "other"}; });
  const auto with = [](const std::string& authorization) {
    HttpHeaders headers;
    headers.add("authorization", authorization);
    return headers;
  };
  CHECK(world.ask("GET", "/v1/models")->response.status == 401);
  CHECK(world.ask("GET", "/v1/models", "", with("Bearer secre"))->response.status == 401);
  CHECK(world.ask("GET", "/v1/models", "", with("Bearer secretsecret"))->response.status == 401);
  const auto models = world.ask("GET", "/v1/models", "", with("Bearer other"));
  CHECK(models->body()["data"][0]["id"] == "tiny");
  CHECK(world.ask("GET", "/v1/models", "", with("bearer secret"))->response.status ==
        200); // RFC 7235: case-insensitive
  for (const auto& [path, body] :
       {std::pair{"/tokenize", R"({"prompt":"a"})"}, std::pair{"/detokenize", R"({"tokens":[1]})"}}) {
    CHECK(world.ask("POST", path, body)->response.status == 401);
    CHECK(world.ask("POST", path, body, with("Bearer other"))->response.status == 200);
  }
  CHECK(world.ask("GET", "/nothing")->response.status == 404);
  const auto get = world.ask("GET", "/v1/completions", "", with("Bearer other"));
  CHECK(get->response.status == 405);
  CHECK(get->response.headers.find("Allow") == "POST");
  CHECK(world.ask("GET", "/health?x=1")->response.status == 200);
}

TEST_CASE("OpenAiApp holds each key to its requests and tokens a minute, and says what is left") {
  World world([](OpenAiSetup& setup) {
    setup.keys = std::make_shared<ApiKeys>(
        std::vector<ApiKey>{{.name = "alice", .secret = "a", .requests_per_minute = 2, .tokens_per_minute = 60},
                            {.name = "bob", .secret = "b", .requests_per_minute = 0, .tokens_per_minute = 0}},
        0);
  });
  HttpHeaders alice, bob;
  alice.add("Authorization", "Bearer a");
  bob.add("Authorization", "Bearer b");
  HttpRequest head{"POST", "/v1/completions", alice, ""};
  CHECK(!world.app->refuse_head(head));
  CHECK(world.app->refuse_head({"POST", "/v1/completions", {}, ""})->status == 401);
  const auto first = world.ask("POST", "/v1/completions", R"({"prompt":"ab","stream":true})", alice);
  world.happen({world.event(0, Kind::accepted)});
  world.happen({world.event(0, Kind::tokens, "xyz"), world.event(0, Kind::ended)});
  CHECK(first->response.headers.find("x-ratelimit-remaining-requests") == "1");
  const auto second = world.ask("POST", "/tokenize", R"({"prompt":"a"})", alice);
  CHECK(second->response.status == 200);
  CHECK(second->response.headers.find("x-ratelimit-limit-tokens") == "60");
  CHECK(second->response.headers.find("x-ratelimit-remaining-tokens") == "54"); // a prompt of 3, an answer of 3
  CHECK(second->response.headers.find("x-ratelimit-remaining-requests") == "0");
  const auto third = world.ask("POST", "/v1/completions", R"({"prompt":"ab"})", alice);
  CHECK(third->response.status == 429);
  CHECK(third->body()["error"]["code"] == "rate_limit_exceeded");
  CHECK(third->response.headers.find("Retry-After") == "30");
  CHECK(world.app->refuse_head(head)->status == 429);
  CHECK(world.app->metrics().over_requests == 2);
  CHECK(world.app->metrics().over_tokens == 0);
  CHECK(world.ask("GET", "/v1/models", "", alice)->response.status == 200);
  const auto other = world.ask("POST", "/tokenize", R"({"prompt":"a"})", bob);
  CHECK(other->response.status == 200);
  CHECK(other->response.headers.find("x-ratelimit-limit-requests").empty());
  world.clock = 30;
  const auto long_one = world.ask("POST", "/v1/completions", R"({"prompt":"ab"})", alice);
  world.happen({world.event(1, Kind::accepted), world.event(1, Kind::tokens, std::string(95, 'x')),
                world.event(1, Kind::ended)});
  CHECK(long_one->response.status == 200);
  world.clock = 60; // a request is left, but 38 tokens were overdrawn, and only 30 have come back
  const auto fourth = world.ask("POST", "/tokenize", R"({"prompt":"a"})", alice);
  CHECK(fourth->response.status == 429);
  CHECK(fourth->body()["error"]["type"] == "tokens");
  CHECK(world.app->metrics().over_requests == 2);
  CHECK(world.app->metrics().over_tokens == 1);
  world.clock = 70;
  CHECK(world.ask("POST", "/tokenize", R"({"prompt":"a"})", alice)->response.status == 200);
}

TEST_CASE("OpenAiApp describes its model by name, escaped or not") {
  World world([](OpenAiSetup& setup) { setup.model = "org/tiny"; });
  for (const char* path : {"/v1/models/org/tiny", "/v1/models/org%2Ftiny", "/v1/models/org%2ftiny?x=1"}) {
    const auto model = world.ask("GET", path);
    CHECK(model->response.status == 200);
    CHECK(model->body() == world.ask("GET", "/v1/models")->body()["data"][0]);
  }
  CHECK(world.ask("GET", "/v1/models/org/tiny")->body()["id"] == "org/tiny");
  for (const char* path : {"/v1/models/tiny", "/v1/models/org%2", "/v1/models/%00%ZZ"}) {
    const auto none = world.ask("GET", path);
    CHECK(none->response.status == 404);
    CHECK(none->body()["error"]["code"] == "model_not_found");
  }
  CHECK(world.ask("POST", "/v1/models/tiny", "{}")->response.status == 405);
  World closed([](OpenAiSetup& setup) { setup.api_keys = {"secret"}; });
  CHECK(closed.ask("GET", "/v1/models/tiny")->response.status == 401);
}

TEST_CASE("OpenAiApp dates every response, and gives it its request's id or a new one") {
  std::vector<json> lines;
  World world([&](OpenAiSetup& setup) { setup.log = [&](std::string line) { lines.push_back(json::parse(line)); }; });
  HttpHeaders named;
  named.add("X-Request-ID", "of-a-client");
  const auto whole = world.ask("POST", "/v1/completions", R"({"prompt":"a"})", named);
  const auto stream = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true})", named);
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::ended), world.event(1, Kind::accepted),
                world.event(1, Kind::ended)});
  for (const auto& seen :
       {whole, stream, world.ask("GET", "/health", "", named), world.ask("GET", "/none", "", named)}) {
    CHECK(seen->response.headers.find("x-request-id") == "of-a-client");
    CHECK(seen->response.headers.find("date") == "Tue, 14 Nov 2023 22:13:20 GMT");
  }
  REQUIRE(lines.size() == 5); // two requests, their ends, and the path that is none; a probe has no line
  for (const json& line : lines) CHECK(line["request_id"] == "of-a-client");
  const auto id_of = [](const HttpResponse& response) { return std::string{response.headers.find("x-request-id")}; };
  std::set<std::string> made{id_of(world.ask("GET", "/health")->response), id_of(world.ask("GET", "/health")->response),
                             id_of(world.app->refuse(400, "no HTTP", nullptr))};
  CHECK(made.size() == 3);
  for (const std::string& id : made) CHECK(id.starts_with("req-"));
  CHECK(http_date(784'111'777) == "Sun, 06 Nov 1994 08:49:37 GMT"); // RFC 9110's example
  for (const std::string& wrong : {std::string{"a b"}, std::string(129, 'a'), std::string{"\xC3\xA9"}}) {
    HttpHeaders headers;
    headers.add("x-request-id", wrong);
    const auto refused = world.ask("GET", "/v1/models", "", headers);
    CHECK(refused->response.status == 400);
    CHECK(refused->body()["error"]["param"] == "x-request-id");
    CHECK(id_of(refused->response).starts_with("req-"));
  }
}

TEST_CASE("OpenAiApp numbers the sessions that x-session-id names, by key, and logs the name") {
  std::vector<json> lines;
  World world([&](OpenAiSetup& setup) {
    setup.log = [&](std::string line) { lines.push_back(json::parse(line)); };
    setup.api_keys = {"alice", "bob"};
  });
  const auto turn = [&](const char* key, const std::string& session) {
    HttpHeaders headers;
    headers.add("Authorization", std::string{"Bearer "} + key);
    if (session != "none") headers.add("X-Session-ID", session);
    const std::size_t before = world.engine.order.size();
    const auto seen = world.ask("POST", "/v1/completions", R"({"prompt":"a","n":2})", headers);
    if (world.engine.order.size() == before) {
      CHECK(seen->response.status == 400);
      CHECK(seen->body()["error"]["param"] == "x-session-id");
      return std::pair{std::uint32_t{0}, std::int32_t{-1}};
    }
    const Generation& first = world.engine.generations.at(world.engine.order[before]);
    const Generation& second = world.engine.generations.at(world.engine.order[before + 1]);
    CHECK(first.session == second.session);
    CHECK(first.turn == second.turn);
    return std::pair{first.session, first.turn};
  };
  const auto one = turn("alice", "chat-1");
  CHECK(one.first > 0);
  CHECK(one.second == 0);
  CHECK(turn("alice", "chat-1") == std::pair{one.first, std::int32_t{1}});
  CHECK(turn("alice", "chat-2").first != one.first);
  CHECK(turn("bob", "chat-1").first != one.first);
  CHECK(turn("alice", "none") == std::pair{std::uint32_t{0}, std::int32_t{0}});
  CHECK(turn("alice", "chat-1").second == 2);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0]["session"] == "chat-1");
  CHECK_FALSE(lines[4].contains("session"));
  for (const std::string& wrong : {std::string{}, std::string{"a b"}, std::string(129, 'a'), std::string{"\xC3\xA9"}})
    CHECK(turn("alice", wrong).second == -1);
}

TEST_CASE("OpenAiApp says in every answer and chunk what computed it") {
  World world([](OpenAiSetup& setup) { setup.fingerprint = "sluice-1-abc"; });
  const auto whole = world.ask("POST", "/v1/completions", R"({"prompt":"a"})");
  const auto stream =
      world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true,"stream_options":{"include_usage":true}})");
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::ended), world.event(1, Kind::accepted),
                world.event(1, Kind::tokens, "x"), world.event(1, Kind::ended)});
  CHECK(whole->body()["system_fingerprint"] == "sluice-1-abc");
  CHECK(stream->events().size() == 3);
  for (const json& chunk : stream->events()) CHECK(chunk["system_fingerprint"] == "sluice-1-abc");
}

TEST_CASE("OpenAiApp adds CORS headers to every response once, and to none without an origin") {
  World closed;
  CHECK(closed.ask("OPTIONS", "/v1/models")->response.status == 405);
  CHECK(closed.ask("GET", "/health")->response.headers.find("access-control-allow-origin").empty());
  World world([](OpenAiSetup& setup) {
    setup.cors = "https://a.example";
    setup.api_keys = {"secret"};
  });
  HttpHeaders key;
  key.add("Authorization", "Bearer secret");
  const auto names_in = [](const std::string& list) {
    std::set<std::string> names;
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t end = std::min(list.find(", ", at), list.size());
      names.insert(list.substr(at, end - at));
      at = end + 2;
    }
    return names;
  };
  const auto check_open = [&](const HttpResponse& response) {
    std::vector<std::string> origins, exposed;
    for (const auto& [name, value] : response.headers) {
      if (HttpHeaders::same_name(name, "Access-Control-Allow-Origin")) origins.push_back(value);
      if (HttpHeaders::same_name(name, "Access-Control-Expose-Headers")) exposed.push_back(value);
    }
    CHECK(origins == std::vector<std::string>{"https://a.example"});
    REQUIRE(exposed.size() == 1);
    for (const char* name : {"x-sluice-forecast", "x-request-id", "retry-after", "retry-after-ms"})
      CHECK(names_in(exposed[0]).count(name) == 1);
    for (const std::string what : {"requests", "tokens"})
      for (const std::string part : {"limit", "remaining", "reset"})
        CHECK(names_in(exposed[0]).count("x-ratelimit-" + part + "-" + what) == 1);
  };
  check_open(world.ask("GET", "/health")->response);
  check_open(world.ask("GET", "/nothing")->response);
  check_open(world.ask("GET", "/v1/models")->response);                             // 401
  check_open(world.ask("DELETE", "/v1/models", "", key)->response);                 // 405
  check_open(world.ask("POST", "/v1/completions", "{", key)->response);             // 400
  check_open(world.app->refuse(413, "the body has more than 1000 bytes", nullptr)); // made by the transport
  const auto whole = world.ask("POST", "/v1/completions", R"({"prompt":"a"})", key);
  const auto stream = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true})", key);
  const auto refused = world.ask("POST", "/v1/completions", R"({"prompt":"a","stream":true})", key);
  GenerationEvent no = world.event(2, Kind::refused);
  no.error.status = 429;
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::tokens, "x"), world.event(0, Kind::ended),
                world.event(1, Kind::accepted), world.event(1, Kind::tokens, "x"), no});
  check_open(whole->response);
  check_open(stream->response);
  REQUIRE(refused->response.status == 429);
  check_open(refused->response);
  stream->gone(); // passes through the CORS exchange
  world.transport.run();
  CHECK(world.app->under_way() == 0);
}

TEST_CASE("OpenAiApp allows the headers that a preflight request names, if they are valid names") {
  World world([](OpenAiSetup& setup) { setup.cors = "*"; });
  const auto headers_for = [&](const std::string& asked) {
    HttpHeaders headers;
    headers.add("access-control-request-headers", asked);
    const auto seen = world.ask("OPTIONS", "/v1/chat/completions", "", headers);
    CHECK(seen->response.status == 204);
    CHECK(seen->response.headers.find("Access-Control-Allow-Origin") == "*");
    return std::string{seen->response.headers.find("Access-Control-Allow-Headers")};
  };
  const std::string sdk = "authorization,content-type,traceparent,x-slo-tbt-ms,x-stainless-lang,x-stainless-os";
  CHECK(headers_for(sdk) == sdk);
  for (const std::string& wrong : {std::string{}, std::string{"a\r\nSet-Cookie: b"}, std::string(5000, 'a')})
    CHECK(headers_for(wrong) == "authorization, content-type, traceparent, x-slo-ttft-ms, x-slo-tbt-ms");
}

TEST_CASE("OpenAiApp refuses logprobs if tokens have none") {
  World world([](OpenAiSetup& setup) { setup.logprobs = false; });
  const auto refused = world.ask("POST", "/v1/completions", R"({"prompt":"a","logprobs":0})");
  CHECK(refused->response.status == 400);
  CHECK(refused->body()["error"]["param"] == "logprobs");
  CHECK(!world.ask("POST", "/v1/completions", R"({"prompt":"a"})")->begun);
}

TEST_CASE("OpenAiApp logs how each request ended") {
  std::vector<json> lines;
  World world([&](OpenAiSetup& setup) { setup.log = [&](std::string line) { lines.push_back(json::parse(line)); }; });
  const auto ends = [&] {
    std::vector<json> all;
    for (const json& line : lines)
      if (line["event"] == "end") all.push_back(line);
    lines.clear();
    return all;
  };
  HttpHeaders traced;
  traced.add("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const auto begin = [&](const char* body) { return world.ask("POST", "/v1/completions", body, traced); };
  GenerationEvent cut;

  begin(R"({"prompt":"a","n":2})");
  cut = world.event(1, Kind::ended);
  cut.reason = FinishReason::length;
  world.happen({world.event(0, Kind::accepted), world.event(1, Kind::accepted), world.event(0, Kind::tokens, "x"),
                world.event(0, Kind::ended), world.event(1, Kind::tokens, "x"), cut});
  auto said = ends();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["status"] == 200);
  CHECK(said[0]["reason"] == "stop,length");
  CHECK(said[0]["traceparent"] == traced.find("traceparent"));

  begin(R"({"prompt":"a","stream":true})");
  GenerationEvent refused = world.event(2, Kind::refused);
  refused.error.status = 429;
  world.happen({refused});
  begin(R"({"prompt":"a","stream":true})");
  GenerationEvent failed = world.event(3, Kind::failed);
  failed.error.status = 500;
  failed.error.message = "the device is lost";
  world.happen({world.event(3, Kind::accepted), world.event(3, Kind::tokens, "x")});
  world.happen({failed});
  begin(R"({"prompt":"a"})")->gone();
  world.transport.run();
  begin(R"({"prompt":"a","stop":"x"})");
  world.happen({world.event(5, Kind::accepted), world.event(5, Kind::tokens, "x")});
  said = ends();
  REQUIRE(said.size() == 4);
  const std::vector<std::pair<int, std::string>> wanted{
      {429, "refused"}, {200, "error"}, {499, "abort"}, {200, "stop"}};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(said[i]["status"] == wanted[i].first);
    CHECK(said[i]["reason"] == wanted[i].second);
    CHECK(said[i].value("error", "") == (i == 1 ? "the device is lost" : ""));
  }
}

TEST_CASE("OpenAiApp tells the client and the log what a request got: TTFT, cached tokens, its SLO") {
  std::vector<json> lines;
  World world([&](OpenAiSetup& setup) { setup.log = [&](std::string line) { lines.push_back(json::parse(line)); }; });
  HttpHeaders slo;
  slo.add("x-slo-ttft-ms", "300");
  slo.add("x-slo-tbt-ms", "100");
  const auto serve = [&](const char* body, std::uint64_t at, double first, double second, const HttpHeaders& headers) {
    const double begun = world.clock;
    const auto seen = world.ask("POST", "/v1/completions", body, headers);
    GenerationEvent token = world.event(at, Kind::tokens, "x");
    token.cached = 48;
    world.clock = begun + first;
    world.happen({world.event(at, Kind::accepted), token});
    world.clock = begun + first + second;
    world.happen({world.event(at, Kind::tokens, "y"), world.event(at, Kind::ended)});
    return seen;
  };
  const auto in_time = serve(R"({"prompt":"ab","stream":true})", 0, 0.25, 0.0625, slo);
  CHECK(in_time->response.headers.find("Trailer").find("x-sluice-slo") != std::string_view::npos);
  CHECK(in_time->response.headers.find("x-sluice-slo").empty()); // not known at the head
  CHECK(in_time->trailers.find("x-sluice-ttft-ms") == "250");
  CHECK(in_time->trailers.find("x-sluice-cached-tokens") == "48");
  CHECK(in_time->trailers.find("x-sluice-slo") == "kept");
  CHECK(in_time->trailers.find("x-sluice-slo-late-ms").empty());
  const auto late = serve(R"({"prompt":"ab"})", 1, 0.25, 0.5, slo);
  CHECK(late->response.headers.find("x-sluice-slo") == "missed");
  CHECK(late->response.headers.find("x-sluice-slo-late-ms") == "400");
  const auto none = serve(R"({"prompt":"ab"})", 2, 2, 2, {});
  CHECK(none->response.headers.find("x-sluice-slo").empty());
  CHECK(none->response.headers.find("x-sluice-ttft-ms") == "2000");

  std::erase_if(lines, [](const json& line) { return line["event"] != "end"; });
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["slo"] == "kept");
  CHECK(lines[0]["ttft_seconds"] == 0.25);
  CHECK(lines[0]["cached_tokens"] == 48);
  CHECK(lines[0]["prompt_tokens"] == 3);
  CHECK(lines[1]["slo"] == "missed");
  CHECK(lines[1]["slo_late_seconds"] == doctest::Approx(0.4));
  CHECK(!lines[2].contains("slo"));
  const std::string text = world.ask("GET", "/metrics")->response.body;
  for (const char* line : {"vllm:prompt_tokens_cached_total{model_name=\"tiny\",engine=\"0\"} 144\n",
                           "handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"} 3\n",
                           "handler=\"/v1/completions\",method=\"POST\",le=\"0.5\"} 1\n",
                           "handler=\"/v1/completions\",method=\"POST\",le=\"1\"} 2\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
}

TEST_CASE("OpenAiApp logs and counts every answer once, whatever its status") {
  std::vector<json> lines;
  World world([&](OpenAiSetup& setup) {
    setup.log = [&](std::string line) { lines.push_back(json::parse(line)); };
    setup.api_keys = {"right"};
  });
  HttpHeaders keyed;
  keyed.add("Authorization", "Bearer right");
  keyed.add("x-request-id", "mine");
  world.ask("POST", "/v1/completions", R"({"prompt":"a"})");
  world.ask("GET", "/no\x01thing?key=secret", "", keyed);
  world.ask("PUT", "/v1/models", "", keyed);
  world.ask("POST", "/v1/completions", "{", keyed);
  world.ask("GET", "/health");
  world.clock = 1000;
  CHECK(world.app->refuse(413, "the body is long", nullptr).status == 413);
  HttpRequest unread{"POST", "/v1/completions", keyed, ""};
  CHECK(world.app->refuse(413, "the body is long", &unread).headers.find("x-request-id") == "mine");
  HttpResponse drained;
  drained.status = 202;
  CHECK(world.app->adopt(drained, {"POST", "/drain", keyed, ""}).headers.find("x-request-id") == "mine");
  world.ask("POST", "/v1/completions", R"({"prompt":"a"})", keyed);
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::tokens, "x"), world.event(0, Kind::ended)});
  world.ask("POST", "/v1/completions", R"({"prompt":"a"})", keyed)->gone();
  world.transport.run();
  std::vector<int> statuses;
  for (const json& line : lines) {
    INFO(line.dump());
    CHECK(line["time"] == "2023-11-14T22:13:20.000Z");
    if (line.contains("path") && line["path"] != "/health" && line.value("status", 0) != 401)
      CHECK(line["request_id"] == "mine");
    CHECK(line.dump().find("secret") == std::string::npos);
    if (line.contains("status")) statuses.push_back(line["status"]);
  }
  CHECK(statuses == std::vector<int>{401, 404, 405, 400, 413, 413, 202, 200, 499}); // no probe that succeeds
  const std::string text = world.ask("GET", "/metrics")->response.body;
  for (const char* labels :
       {"code=\"401\",route=\"/v1/completions\"} 1\n", "code=\"404\",route=\"other\"} 1\n",
        "code=\"405\",route=\"/v1/models\"} 1\n", "code=\"400\",route=\"/v1/completions\"} 1\n",
        "code=\"200\",route=\"/health\"} 1\n", "code=\"413\",route=\"other\"} 1\n",
        "code=\"413\",route=\"/v1/completions\"} 1\n", "code=\"202\",route=\"other\"} 1\n",
        "code=\"200\",route=\"/v1/completions\"} 1\n", "code=\"499\",route=\"/v1/completions\"} 1\n"})
    CHECK_MESSAGE(text.find(std::string{"sluice:answers_total{model_name=\"tiny\",engine=\"0\","} + labels) !=
                      std::string::npos,
                  labels);
  for (const char* labels : {"handler=\"/health\",method=\"GET\",status=\"2xx\"} 1\n",
                             "handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"} 1\n",
                             "handler=\"/v1/completions\",method=\"POST\",status=\"4xx\"} 4\n"})
    CHECK_MESSAGE(text.find(std::string{"http_requests_total{model_name=\"tiny\",engine=\"0\","} + labels) !=
                      std::string::npos,
                  labels);
}

TEST_CASE("OpenAiApp times no answer whose request it could not read") {
  World world;
  world.clock = 1000; // since the server started
  (void)world.app->refuse(400, "no request line", nullptr);
  const std::string text = world.ask("GET", "/metrics")->response.body;
  CHECK(text.find("sluice:answers_total{model_name=\"tiny\",engine=\"0\",code=\"400\",route=\"other\"} 1") !=
        std::string::npos);
  CHECK(text.find("http_request_duration_seconds_count{model_name=\"tiny\",engine=\"0\",handler=\"other\","
                  "method=\"other\"} 0\n") != std::string::npos);
}

TEST_CASE("OpenAiApp refuses no key for what another holds, and says which limit a key has reached") {
  World world([](OpenAiSetup& setup) {
    setup.places = 8;
    setup.keys = std::make_shared<ApiKeys>(std::vector<ApiKey>{{.name = "alice", .secret = "a"},
                                                               {.name = "bob", .secret = "b"},
                                                               {.name = "carol", .secret = "c", .concurrent = 1}},
                                           0);
  });
  HttpHeaders alice, bob, carol;
  alice.add("Authorization", "Bearer a");
  bob.add("Authorization", "Bearer b");
  carol.add("Authorization", "Bearer c");
  std::vector<std::shared_ptr<Seen>> all;
  const auto ask = [&](const HttpHeaders& key) {
    return all.emplace_back(world.ask("POST", "/v1/completions", R"({"prompt":"a"})", key));
  };
  std::shared_ptr<Seen> last;
  for (int i = 0; i < 300; ++i) last = ask(alice);
  CHECK(world.engine.order.size() == 8);
  CHECK(last->response.status == 429);
  CHECK(last->response.headers.find("Retry-After") == "1");
  CHECK(last->body()["error"]["message"] ==
        "the queue is full: 256 answers wait for the places that the keys share; expected below 256");
  CHECK(world.app->metrics().refused == 300 - 8 - 256);
  const auto first = ask(bob);
  CHECK(!first->finished);
  CHECK(world.engine.order.size() == 9); // beyond the places
  for (int i = 0; i < 258; ++i) last = ask(carol);
  CHECK(world.engine.order.size() == 10);
  CHECK(last->body()["error"]["message"] ==
        "the key's queue is full: 256 of its answers wait for its own limit of answers at once; expected below 256");
  world.clock = 2; // an answer of carol's has taken two seconds so far
  last = ask(carol);
  CHECK(last->response.headers.find("Retry-After") == "512");
  CHECK(last->response.headers.find("retry-after-ms") == "512000");
  const std::string text = world.ask("GET", "/metrics")->response.body;
  CHECK(text.find("key=\"carol\",by=\"own_limit\"} 256\n") != std::string::npos);
  CHECK(text.find("key=\"alice\",by=\"other_keys\"} 256\n") != std::string::npos);
}

TEST_CASE("OpenAiApp counts the cached tokens of a prompt once, however many answers it has") {
  World world;
  world.ask("POST", "/v1/completions", R"({"prompt":["abc","de"],"n":2})");
  std::vector<GenerationEvent> events;
  for (std::size_t at = 0; at < 4; ++at) events.push_back(world.event(at, Kind::accepted));
  for (std::size_t at = 0; at < 4; ++at) {
    events.push_back(world.event(at, Kind::tokens, "x"));
    events.back().cached = at < 2 ? 4 : 2;
  }
  world.happen(events);
  CHECK(world.app->metrics().prompt_tokens == 4 + 3);
  CHECK(world.app->metrics().cached_tokens == 4 + 2);
}

TEST_CASE("OpenAiApp refuses a body of another content type, and one without a type from a web page") {
  World world;
  const auto status = [&](const char* name, const char* value) {
    HttpHeaders headers;
    headers.add(name, value);
    return world.ask("POST", "/tokenize", R"({"prompt":"a"})", headers)->response.status;
  };
  for (const char* type :
       {"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x"})
    CHECK(status("content-type", type) == 200);
  for (const char* type : {"text/plain", "application/jsonp", "application/x-www-form-urlencoded", ";application/json"})
    CHECK(status("Content-Type", type) == 400);
  CHECK(status("Accept", "*/*") == 200);
  CHECK(status("Origin", "http://elsewhere") == 400);
}

TEST_CASE("OpenAiApp refuses without tokenizing a text that is too long however it is tokenized") {
  World world;
  const auto longest = std::string{"<begin>"}.size(); // of the tokenizer's tokens
  const auto error =
      world.ask("POST", "/v1/completions", R"({"prompt":")" + std::string(100 * longest + 1, 'a') + "\"}");
  CHECK(error->response.status == 400);
  CHECK(error->body()["error"]["code"] == "context_length_exceeded");
  CHECK(error->body()["error"]["message"] ==
        "this model's maximum context length is 100 tokens of at most 7 bytes; the prompt has 701 bytes");
  const auto counted = world.ask("POST", "/tokenize", R"({"prompt":")" + std::string(1'100'000, 'a') + "\"}");
  CHECK(counted->response.status == 400);
  CHECK(counted->body()["error"]["param"] == "prompt");
}

TEST_CASE("OpenAiApp serves /whatif without a key if it is configured") {
  World none;
  CHECK(none.ask("GET", "/whatif")->response.status == 404);
  World world([](OpenAiSetup& setup) {
    setup.api_keys = {"secret"};
    setup.what_if = [] { return std::string{R"({"said":"so"})"}; };
  });
  const auto answer = world.ask("GET", "/whatif");
  CHECK(answer->response.status == 200);
  CHECK(answer->body()["said"] == "so");
  CHECK(answer->response.headers.find("Cache-Control") == "no-store");
}

TEST_CASE("OpenAiApp tokenizes and detokenizes") {
  World world;
  const auto tokens = world.ask("POST", "/tokenize", R"({"prompt":"h\u00e9"})");
  CHECK(tokens->body()["count"] == 4); // with the begin token
  const auto text = world.ask("POST", "/detokenize", json{{"tokens", tokens->body()["tokens"]}}.dump());
  CHECK(text->body()["prompt"] == "<begin>h\xC3\xA9");
  CHECK(world.ask("POST", "/detokenize", R"({"tokens":[-1]})")->response.status == 400);
  CHECK(world.ask("POST", "/tokenize", R"({"prompt":"h","add_special_tokens":false})")->body()["count"] == 1);
  CHECK(world.ask("POST", "/tokenize", R"({"prompt":"h","messages":[1]})")->body()["error"]["param"] == "messages");
  CHECK(world.ask("POST", "/detokenize", R"({"tokens":[1],"prompt":"h"})")->body()["error"]["param"] == "prompt");
  World lenient([](OpenAiSetup& setup) { setup.unknown_fields = UnknownFields::ignored; });
  CHECK(lenient.ask("POST", "/tokenize", R"({"prompt":"h","messages":[1]})")->response.status == 200);
  CHECK(!lenient.ask("POST", "/v1/completions", R"({"prompt":"h","no_such_field":1})")->begun);
}

TEST_CASE("OpenAiApp writes its metrics for Prometheus") {
  World world([](OpenAiSetup& setup) { setup.process_metrics = true; });
  world.ask("POST", "/v1/completions", R"({"prompt":"ab"})");
  world.clock = 0.5;
  world.happen({world.event(0, Kind::accepted), world.event(0, Kind::tokens, "x")});
  world.clock = 0.6;
  world.happen({world.event(0, Kind::tokens, "yz"), world.event(0, Kind::ended)});
  const std::string text = world.ask("GET", "/metrics")->response.body;
  for (const char* line :
       {"vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"0.25\"} 0\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"0.5\"} 1\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"+Inf\"} 1\n",
        "vllm:inter_token_latency_seconds_count{model_name=\"tiny\",engine=\"0\"} 2\n",
        "vllm:prompt_tokens_total{model_name=\"tiny\",engine=\"0\"} 3\n",
        "vllm:generation_tokens_total{model_name=\"tiny\",engine=\"0\"} 3\n",
        "vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"stop\"} 1\n",
        "vllm:request_prompt_tokens_sum{model_name=\"tiny\",engine=\"0\"} 3\n",
        "vllm:request_generation_tokens_sum{model_name=\"tiny\",engine=\"0\"} 3\n",
        "vllm:request_max_num_generation_tokens_sum{model_name=\"tiny\",engine=\"0\"} 3\n",
        "vllm:request_params_n_bucket{model_name=\"tiny\",engine=\"0\",le=\"1\"} 1\n",
        "vllm:request_params_max_tokens_sum{model_name=\"tiny\",engine=\"0\"} 16\n",
        "\n# TYPE process_open_fds gauge\nprocess_open_fds ", "# TYPE vllm:request_success_total counter\n",
        "sluice:steps_total{model_name=\"tiny\",engine=\"0\"} 7\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
}
