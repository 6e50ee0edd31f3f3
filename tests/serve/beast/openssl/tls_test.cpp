// SPDX-License-Identifier: Apache-2.0
#include "sluice/device/named.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/beast/http_server.hpp"
#include "sluice/serve/beast/live_server.hpp"
#include "sluice/serve/beast/openssl/tls.hpp"
#include "sluice/serve/drawn_tokens.hpp"
#include "sluice/serve/nlohmann/openai_setup.hpp"
#include "sluice/systems/vllm.hpp"
#include "sluice/tokenizer/bytes.hpp"

#include "serve/beast/test_app.hpp"
#include "support/certificate.hpp"
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

using namespace sluice;
using sluice_test::Certificate;
using sluice_test::needs_tools;
using sluice_test::soon;
using sluice_test::TestApp;
namespace asio = boost::asio;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

/// A server on a thread of its own.
struct RunningTls {
  explicit RunningTls(HttpLimits limits = {}) : server(limits, *Tls::make(certificate.file, certificate.key)) {
    REQUIRE(server.listen({"127.0.0.1", 0}).ok());
    port = server.port();
    app.transport = &server;
    thread = std::thread([this] {
      server.run(app);
      ended = true;
    });
  }
  ~RunningTls() {
    server.post([this] { server.stop(); });
    thread.join();
  }
  /// As the server's thread counts them.
  std::size_t connections() {
    std::promise<std::size_t> count;
    server.post([&] { count.set_value(server.connections()); });
    return count.get_future().get();
  }

  Certificate certificate;
  HttpServer<Tls> server;
  TestApp app;
  std::uint16_t port = 0;
  std::atomic<bool> ended = false;
  std::thread thread;
};

/// A client that takes no certificate but this.
struct TlsClient {
  TlsClient(std::uint16_t port, const Certificate& certificate, int newest = TLS1_3_VERSION) {
    trust.load_verify_file(certificate.file);
    trust.set_verify_mode(ssl::verify_peer);
    SSL_CTX_set_security_level(trust.native_handle(), 0); // as old a client as is wanted
    SSL_CTX_set_max_proto_version(trust.native_handle(), newest);
    stream.emplace(context, trust);
    stream->set_verify_callback(ssl::host_name_verification("127.0.0.1"));
    stream->next_layer().connect({asio::ip::make_address("127.0.0.1"), port});
  }
  bool greet() {
    boost::system::error_code error;
    stream->handshake(ssl::stream_base::client, error);
    return !error;
  }
  void send(std::string_view message) { asio::write(*stream, asio::buffer(message)); }
  /// Until the text holds `mark`, or the connection ends, as `ended` then says.
  std::string read_until(std::string_view mark) {
    while (text.find(mark) == std::string::npos) {
      char piece[4096];
      const std::size_t bytes = stream->read_some(asio::buffer(piece), ended);
      if (ended) break;
      text.append(piece, bytes);
    }
    const std::size_t at = text.find(mark);
    std::string taken = text.substr(0, at == std::string::npos ? text.size() : at + mark.size());
    text.erase(0, taken.size());
    return taken;
  }
  std::string read_all() { return read_until("\1\2never\3"); }

  asio::io_context context;
  ssl::context trust{ssl::context::tls_client};
  std::optional<ssl::stream<tcp::socket>> stream;
  boost::system::error_code ended;
  std::string text;
};

/// The whole answer to bytes that are not encrypted.
std::string answer_to_plain(std::uint16_t port, std::string_view message) {
  asio::io_context context;
  tcp::socket socket(context);
  socket.connect({asio::ip::make_address("127.0.0.1"), port});
  asio::write(socket, asio::buffer(message));
  std::string text;
  boost::system::error_code end;
  asio::read(socket, asio::dynamic_buffer(text), end);
  return text;
}

void check_served(const RunningTls& running) {
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("GET /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(client.read_all().ends_with("GET /fine "));
  CHECK(client.ended == asio::error::eof); // and not ssl::error::stream_truncated: the end was said
}

} // namespace

