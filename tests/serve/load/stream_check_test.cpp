// SPDX-License-Identifier: Apache-2.0
// StreamCheck: each violation of the protocol, one at a time.
#include "../../../examples/tools/load/stream_check.hpp"
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace loading;

std::string event(const std::string& data) { return "data: " + data + "\n\n"; }
std::string piece(const std::string& text) {
  return event(R"({"id":"a","choices":[{"index":0,"text":")" + text + R"(","logprobs":null,"finish_reason":null}]})");
}
std::string chat_piece(const std::string& text) {
  return event(R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("},"finish_reason":null}],"usage":null})");
}
std::string finish(const std::string& reason) {
  return event(R"({"choices":[{"index":0,"text":"","finish_reason":")" + reason + R"("}]})");
}
std::string usage(int prompt, int completion) {
  return event(R"({"choices":[],"usage":{"prompt_tokens":)" + std::to_string(prompt) + R"(,"completion_tokens":)" +
               std::to_string(completion) + R"(,"total_tokens":)" + std::to_string(prompt + completion) + "}}");
}
const std::string done = event("[DONE]");

StreamCheck check(const std::string& text, Asked asked = {.max_tokens = 2, .prompt_tokens = 3}) {
  StreamCheck of(asked, nullptr);
  of.feed(text, 0.5);
  of.end();
  return of;
}
/// The name of the stream's flaw; "" for none, "several" for more than one.
std::string flaw(const std::string& text, Asked asked = {.max_tokens = 2, .prompt_tokens = 3}) {
  const StreamCheck of = check(text, asked);
  std::string found;
  for (std::size_t which = 0; which < flaw_names.size(); ++which)
    if (of.has(static_cast<Flaw>(which))) found = found.empty() ? std::string{flaw_names[which]} : "several";
  return found;
}

} // namespace

TEST_CASE("StreamCheck: a valid stream") {
  const StreamCheck of = check(piece("a") + piece("b") + finish("length") + usage(3, 2) + done);
  CHECK(of.flawless());
  CHECK(of.done());
  CHECK(of.pieces() == 2);
  CHECK(of.tokens() == 2);
  CHECK(of.reason() == "length");
  CHECK(flaw(event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})") +
             chat_piece("a") + chat_piece("b") + finish("length") + usage(3, 2) + done) == "");
  CHECK(flaw(piece("a") + finish("stop") + usage(3, 1) + done) == "");
  CHECK(flaw(piece("a") + finish("length") + usage(3, 2) + done) == ""); // the other token has no text
}

TEST_CASE("StreamCheck: each flaw has its name") {
  const std::string rest = finish("length") + usage(3, 2) + done;
  CHECK(flaw(piece("a") + "{}\n\n" + rest) == "sse");
  CHECK(flaw(piece("a") + rest + "data: x") == "sse");
  CHECK(flaw(piece("a") + event("{\"choices\":[") + rest) == "json");
  CHECK(flaw(piece("\xFF") + rest) == "json"); // not UTF-8
  CHECK(flaw(event("7") + rest) == "json");
  CHECK(flaw(event("{\"object\":1}") + rest) == "chunk");
  CHECK(flaw(piece("a") + finish("length") + piece("b") + usage(3, 2) + done) == "order");
  CHECK(flaw(piece("a") + finish("length") + rest) == "order");
  CHECK(flaw(piece("a") + rest + done) == "order");
  CHECK(flaw(piece("a")) == "end");
  CHECK(flaw("") == "end");
  CHECK(flaw(piece("a") + usage(3, 2) + done) == "reason");
  CHECK(flaw(piece("a") + finish("length") + done) == "usage");
  CHECK(flaw(piece("a") + piece("b") + piece("b") + rest) == "tokens");
  CHECK(flaw(piece("a") + finish("length") + usage(4, 2) + done) == "prompt");
  CHECK(flaw(piece("a") + finish("length") + usage(3, 1) + done) == "length");
  CHECK(flaw(piece("a") + finish("stop") + usage(3, 3) + done) == "length");
}

TEST_CASE("StreamCheck: tokens are counted by their logprobs if these were requested") {
  const Asked asked{.max_tokens = 3, .logprobs = true};
  const auto with = [](const std::string& logprobs) {
    return event(R"({"choices":[{"text":"ab","logprobs":)" + logprobs + R"(,"finish_reason":null}]})");
  };
  const std::string rest = finish("length") + usage(3, 3) + done;
  const std::string one = R"({"tokens":["a"],"token_logprobs":[-1],"top_logprobs":[{"b":-2}]})";
  const std::string two = R"({"content":[{"token":"a","bytes":[97],"top_logprobs":[{"token":"b"}]},{"token":"b"}]})";
  CHECK(flaw(with(one) + with(two) + rest, asked) == "");
  CHECK(flaw(with(one) + with(one) + rest, asked) == "tokens");
  CHECK(flaw(with(two) + with(two) + rest, asked) == "tokens");
}

TEST_CASE("StreamCheck: an error event is not a flaw") {
  const StreamCheck of = check(piece("a") + event(R"({"error":{"message":"the engine has failed","code":null}})"));
  CHECK(of.flawless());
  REQUIRE(of.error());
  CHECK(*of.error() == "the engine has failed");
}

TEST_CASE("StreamCheck: times are those of text; SLO deadlines are counted in gaps") {
  std::vector<float> gaps;
  StreamCheck of({.max_tokens = 9, .slo = {sluice::Seconds{1}, sluice::Seconds{0.1}}}, &gaps);
  const double times[] = {0.5, 0.6, 0.95, 1.0};
  for (const double time : times) of.feed(piece("a"), time);
  of.feed(finish("stop"), 1.25);
  CHECK(of.ttft() == 0.5);
  CHECK(of.latency() == 1.25);
  REQUIRE(gaps.size() == 3);
  CHECK(gaps[1] == doctest::Approx(0.35));
  CHECK(of.gaps_on_time() == 2);
  CHECK(of.deadlines_missed() == 3);
}
