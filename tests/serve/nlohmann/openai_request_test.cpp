// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/nlohmann/openai_request.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace sluice;
using nlohmann::json;

namespace {

/// The error message for the client; empty: no error.
std::string wrong(const std::string& body, bool chat = true, UnknownFields unknown = UnknownFields::refused) {
  Completion into;
  const std::optional<ApiError> error = read_completion(body, chat, into, unknown);
  if (!error) return "";
  CHECK(error->status == 400);
  CHECK(error->message.find('\n') == std::string::npos);
  return error->param + "|" + error->message;
}
std::string chat_with(const std::string& field) {
  return R"({"messages":[{"role":"user","content":"hi"}],)" + field + "}";
}

} // namespace

TEST_CASE("read_completion reads a chat with all fields") {
  Completion into;
  const auto error = read_completion(R"({
    "model": "demo", "messages": [{"role": "developer", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "you"}]}],
    "max_tokens": 7, "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": -1, "n": 2, "seed": -3,
    "stop": ["\n", "END"], "stream": true, "stream_options": {"include_usage": true}, "logprobs": true,
    "top_logprobs": 3, "slo": {"ttft_ms": 500, "tbt_ms": 40}, "priority": -2,
    "kv_hints": {"ttl": 30.5, "keep": 64, "prefetch": 12}, "tools": [], "presence_penalty": 0,
    "response_format": {"type": "text"}, "user": "u"})",
                                     true, into);
  CHECK(!error.has_value());
  CHECK(into.model == "demo");
  REQUIRE(into.messages.size() == 2);
  CHECK(into.messages[0].role == "system");
  CHECK(into.messages[1].content == "Hello you");
  CHECK(into.max_tokens == 9);
  CHECK(into.sampling.temperature == 0.5);
  CHECK(into.sampling.top_p == 0.9);
  CHECK(into.sampling.top_k == 0);
  CHECK(into.seeded);
  CHECK(into.sampling.seed == static_cast<std::uint64_t>(-3));
  CHECK(into.choices == 2);
  CHECK(into.stop == std::vector<std::string>{"\n", "END"});
  CHECK(into.stream);
  CHECK(into.include_usage);
  CHECK(into.logprobs == 3);
  CHECK(into.slo.ttft.count() == doctest::Approx(0.5));
  CHECK(into.slo.tbt.count() == doctest::Approx(0.04));
  CHECK(into.priority == -2);
  CHECK(into.hints == SessionHints{.ttl = Seconds{30.5}, .prefetch = Seconds{12}, .keep = 64});
}

TEST_CASE("read_completion uses the API's defaults") {
  Completion chat, text;
  CHECK(!read_completion(R"({"messages":[{"role":"user","content":"hi"}]})", true, chat));
  CHECK(!chat.max_tokens.has_value());
  CHECK(chat.sampling.temperature == 1);
  CHECK(chat.logprobs == -1);
  CHECK(std::isinf(chat.slo.ttft.count()));
  CHECK(!read_completion(R"({"prompt":"once","stop":null,"max_tokens":null})", false, text));
  CHECK(text.max_tokens == 16);
  CHECK(text.prompts.at(0).text == "once");
}

TEST_CASE("read_completion reads every kind of prompt") {
  Completion texts, tokens, lists;
  CHECK(!read_completion(R"({"prompt":["a","b"]})", false, texts));
  CHECK(texts.prompts.size() == 2);
  CHECK(!read_completion(R"({"prompt":[1,2,3]})", false, tokens));
  CHECK(tokens.prompts.at(0).tokens == std::vector<std::int32_t>{1, 2, 3});
  CHECK(!read_completion(R"({"prompt":[[1],[2,3]]})", false, lists));
  CHECK(lists.prompts.at(1).tokens == std::vector<std::int32_t>{2, 3});
  for (const char* bad : {R"({"prompt":[]})", R"({"prompt":{}})", R"({"prompt":[[]]})", R"({"prompt":[1,-2]})",
                          R"({"prompt":[1,2.5]})", R"({"prompt":[1,"a"]})", R"({"prompt":[4294967296]})", R"({})"})
    CHECK(wrong(bad, false).starts_with("prompt|prompt "));
}