TEST_CASE("Tls: requests, pipelined ones and streams over one connection, and its end is said" *
          needs_tools({"openssl"})) {
  RunningTls running;
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  CHECK(std::string_view(SSL_get_version(client.stream->native_handle())) == "TLSv1.3");
  client.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  CHECK(client.read_until("POST /a hello").starts_with("HTTP/1.1 200 OK\r\n"));
  client.send("GET /stream/50 HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string stream = client.read_until("0\r\n\r\n");
  for (int i = 0; i < 50; ++i) CHECK(stream.find("data: " + std::to_string(i) + "\n\n\r\n") != std::string::npos);
  CHECK(client.read_until("GET /next ") != "");
  client.send("GET /burst HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string burst = client.read_all();
  CHECK(burst.size() > (std::size_t{1} << 20));
  CHECK(burst.ends_with("\r\n0\r\n\r\n"));
  CHECK(client.ended == asio::error::eof);
  CHECK(running.app.gone == 0);
}

TEST_CASE("Tls: 1.2 is served and 1.1 is not" * needs_tools({"openssl"})) {
  RunningTls running;
  CHECK(TlsClient(running.port, running.certificate, TLS1_2_VERSION).greet());
  CHECK_FALSE(TlsClient(running.port, running.certificate, TLS1_1_VERSION).greet());
  check_served(running);
}

TEST_CASE("Tls: plain HTTP is answered in plain HTTP, noise is not, and the next client is served" *
          needs_tools({"openssl"})) {
  RunningTls running;
  const std::string answer = answer_to_plain(
      running.port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + std::string(50'000, 'x'));
  CHECK(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"));
  CHECK(answer.ends_with("\r\n\r\nthis port speaks TLS; expected https://…\n"));
  CHECK(answer_to_plain(running.port, std::string(1000, '\0')).find("HTTP") == std::string::npos);
  CHECK(running.app.requests == 0);
  check_served(running);
}

TEST_CASE("Tls: who does not shake hands is cut like who sends no head, and holds up nobody" *
          needs_tools({"openssl"})) {
  HttpLimits limits;
  limits.head_time = 300ms;
  RunningTls running(limits);
  asio::io_context context;
  tcp::socket silent(context), half(context);
  for (tcp::socket* socket : {&silent, &half}) socket->connect({asio::ip::make_address("127.0.0.1"), running.port});
  asio::write(half, asio::buffer(std::string_view("\x16\x03\x01\x02\x00\x01", 6))); // the beginning of a hello
  CHECK(soon([&] { return running.connections() == 2; }));                          // they count
  check_served(running);
  for (tcp::socket* socket : {&silent, &half}) {
    char byte = 0;
    boost::system::error_code end;
    asio::read(*socket, asio::buffer(&byte, 1), end);
    CHECK(end);
  }
  CHECK(soon([&] { return running.connections() == 0; }));
}

TEST_CASE("Tls: a drain does not wait for who has not shaken hands" * needs_tools({"openssl"})) {
  HttpLimits limits;
  limits.head_time = 30s;
  RunningTls running(limits);
  asio::io_context context;
  tcp::socket silent(context);
  silent.connect({asio::ip::make_address("127.0.0.1"), running.port});
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("GET /stream/100 HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_until("data: 3") != "");
  CHECK(running.connections() == 2);
  running.server.post([&] { running.server.drain(30s); });
  CHECK(client.read_until("0\r\n\r\n").find("data: 99\n") != std::string::npos);
  CHECK(client.read_all().empty()); // the end is said, and answered
  boost::system::error_code ignored;
  client.stream->shutdown(ignored);
  CHECK(soon([&] { return running.ended.load(); }));
  CHECK(running.app.gone == 0);
}

TEST_CASE("Tls: who does not answer the end of a connection does not keep it" * needs_tools({"openssl"})) {
  RunningTls running;
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("GET /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(client.read_all().ends_with("GET /fine "));
  CHECK(soon([&] { return running.connections() == 0; })); // its socket is still open
}

TEST_CASE("Tls: a client that leaves is heard of, in a stream and before it" * needs_tools({"openssl"})) {
  RunningTls running;
  {
    TlsClient waiting(running.port, running.certificate), streaming(running.port, running.certificate);
    REQUIRE(waiting.greet());
    REQUIRE(streaming.greet());
    waiting.send("GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    streaming.send("GET /stream/100000 HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(streaming.read_until("data: 3") != "");
    CHECK(soon([&] { return running.app.requests == 2; }));
    CHECK(running.app.gone == 0);
  }
  CHECK(soon([&] { return running.app.gone == 2; }));
  CHECK(soon([&] { return running.connections() == 0; }));
}

TEST_CASE("Tls: a client that reads nothing is cut once its answer passes the bound" * needs_tools({"openssl"})) {
  HttpLimits limits;
  limits.max_unread = 64 << 10;
  RunningTls running(limits);
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(soon([&] { return running.app.gone == 1; }));
}

TEST_CASE("Tls: a refused request has its answer, and the next client is served" * needs_tools({"openssl"})) {
  HttpLimits limits;
  limits.max_body = 1000;
  RunningTls running(limits);
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x'));
  CHECK(client.read_all().starts_with("HTTP/1.1 413 "));
  check_served(running);
}

TEST_CASE("Tls: what is wrong with its files is one line" * needs_tools({"openssl"})) {
  const Certificate one, other;
  const auto error_of = [](const std::string& certificate, const std::string& key) {
    const Expected<Tls> made = Tls::make(certificate, key);
    REQUIRE(!made);
    const std::string line = made.error().line();
    CHECK(line.find('\n') == std::string::npos);
    return line;
  };
  CHECK(Tls::make(one.file, one.key));
  CHECK(error_of("/nowhere/cert.pem", one.key) ==
        "--tls-cert: '/nowhere/cert.pem': No such file or directory; expected a certificate in PEM, those that vouch "
        "for it behind it");
  CHECK(error_of(one.file, "/nowhere/key.pem").starts_with("--tls-key: '/nowhere/key.pem': No such file"));
  CHECK(error_of(one.folder.path.string(), one.key).starts_with("--tls-cert: '" + one.folder.path.string() + "': "));
  CHECK(error_of(one.key, one.key).starts_with("--tls-cert: OpenSSL takes none from '" + one.key + "': "));
  CHECK(error_of(one.file, one.file).starts_with("--tls-key: OpenSSL takes none from '" + one.file + "': "));
  const std::string mismatch = error_of(one.file, other.key);
  CHECK(mismatch.find("key values mismatch") != std::string::npos);
  CHECK(mismatch.ends_with("; expected the private key of that certificate in PEM, without a passphrase"));
  const std::string locked = (one.folder.path / "locked.pem").string();
  REQUIRE(
      std::system(("openssl pkey -aes256 -passout pass:secret -in '" + one.key + "' -out '" + locked + "' 2>/dev/null")
                      .c_str()) == 0);
  CHECK(error_of(one.file, locked).starts_with("--tls-key: OpenSSL takes none from '"));
}

namespace {

using Mine = With<VllmSwap, GenerationFeed>;
using S = LiveServer<Mine, OpenAi, Tls, QueueLimit>;
static_assert(std::same_as<S::connection_type, Tls>);
static_assert(std::same_as<S, LiveServer<Mine, Tls, QueueLimit, OpenAi>>);

} // namespace

TEST_CASE("LiveServer with Tls is its API over TLS" * needs_tools({"openssl"})) {
  const Server machine{llama3_8b(), a5000(), TokenBlocks{500}, {.batch = 2, .max_context = Tokens{4'096}}};
  const ByteTokenizer tokenizer;
  const Certificate certificate;
  const std::unique_ptr<S> server =
      *S::make({.engine = configure<Mine>(machine),
                .tokens = std::make_shared<DrawnTokens>(*tokenizer.encode("letters", AddSpecial::no)),
                .api = openai_setup("llama3-8b", tokenizer, 4'096),
                .connection = *Tls::make(certificate.file, certificate.key),
                .address = {.port = 0}});
  std::thread thread([&] { CHECK(server->run().ok()); });
  CHECK(soon([&] { return server->ready(); }));
  TlsClient client(server->port(), certificate);
  REQUIRE(client.greet());
  const std::string body = R"({"prompt":"ab","max_tokens":3,"stream":true})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  CHECK(client.read_until("data: [DONE]\n\n").starts_with("HTTP/1.1 200 OK\r\n"));
  server->stop();
  thread.join();
}
