// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/openai_reply.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace sluice;
using nlohmann::json;

namespace {

ReplyHead head(bool chat) { return {.id = "cmpl-1", .chat = chat, .created = 17, .model = "m\"x"}; }

/// The JSON of each event of a stream, which must contain only events.
std::vector<json> stream_events(const std::string& stream) {
  std::vector<json> all;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    REQUIRE(end != std::string::npos);
    const std::string line = stream.substr(at, end - at);
    REQUIRE(line.starts_with("data: "));
    CHECK(line.find('\n') == std::string::npos);
    all.push_back(json::parse(line.substr(6)));
    at = end + 2;
  }
  return all;
}

} // namespace

TEST_CASE("ChunkWriter writes the chunks of the chat API") {
  std::string stream;
  ChunkWriter chunks(head(true), 1, ChunkWriter::Usage::null);
  chunks.role(stream);
  chunks.text(stream, "Hi \"you\"\n\xF0\x9F\x98\x80");
  const std::vector<TokenLogprob> logprobs{{{"Hi", -0.5}, {{"Hi", -0.5}, {"\xF0\x9F", -1.5}}}};
  chunks.text(stream, "Hi", &logprobs);
  chunks.finish(stream, FinishReason::length);
  stream += usage_event(head(true), {3, 4});
  const std::vector<json> all = stream_events(stream);
  REQUIRE(all.size() == 5);
  for (const json& each : all) {
    CHECK(each["object"] == "chat.completion.chunk");
    CHECK(each["id"] == "cmpl-1");
    CHECK(each["model"] == "m\"x");
  }
  CHECK(all[0]["choices"][0]["delta"] == json{{"role", "assistant"}, {"content", ""}});
  CHECK(all[0]["choices"][0]["finish_reason"].is_null());
  CHECK(all[0]["usage"].is_null());
  CHECK(all[1]["choices"][0]["index"] == 1);
  CHECK(all[1]["choices"][0]["delta"]["content"] == "Hi \"you\"\n\xF0\x9F\x98\x80");
  CHECK(all[2]["choices"][0]["logprobs"]["content"][0]["logprob"] == -0.5);
  CHECK(all[2]["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["bytes"] == json{0xF0, 0x9F});
  CHECK(all[3]["choices"][0]["delta"] == json::object());
  CHECK(all[3]["choices"][0]["finish_reason"] == "length");
  CHECK(all[4]["choices"].empty());
  CHECK(all[4]["usage"]["total_tokens"] == 7);
  CHECK_FALSE(all[4]["usage"].contains("prompt_tokens_details")); // of a server without tiers
  std::string with_tier = usage_event(head(true), {3, 4, 2});
  CHECK(stream_events(with_tier)[0]["usage"]["prompt_tokens_details"] == json{{"cached_tokens", 2}});
}

TEST_CASE("with continuous usage every chunk has its choice's tokens so far") {
  std::string stream;
  ChunkWriter chunks(head(true), 0, ChunkWriter::Usage::continuous, 7);
  chunks.role(stream);
  chunks.generated(2);
  chunks.text(stream, "ab");
  chunks.generated(3);
  chunks.finish(stream, FinishReason::stop);
  const std::vector<json> all = stream_events(stream);
  REQUIRE(all.size() == 3);
  for (const auto& [at, tokens] : {std::pair{0, 0}, {1, 2}, {2, 3}}) {
    const json& usage = all[static_cast<std::size_t>(at)]["usage"];
    CHECK(usage == json{{"prompt_tokens", 7}, {"completion_tokens", tokens}, {"total_tokens", 7 + tokens}});
  }
}

TEST_CASE("ChunkWriter writes the chunks of the completions API") {
  std::string stream;
  ChunkWriter chunks(head(false), 0, ChunkWriter::Usage::absent);
  chunks.text(stream, "a\xC3\xA9"); // two characters of three bytes
  const std::vector<TokenLogprob> logprobs{{{"c", -1}, {}}};
  chunks.text(stream, "c", &logprobs);
  chunks.finish(stream, FinishReason::stop, &logprobs); // with a token without text
  const std::vector<json> all = stream_events(stream);
  CHECK(all[0]["object"] == "text_completion");
  CHECK(all[0]["choices"][0]["text"] == "a\xC3\xA9");
  CHECK(!all[0].contains("usage"));
  CHECK(all[1]["choices"][0]["logprobs"]["text_offset"] == json{2});
  CHECK(all[2]["choices"][0]["finish_reason"] == "stop");
  CHECK(all[2]["choices"][0]["logprobs"]["tokens"] == json{"c"});
}

TEST_CASE("the API's logprobs of an echoed prompt begin with null, and special tokens take no characters") {
  TokenLogprob begin{{"<s>", 0}, {}, false, false}, a{{"a", -0.5}, {{"b", -0.25}, {"a", -0.5}}, true, true};
  const std::vector<Choice> choices{{"aa", FinishReason::length, {begin, a, a}, true}};
  const json logprobs = json::parse(completion_json(head(false), choices, {3, 0}))["choices"][0]["logprobs"];
  CHECK(logprobs["tokens"] == json{"<s>", "a", "a"});
  CHECK(logprobs["token_logprobs"] == json{nullptr, -0.5, -0.5});
  CHECK(logprobs["top_logprobs"][0].is_null());
  CHECK(logprobs["top_logprobs"][2] == json{{"a", -0.5}, {"b", -0.25}});
  CHECK(logprobs["text_offset"] == json{0, 0, 1});
}

TEST_CASE("a completion's top_logprobs name each text once, the likeliest of those that are parts of characters") {
  const TokenLogprob one{{"\x81", -2}, {{"a", -0.5}, {"\x80", -1}, {"\x81", -2}, {"\xC3", -3}}, true, true};
  const std::vector<Choice> choices{{"", FinishReason::length, {one}, true}};
  const std::string text = completion_json(head(false), choices, {1, 1});
  const std::string mark = "\"top_logprobs\":[";
  const std::size_t begin = text.find(mark) + mark.size(); // a parser would drop names that come twice
  CHECK(text.substr(begin, text.find(']', begin) - begin) == "{\"a\":-0.5,\"\xEF\xBF\xBD\":-1}");
}

TEST_CASE("a completion's top_logprobs name the chosen token, too, where it is not among the likeliest") {
  const TokenLogprob one{{"z", -9}, {{"a", -0.5}, {"b", -1}}, true, true}, none{{"z", -9}, {}, true, true};
  const std::vector<Choice> choices{{"", FinishReason::length, {one, none}, true}};
  const json logprobs = json::parse(completion_json(head(false), choices, {1, 1}))["choices"][0]["logprobs"];
  CHECK(logprobs["top_logprobs"][0] == json{{"a", -0.5}, {"b", -1}, {"z", -9}});
  CHECK(logprobs["top_logprobs"][1] == json::object()); // none was asked for
}

TEST_CASE("completion_json writes whole responses and error_response errors in the API's form") {
  const std::vector<Choice> choices{{"a", FinishReason::stop, {}, false}, {"b", FinishReason::length, {}, true}};
  const json chat = json::parse(completion_json(head(true), choices, {5, 2}));
  CHECK(chat["object"] == "chat.completion");
  CHECK(chat["choices"][0]["message"]["content"] == "a");
  CHECK(chat["choices"][0]["logprobs"].is_null());
  CHECK(chat["choices"][1]["logprobs"]["content"].empty());
  CHECK(chat["choices"][1]["finish_reason"] == "length");
  CHECK(chat["usage"] == json{{"prompt_tokens", 5}, {"completion_tokens", 2}, {"total_tokens", 7}});
  const json text = json::parse(completion_json(head(false), choices, {5, 2}));
  CHECK(text["choices"][1]["text"] == "b");

  ApiError error;
  error.status = 404;
  error.message = "there is no model 'x'";
  error.code = "model_not_found";
  const HttpResponse response = error_response(error);
  CHECK(response.status == 404);
  CHECK(json::parse(response.body)["error"] == json{{"message", "there is no model 'x'"},
                                                    {"type", "invalid_request_error"},
                                                    {"param", nullptr},
                                                    {"code", "model_not_found"}});
}