TEST_CASE("read_completion names an invalid field, its value and what is expected") {
  CHECK(wrong(chat_with(R"("temperature":3)")) == "temperature|temperature is 3; expected a number from 0 to 2");
  CHECK(wrong(chat_with(R"("max_tokens":-1)")) ==
        "max_tokens|max_tokens is -1; expected a whole number from 1 to 1073741824");
  CHECK(wrong(chat_with(R"("max_tokens":1e300)")).starts_with("max_tokens|max_tokens is 1e+300"));
  CHECK(wrong(chat_with(R"("n":0)")).starts_with("n|n is 0"));
  CHECK(wrong(chat_with(R"("top_p":0)")).starts_with("top_p|top_p is 0"));
  CHECK(wrong(chat_with(R"("seed":99999999999999999999)")).starts_with("seed|"));
  CHECK(wrong(chat_with(R"("stream":"yes")")).starts_with("stream|stream is \"yes\""));
  CHECK(wrong(chat_with(R"("stop":[""])")).starts_with("stop|"));
  CHECK(wrong(chat_with(R"("stop":7)")).starts_with("stop|"));
  CHECK(wrong(chat_with(R"("stream_options":{"include_usage":true})")).starts_with("stream_options|"));
  CHECK(wrong(chat_with(R"("top_logprobs":2)")).starts_with("top_logprobs|"));
  for (const char* value : {"\"high\"", "1.5", "2147483648"})
    CHECK(wrong(chat_with(std::string{R"("priority":)"} + value)) ==
          std::string{"priority|priority is "} + value + "; expected a whole number from -2147483648 to 2147483647");
  for (const auto& [hints, error] : std::vector<std::pair<std::string, std::string>>{
           {"true", "kv_hints|kv_hints is no object; expected one with ttl, keep, release and prefetch"},
           {R"({"actions":[]})",
            "kv_hints.actions|kv_hints.actions is no field of kv_hints; expected ttl, keep, release and prefetch"},
           {R"({"ttl":0})", "kv_hints.ttl|kv_hints.ttl is 0; expected seconds, from 0.001 to 3600"},
           {R"({"prefetch":3601})",
            "kv_hints.prefetch|kv_hints.prefetch is 3601; expected seconds, from 0.001 to 3600"},
           {R"({"keep":0})", "kv_hints.keep|kv_hints.keep is 0; expected a whole number from 1 to "},
           {R"({"release":1})", "kv_hints.release|kv_hints.release is 1; expected true or false"},
           {R"({"release":true,"ttl":5})",
            "kv_hints.release|kv_hints.release with a time at which the session comes back; expected "}})
    CHECK(wrong(chat_with(R"("kv_hints":)" + hints)).starts_with(error));
  CHECK(wrong(chat_with(R"("slo":{"ttft_ms":0})")).starts_with("slo.ttft_ms|slo.ttft_ms is 0"));
  CHECK(wrong(R"({"messages":[]})").starts_with("messages|"));
  CHECK(wrong(R"({"messages":[{"role":"critic","content":"x"}]})").starts_with("messages[0].role|"));
  CHECK(
      wrong(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})").starts_with("messages[0].content|"));
}

TEST_CASE("read_completion refuses by name fields of the API that this server does not support") {
  for (const std::string field :
       {R"("tools":[{"type":"function"}])", R"("response_format":{"type":"json_object"})", R"("echo":true)"}) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    CHECK(wrong(chat_with(field)).starts_with(name + "|" + name + " is not supported"));
  }
}

