// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/serve/beast/nlohmann/live_server.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/nlohmann/simulated_config.hpp"
#include "sluice/serve/what_if_engines.hpp"

#include "serve/beast/test_app.hpp"
#include <boost/asio.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

using namespace sluice;
using sluice_test::soon;
namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using E = With<VllmSwap, GenerationFeed>;

/// Refuses requests for more tokens than that.
struct AnswerLimit {
  std::int64_t most = 1'000;

  GateAnswer answer(const Generation& newcomer, const auto& /*engine*/) const {
    GateAnswer answer;
    answer.admit = newcomer.max_tokens <= most;
    answer.error.message = "too much is asked";
    return answer;
  }
};

static_assert(explain_server<E, QueueLimit, AnswerLimit>());
static_assert(MakesServer<E, QueueLimit, AnswerLimit>);
static_assert(!MakesServer<VllmSwap> && !MakesServer<E, E> && !MakesServer<QueueLimit, E>);

/// A machine on which a token takes 25 ms.
const Server machine{llama3_8b(), a5000(), TokenBlocks{500}, {.batch = 2, .max_context = Tokens{4'096}}};
const ByteTokenizer tokenizer;

template <class S>
typename S::Config config() {
  typename S::Config config = simulated_config<S>(machine, tokenizer);
  config.address.port = 0;
  return config;
}

/// A server on a thread of its own.
template <class S>
struct RunningLive {
  explicit RunningLive(typename S::Config wanted = config<S>()) : server(*S::make(std::move(wanted))) {
    thread = std::thread([this] { ended = server->run(); });
    for (int i = 0; i < 24000 && !server->ready(); ++i) std::this_thread::sleep_for(5ms);
    CHECK(server->ready()); // until then it responds with 503
  }
  ~RunningLive() {
    server->stop();
    if (thread.joinable()) thread.join();
  }
  /// The whole response, head and body.
  std::string ask(const std::string& method, const std::string& target, const std::string& body = "") {
    asio::io_context context;
    asio::ip::tcp::socket socket(context);
    socket.connect({asio::ip::make_address("127.0.0.1"), server->port()});
    asio::write(socket, asio::buffer(fmt::format("{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
                                                 "{}\r\n\r\n{}",
                                                 method, target, body.size(), body)));
    std::string text;
    boost::system::error_code end;
    asio::read(socket, asio::dynamic_buffer(text), end);
    return text;
  }

  /// Whether /metrics shows one running request.
  bool runs_one() {
    return ask("GET", "/metrics").find("vllm:num_requests_running{model_name=\"llama3-8b\",engine=\"0\"} 1\n") !=
           std::string::npos;
  }

  std::unique_ptr<S> server;
  std::thread thread;
  Status ended;
};

} // namespace

TEST_CASE("LiveServer serves its engine behind its gates, without a what-if where none is configured") {
  using S = LiveServer<E, QueueLimit, AnswerLimit>;
  S::Config wanted = config<S>();
  wanted.gates = {QueueLimit{64}, AnswerLimit{5}};
  RunningLive<S> running(std::move(wanted));
  CHECK(running.server->url() == fmt::format("http://127.0.0.1:{}", running.server->port()));
  const std::string answer = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":3})");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find(R"("completion_tokens":3)") != std::string::npos);
  const std::string refused = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":6})");
  CHECK(refused.starts_with("HTTP/1.1 400 "));
  CHECK(refused.find("too much is asked") != std::string::npos);
  CHECK(running.ask("GET", "/whatif").starts_with("HTTP/1.1 404 "));
  CHECK(running.ask("GET", "/metrics").find("sluice:ended_total{model_name=\"llama3-8b\",engine=\"0\"} 1\n") !=
        std::string::npos);
}

TEST_CASE(
    "LiveServer with a forecast and a what-if refuses unattainable SLOs and reports what another system attains") {
  using S = LiveServer<E, QueueLimit, ForecastSlo>;
  S::Config wanted = config<S>();
  wanted.gates = {QueueLimit{64}, ForecastSlo{.mode = ForecastMode::hard}};
  wanted.what_if = {what_if_system<E>(machine, "VllmSwap"), what_if_system<OneAtATime>(machine)};
  RunningLive<S> running(std::move(wanted));
  const auto asked = [&](const char* ttft_ms) {
    return running.ask("POST", "/v1/completions",
                       fmt::format(R"({{"prompt":"ab","max_tokens":3,"slo":{{"ttft_ms":{}}}}})", ttft_ms));
  };
  CHECK(asked("60000").starts_with("HTTP/1.1 200 OK\r\n"));
  const std::string refused = asked("0.01");
  CHECK(refused.starts_with("HTTP/1.1 422 ")); // not keepable even alone
  CHECK(refused.find("predicted") != std::string::npos);
  CHECK(soon([&] {
    const std::string answer = running.ask("GET", "/whatif");
    return answer.find(R"("system":"VllmSwap")") != std::string::npos &&
           answer.find(R"("state":"done")") != std::string::npos;
  }));
}

TEST_CASE("LiveServer: a drain lets streams under way end, and then `run` returns") {
  using S = LiveServer<E>;
  RunningLive<S> running;
  std::string stream;
  std::thread client(
      [&] { stream = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":40,"stream":true})"); });
  CHECK(soon([&] { return running.runs_one(); }));
  running.server->drain();
  running.thread.join(); // by itself
  client.join();
  CHECK(stream.find("data: [DONE]\n\n") != std::string::npos);
  CHECK(running.ended.ok());
}

TEST_CASE("LiveServer: TERM drains it, and the drain's limit ends longer streams") {
  using S = LiveServer<E>;
  S::Config wanted = config<S>();
  wanted.drain_s = 0.05;
  RunningLive<S> running(std::move(wanted));
  std::string stream;
  std::thread client(
      [&] { stream = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":4000,"stream":true})"); });
  CHECK(soon([&] { return running.runs_one(); }));
  ::raise(SIGTERM);
  running.thread.join();
  client.join();
  CHECK(stream.find("[DONE]") == std::string::npos);
}

TEST_CASE("LiveServer reports mistakes in its configuration") {
  using S = LiveServer<E>;
  const RunningLive<S> running;
  const auto error_of = [&](auto change) {
    S::Config wanted = config<S>();
    change(wanted);
    const auto made = S::make(std::move(wanted));
    REQUIRE(!made);
    return made.error().line();
  };
  CHECK(error_of([](S::Config& c) { c.tokens = nullptr; }).starts_with("tokens: there is no source of tokens"));
  CHECK(error_of([&](S::Config& c) { c.address.port = running.server->port(); }).starts_with("--port: 127.0.0.1:"));
  CHECK(error_of([](S::Config& c) { c.engine.limits.batch = 0; }).find("batch") != std::string::npos);
}
