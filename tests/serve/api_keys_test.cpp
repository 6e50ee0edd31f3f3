// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/api_keys.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

HttpHeaders bearing(const std::string& key) {
  HttpHeaders headers;
  headers.add("authorization", "Bearer " + key);
  return headers;
}
std::string told(KeyAccount& account, double now, bool refused = false) {
  HttpHeaders headers;
  account.tell(headers, now, refused);
  std::string text;
  for (const auto& [name, value] : headers) text.append(name).append("=").append(value).append("\n");
  return text;
}

} // namespace

TEST_CASE("read_api_keys reads names, limits and comments") {
  const auto keys = read_api_keys("# the team's keys\r\n"
                                  "\n"
                                  "alice: sk-a requests/min=60 tokens/min=20000 # until May\n"
                                  "  sk-b\t\n"
                                  "bob:\tsk-c tokens/min=5");
  REQUIRE(keys);
  REQUIRE(keys->size() == 3);
  CHECK((*keys)[0].name == "alice");
  CHECK((*keys)[0].secret == "sk-a");
  CHECK((*keys)[0].requests_per_minute == 60);
  CHECK((*keys)[0].tokens_per_minute == 20'000);
  CHECK((*keys)[1].name == "line 4");
  CHECK((*keys)[1].secret == "sk-b");
  CHECK((*keys)[1].requests_per_minute == 0);
  CHECK((*keys)[2].name == "bob");
  CHECK((*keys)[2].secret == "sk-c");
  CHECK((*keys)[2].tokens_per_minute == 5);
  CHECK(read_api_keys("# nothing\n")->empty());
  const auto shared = read_api_keys("a: sk requests/min=60 burst=10 concurrent=8 weight=3");
  REQUIRE(shared);
  CHECK(shared->front().burst == 10);
  CHECK(shared->front().concurrent == 8);
  CHECK(shared->front().weight == 3);
}

TEST_CASE("read_api_keys names the line of a mistake, and no key") {
  const std::vector<std::pair<std::string, std::string>> table{
      {"a: secret\nb:\n", "line 2: the name 'b' has no key; "},
      {": secret", "line 1: a colon without a name; "},
      {"secret more", "line 1: a word behind the key is no limit; "},
      {"secret requests/min", "line 1: a word behind the key is no limit; "},
      {"secret requests/min=5 burst=6", "line 1: burst is 6, and requests/min 5; "},
      {"secret burst=6", "line 1: burst is 6, and requests/min 0; "},
      {"secret requests/min=0", "line 1: requests/min is not a whole number from 1 to 1e9; "},
      {"secret tokens/min=1.5", "line 1: tokens/min is not a whole number from 1 to 1e9; "},
      {"secret tokens/min=99999999999999999999", "line 1: tokens/min is not"},
      {"a: secret\n\n#\nb: secret\n", "line 4: it repeats the key of 'a'; "},
      {"a: secret\na: other\n", "line 2: it repeats the name 'a'; "},
  };
  for (const auto& [text, expected] : table) {
    const auto keys = read_api_keys(text);
    REQUIRE(!keys);
    INFO(keys.error().line());
    CHECK(keys.error().line().starts_with(expected));
    CHECK(keys.error().line().find("secret") == std::string::npos);
  }
}

TEST_CASE("KeyAccount allows a minute's worth at once, and then as much as a minute brings") {
  ApiKeys keys({{.name = "a", .secret = "x", .requests_per_minute = 2, .tokens_per_minute = 0}}, 100);
  const std::shared_ptr<KeyAccount> account = keys.find(bearing("x"));
  REQUIRE(account != nullptr);
  for (int i = 0; i < 2; ++i) {
    CHECK(!account->why_not(100));
    account->take_request(100);
  }
  const std::optional<ApiError> refused = account->why_not(100);
  REQUIRE(refused);
  CHECK(refused->status == 429);
  CHECK(refused->code == "rate_limit_exceeded");
  CHECK(refused->message == "the key 'a' may use 2 requests a minute; try again in 30s");
  CHECK(told(*account, 110, true) ==
        "x-ratelimit-limit-requests=2\nx-ratelimit-remaining-requests=0\nx-ratelimit-reset-requests=50s\n"
        "Retry-After=20\nretry-after-ms=20000\n");
  CHECK(account->why_not(129.9));
  CHECK(!account->why_not(130));
  CHECK(told(*account, 10'000) ==
        "x-ratelimit-limit-requests=2\nx-ratelimit-remaining-requests=2\nx-ratelimit-reset-requests=0ms\n");
}

TEST_CASE("KeyAccount lets an answer overdraw its tokens, and the next request waits for the debt") {
  ApiKeys keys({{.name = "a", .secret = "x", .requests_per_minute = 0, .tokens_per_minute = 60}}, 0);
  const std::shared_ptr<KeyAccount> account = keys.find(bearing("x"));
  account->take_tokens(59, 0);
  CHECK(!account->why_not(0));
  account->take_tokens(61, 0); // 60 more than there were
  const std::optional<ApiError> refused = account->why_not(0);
  REQUIRE(refused);
  CHECK(refused->message == "the key 'a' may use 60 tokens a minute; try again in 1m1s");
  CHECK(account->why_not(60.5));
  CHECK(!account->why_not(61));
  CHECK(told(*account, 61) ==
        "x-ratelimit-limit-tokens=60\nx-ratelimit-remaining-tokens=1\nx-ratelimit-reset-tokens=59s\n");
}

TEST_CASE("ApiKeys that are replaced keep what a key has used") {
  ApiKeys keys({{.name = "a", .secret = "x", .requests_per_minute = 1, .tokens_per_minute = 0},
                {.name = "b", .secret = "y", .requests_per_minute = 0, .tokens_per_minute = 0}},
               0);
  const std::shared_ptr<KeyAccount> before = keys.find(bearing("x"));
  before->take_request(0);
  keys.replace({{.name = "c", .secret = "x", .requests_per_minute = 10, .tokens_per_minute = 0}}, 0);
  CHECK(keys.find(bearing("y")) == nullptr);
  const std::shared_ptr<KeyAccount> after = keys.find(bearing("x"));
  CHECK(after == before);
  CHECK(after->name() == "c");
  for (int i = 0; i < 9; ++i, after->take_request(0)) CHECK(!after->why_not(0));
  CHECK(after->why_not(0)); // one was used before
  CHECK(!after->why_not(6));
  CHECK(KeyAccount::duration(0.0204) == "21ms");
  CHECK(KeyAccount::duration(1.54) == "1.5s");
  CHECK(KeyAccount::duration(360) == "6m0s");
}

TEST_CASE("a burst is what a bucket holds, and a higher limit forgives nothing but its difference") {
  ApiKey key{.name = "a", .secret = "s", .requests_per_minute = 60, .burst = 3};
  KeyAccount account(key, 0);
  const auto admitted = [&account](double now) {
    int count = 0;
    for (; !account.why_not(now); ++count) account.take_request(now);
    return count;
  };
  CHECK(admitted(0) == 3);
  CHECK(admitted(0) == 0);
  CHECK(admitted(2) == 2);   // one a second
  CHECK(admitted(100) == 3); // no more than a burst, however long nothing came
  KeyAccount small({.name = "b", .secret = "t", .requests_per_minute = 5}, 0);
  for (int i = 0; i < 5; ++i) small.take_request(0);
  CHECK(small.why_not(0));
  small.change({.name = "b", .secret = "t", .requests_per_minute = 50}, 0);
  int more = 0;
  for (; !small.why_not(0); ++more) small.take_request(0);
  CHECK(more == 45);
  small.change({.name = "b", .secret = "t", .requests_per_minute = 5}, 0);
  CHECK(small.why_not(0));
  CHECK(!small.why_not(12.1)); // 5 a minute: the smaller bucket is empty, and made no debt of the 50
}

TEST_CASE("a limit that is removed and set again forgives nothing, and what was used without it is no debt") {
  const ApiKey limited{.name = "a", .secret = "s", .requests_per_minute = 60}, free{.name = "a", .secret = "s"};
  KeyAccount account(limited, 0);
  for (int i = 0; i < 60; ++i) account.take_request(0);
  account.change(free, 0);
  CHECK(!account.why_not(0));
  account.change(limited, 0);
  CHECK(account.why_not(0.5));
  account.change(free, 10); // ten have come back
  for (int i = 0; i < 1000; ++i) account.take_request(10);
  account.change(limited, 10);
  CHECK(account.why_not(10));
  CHECK(!account.why_not(11.1));
  KeyAccount never(free, 0);
  for (int i = 0; i < 1000; ++i) never.take_request(0);
  never.change(limited, 0);
  CHECK(!never.why_not(0)); // there was no limit to use up
}