TEST_CASE("read_completion refuses by name every field that would change an answer, and lets the others pass") {
  // OpenAI's and vLLM's, with a value that asks for something.
  const json asks = json::parse(R"({"structured_outputs":{"regex":"a"},"guided_json":{},"guided_regex":"a",
    "guided_choice":["a"],"guided_grammar":"root ::= \"a\"","structural_tag":"{}","best_of":2,
    "use_beam_search":true,"min_p":0.1,"allowed_token_ids":[1],"logits_processors":["x"],"skip_special_tokens":false,
    "spaces_between_special_tokens":false,"truncate_prompt_tokens":5,"prompt_logprobs":1,
    "return_tokens_as_token_ids":true,"return_token_ids":true,"kv_transfer_params":{"a":1},"vllm_xargs":{"a":1}})");
  const json of_chat = json::parse(R"({"tools":[{"type":"function"}],"tool_choice":"required","functions":[{}],
    "function_call":{"name":"f"},"modalities":["audio"],"audio":{"voice":"a"},"prediction":{},
    "verbosity":"low","web_search_options":{},"add_special_tokens":true,"add_generation_prompt":false,
    "continue_final_message":true,"documents":[{}],"chat_template":"x","chat_template_kwargs":{"x":1},
    "mm_processor_kwargs":{"a":1}})");
  const json of_text = json::parse(R"({"suffix":"x","add_special_tokens":false,"prompt_embeds":"x"})");
  const json harmless = json::parse(R"({"user":"u","metadata":{"a":"b"},"store":true,"service_tier":"auto",
    "safety_identifier":"s","prompt_cache_key":"k","prompt_cache_retention":"24h",
    "prompt_cache_options":{"mode":"implicit"},"parallel_tool_calls":true,
    "request_id":"r","cache_salt":"s","include_reasoning":false,"length_penalty":2})");
  for (const bool chat : {true, false}) {
    const auto with = [&](const std::string& name, const json& value) {
      json body = chat ? json{{"messages", {{{"role", "user"}, {"content", "hi"}}}}} : json{{"prompt", "hi"}};
      body[name] = value;
      return body.dump();
    };
    for (const json& all : {asks, chat ? of_chat : of_text})
      for (auto field = all.begin(); field != all.end(); ++field) {
        const std::string begin = field.key() + "|" + field.key() + " is not supported by this server; expected none";
        for (const UnknownFields unknown : {UnknownFields::refused, UnknownFields::ignored}) {
          const std::string message = wrong(with(field.key(), field.value()), chat, unknown);
          CHECK_MESSAGE(message.starts_with(begin), field.key() << ": " << message);
        }
        CHECK(wrong(with(field.key(), nullptr), chat) == "");
      }
    for (auto field = harmless.begin(); field != harmless.end(); ++field)
      CHECK(wrong(with(field.key(), field.value()), chat) == "");
  }
}

TEST_CASE("a field whose value has no effect passes, whichever way it is written") {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
  for (const std::string& field :
       {tools + R"("tool_choice":"none")", std::string{R"("functions":[{"name":"f"}],"function_call":"none")"},
        std::string{R"("reasoning_effort":"none","best_of":1)"}, std::string{R"("n":3,"best_of":3)"},
        std::string{R"("best_of":1,"n":null)"}, std::string{R"("documents":[],"media_io_kwargs":{},"vllm_xargs":{})"}})
    CHECK_MESSAGE(wrong(chat_with(field)) == "", field);
  CHECK(wrong(chat_with(tools + R"("tool_choice":"auto")")).starts_with("tools|"));
  CHECK(wrong(chat_with(tools + R"("tool_choice":null)")).starts_with("tools|"));
  CHECK(wrong(chat_with(R"("n":2,"best_of":3)")).starts_with("best_of|"));
  CHECK(wrong(chat_with(R"("n":3,"best_of":1)")) ==
        "best_of|best_of is not supported by this server; expected none, or 3");
  CHECK(wrong(R"({"prompt":"a","best_of":2,"n":2,"suffix":""})", false) == "");
  CHECK(wrong(chat_with(R"("reasoning_effort":"minimal")"))
            .starts_with("reasoning_effort|reasoning_effort is \"minimal\"; this model's chat format always asks for"));
  for (const char* field : {R"("tools":[],"tool_choice":"auto")", R"("tool_choice":"auto")", R"("tool_choice":"none")",
                            R"("tools":null,"tool_choice":"auto")", R"("response_format":{"type":"text","x":null})",
                            R"("function_call":"auto")"})
    CHECK_MESSAGE(wrong(chat_with(field)) == "", field);
  // Null asks for nothing, also of a field that nobody knows; so does no argument for the template.
  for (const char* field :
       {R"("moderation":null)", R"("context_management":[],"x":{},"y":"")", R"("chat_template_kwargs":{})",
        R"("chat_template_kwargs":{"x":null})", R"("stream":true,"stream_options":{"usage":null})"})
    CHECK_MESSAGE(wrong(chat_with(field)) == "", field);
  // What OpenAI's, LiteLLM's and OpenRouter's clients send back of an answer.
  const auto history = [](const std::string& more) {
    return R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",)" + more +
           R"(},{"role":"user","content":"c"}]})";
  };
  for (
      const char* more :
      {R"("refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":null,"parsed":null)",
       R"("refusal":"","annotations":[],"tool_calls":[],"thinking_blocks":[],"provider_specific_fields":{},"images":[])",
       R"("thinking_blocks":null,"reasoning_details":[],"cache_control":{"type":"ephemeral"})"})
    CHECK_MESSAGE(wrong(history(more)) == "", more);
  CHECK(wrong(history(R"("thinking_blocks":[{"thinking":"x"}])")).starts_with("messages[1].thinking_blocks|"));
  CHECK(wrong(history(R"("refusal":"no")")).starts_with("messages[1].refusal|"));
  CHECK(wrong(chat_with(R"("tool_choice":"auto","tools":[{"type":"function"}])")).starts_with("tools|"));
  CHECK(wrong(chat_with(R"("tool_choice":"required")")).starts_with("tool_choice|"));
  CHECK(wrong(chat_with(R"("response_format":{"type":"text","strict":true})")).starts_with("response_format|"));
}

TEST_CASE("GuideLLM's body, which asks for the usage in every chunk, is read") {
  Completion read;
  CHECK_FALSE(read_completion(chat_with(R"("model":"m","stream":true,"stream_options":{"include_usage":true,)"
                                        R"("continuous_usage_stats":true},"max_completion_tokens":5,"stop":null,)"
                                        R"("ignore_eos":true)"),
                              true, read));
  CHECK(read.include_usage);
  CHECK(read.continuous_usage);
}

TEST_CASE("read_completion refuses a field that nobody knows, unless it is lenient; within slo always") {
  const auto lenient = [](const std::string& body) { return wrong(body, true, UnknownFields::ignored); };
  CHECK(wrong(chat_with(R"("tempreture":0)")) ==
        "tempreture|tempreture is no field of /v1/chat/completions (did you mean temperature?); expected none, or a "
        "server with --lenient, which ignores it");
  CHECK(lenient(chat_with(R"("tempreture":0)")) == "");
  CHECK(
      wrong(R"({"prompt":"a","messages":[1]})", false).starts_with("messages|messages is no field of /v1/completions"));
  CHECK(wrong(chat_with("\"a\\nb\":0")).starts_with("a?b|a?b is no field"));
  CHECK(wrong(chat_with(R"("stream":true,"stream_options":{"include_obfuscation":false})")) == "");
  CHECK(wrong(chat_with(R"("stream":true,"stream_options":{"continuous_usage_stats":3})"))
            .starts_with("stream_options.continuous_usage_stats|"));
  CHECK(wrong(chat_with(R"("stream":true,"stream_options":{"usage":true})")).starts_with("stream_options.usage|"));
  CHECK(lenient(chat_with(R"("stream":true,"stream_options":{"usage":true})")) == "");
  for (const std::string& message :
       {wrong(chat_with(R"("slo":{"ttft":1})")), lenient(chat_with(R"("slo":{"ttft":1})"))})
    CHECK(message == "slo.ttft|slo.ttft is no field of slo; expected ttft_ms and tbt_ms");
}

TEST_CASE("read_completion reads tool calls, their results, and assistants' messages without text") {
  Completion into;
  const auto error = read_completion(R"({"messages":[
    {"role":"user","content":"Weather?","name":"ann"},
    {"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"call_1","type":"function",
      "function":{"name":"weather","arguments":"{\"city\": \"Ulm\"}"}}]},
    {"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"rain"}]},
    {"role":"assistant","content":null},{"role":"user","content":"Thanks"}]})",
                                     true, into);
  CHECK(!error.has_value());
  REQUIRE(into.messages.size() == 5);
  CHECK(into.messages[1].content.empty());
  REQUIRE(into.messages[1].calls.size() == 1);
  CHECK(into.messages[1].calls[0].name == "weather");
  CHECK(into.messages[1].calls[0].arguments == R"({"city": "Ulm"})");
  CHECK(into.messages[2].role == "tool");
  CHECK(into.messages[2].content == "rain");
  CHECK(into.messages[3].content.empty());

  const auto with = [](const char* message) { return wrong(std::string{R"({"messages":[)"} + message + "]}"); };
  CHECK(with(R"({"role":"user","content":null})").starts_with("messages[0].content|"));
  CHECK(with(R"({"role":"tool","tool_call_id":"a"})").starts_with("messages[0].content|"));
  CHECK(with(R"({"role":"user","content":"a","colour":1})").starts_with("messages[0].colour|messages[0].colour is no"));
  CHECK(with(R"({"role":"assistant","content":"a","audio":{"id":"b"}})")
            .starts_with("messages[0].audio|messages[0].audio is not supported"));
  CHECK(with(R"({"role":"user","content":"a","tool_calls":[1]})").starts_with("messages[0].tool_calls|"));
  CHECK(with(R"({"role":"assistant","tool_calls":[1]})").starts_with("messages[0].tool_calls[0]|"));
  CHECK(with(R"({"role":"assistant","tool_calls":[{"type":"custom","function":{}}]})")
            .starts_with("messages[0].tool_calls[0]|"));
  CHECK(with(R"({"role":"assistant","tool_calls":[{"function":{"name":"a\"b","arguments":""}}]})")
            .starts_with("messages[0].tool_calls[0].function.name|"));
  CHECK(with(R"({"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":{}}}]})")
            .starts_with("messages[0].tool_calls[0].function.arguments|"));
}

TEST_CASE("read_completion reads what ends an answer or changes its logits") {
  Completion into;
  CHECK(!read_completion(R"({"prompt":"a","max_tokens":9,"stop_token_ids":[3,7],"include_stop_str_in_output":true,
    "presence_penalty":0.5,"frequency_penalty":-2,"repetition_penalty":1.1,"logit_bias":{"5":-100,"9":1.5},
    "bad_words":["no"],"min_tokens":9})",
                         false, into));
  CHECK(into.stop_tokens == std::vector<std::int32_t>{3, 7});
  CHECK(into.include_stop);
  CHECK(into.rules.presence == 0.5);
  CHECK(into.rules.frequency == -2);
  CHECK(into.rules.repetition == 1.1);
  CHECK(into.rules.bias == std::vector<std::pair<std::int32_t, double>>{{5, -100}, {9, 1.5}});
  CHECK(into.bad_words == std::vector<std::string>{"no"});
  CHECK(into.rules.min_tokens == 9);
  Completion none;
  CHECK(!read_completion(R"({"prompt":"a","max_tokens":0,"echo":true,"logprobs":1})", false, none));
  CHECK(none.max_tokens == 0);
  CHECK(none.scores_prompt());
  CHECK(none.rules.empty());
  for (const std::string field :
       {R"("presence_penalty":2.5)", R"("frequency_penalty":"a")", R"("repetition_penalty":0)", R"("logit_bias":[1])",
        R"("logit_bias":{"x":1})", R"("logit_bias":{"-1":1})", R"("logit_bias":{"1":101})", R"("bad_words":[""])",
        R"("bad_words":"a")", R"("stop_token_ids":[-1])", R"("stop_token_ids":3)", R"("min_tokens":17)",
        R"("include_stop_str_in_output":1)"}) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    CHECK_MESSAGE(wrong(R"({"prompt":"a",)" + field + "}", false).starts_with(name + "|" + name + " "), field);
  }
  CHECK(wrong(chat_with(R"("max_tokens":0)")).starts_with("max_tokens|")); // a chat has no prompt to look at
}

TEST_CASE("read_completion bounds the number of answers to one request") {
  const auto with = [](std::size_t prompts, int choices) {
    std::string list = "\"a\"";
    for (std::size_t i = 1; i < prompts; ++i) list += ",\"a\"";
    return "{\"prompt\":[" + list + "],\"n\":" + std::to_string(choices) + "}";
  };
  CHECK(wrong(with(8, 128), false) == "");
  CHECK(wrong(with(1024, 1), false) == "");
  CHECK(wrong(with(9, 128), false) == "n|n is 128 for each of 9 prompts; expected at most 1024 answers");
  CHECK(wrong(with(1025, 1), false) == "prompt|prompt has 1025 prompts; expected at most 1024");
}

TEST_CASE("read_completion refuses bodies that are not JSON") {
  CHECK(wrong("").starts_with("|the body:1: the JSON ends too early"));
  CHECK(wrong("[]").find("this is a JSON array") != std::string::npos);
  CHECK(wrong("{\"a\":1e999}").find("1e999") != std::string::npos);
  CHECK(wrong("{\"a\":\"\xFF\"}") != "");
  CHECK(wrong(std::string(10'000, '[')) != "");
  for (const std::size_t deep : {std::size_t{64}, std::size_t{10'000}, std::size_t{3'000'000}})
    for (const char* field : {"a", "stop", "messages"})
      CHECK(wrong("{\"" + std::string{field} + "\":" + std::string(deep, '[') + std::string(deep, ']') + "}") ==
            "|the body: its arrays and objects are nested more than 64 deep; expected at most 64");
  CHECK(wrong("{\"a\":" + std::string(63, '[') + "\"]]}}\\\"[[[\"" + std::string(63, ']') + "}")
            .starts_with("a|a is no field"));
  CHECK(wrong(chat_with(R"("n":1,"n":2)")).find("twice") != std::string::npos);
}
