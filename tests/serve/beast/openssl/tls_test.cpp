// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/serve/beast/http_server.hpp"
#include "sluice/serve/beast/nlohmann/live_server.hpp"
#include "sluice/serve/beast/openssl/tls.hpp"
#include "sluice/serve/nlohmann/simulated_config.hpp"

#include "serve/beast/wire.hpp"
#include "support/certificate.hpp"
#include <boost/asio.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

using namespace sluice;
using sluice_test::answer_to_plain;
using sluice_test::Certificate;
using sluice_test::needs_tools;
using sluice_test::soon;
using sluice_test::TemporaryFolder;
using sluice_test::TestApp;
namespace asio = boost::asio;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

struct Certified {
  Certificate certificate;
};
struct RunningTls : Certified, sluice_test::RunningServer {
  explicit RunningTls(HttpLimits limits = {}) : RunningServer(limits, *Tls::make(certificate.file, certificate.key)) {}
};

/// A client that trusts only this certificate.
struct TlsClient {
  TlsClient(std::uint16_t port, const Certificate& certificate, int newest = TLS1_3_VERSION) {
    trust.load_verify_file(certificate.file);
    trust.set_verify_mode(ssl::verify_peer);
    SSL_CTX_set_security_level(trust.native_handle(), 0); // allows old protocol versions
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
  std::string read_until(std::string_view mark) { return received.read_until(*stream, mark); }
  std::string read_all() { return read_until("\1\2never\3"); }

  asio::io_context context;
  ssl::context trust{ssl::context::tls_client};
  std::optional<ssl::stream<tcp::socket>> stream;
  sluice_test::Received received;
};

void check_served(const RunningTls& running) {
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("GET /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(client.read_all().ends_with("GET /fine "));
  CHECK(client.received.ended == asio::error::eof); // not ssl::error::stream_truncated: TLS sent its end of data
}

} // namespace

TEST_CASE("Tls: requests, pipelined requests and streams on one connection, which ends with TLS's end of data" *
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
  CHECK(client.received.ended == asio::error::eof);
  CHECK(running.app.gone == 0);
}

TEST_CASE("Tls: version 1.2 is accepted, 1.1 is not" * needs_tools({"openssl"})) {
  RunningTls running;
  CHECK(TlsClient(running.port, running.certificate, TLS1_2_VERSION).greet());
  CHECK_FALSE(TlsClient(running.port, running.certificate, TLS1_1_VERSION).greet());
  check_served(running);
}

TEST_CASE("Tls: plain HTTP gets a response in plain HTTP, noise gets none, and the next client is served" *
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

TEST_CASE("Tls: a client that does not finish its handshake is dropped after the head time and delays nobody" *
          needs_tools({"openssl"})) {
  HttpLimits limits;
  limits.head_time = 300ms;
  RunningTls running(limits);
  asio::io_context context;
  tcp::socket silent(context), half(context);
  for (tcp::socket* socket : {&silent, &half}) socket->connect({asio::ip::make_address("127.0.0.1"), running.port});
  asio::write(half, asio::buffer(std::string_view("\x16\x03\x01\x02\x00\x01", 6))); // the beginning of a ClientHello
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

TEST_CASE("Tls: a drain does not wait for unfinished handshakes" * needs_tools({"openssl"})) {
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
  CHECK(client.read_all().empty()); // both sides send TLS's end of data
  boost::system::error_code ignored;
  client.stream->shutdown(ignored);
  CHECK(soon([&] { return running.ended.load(); }));
  CHECK(running.app.gone == 0);
}

TEST_CASE("Tls: a client that does not answer the end of data does not keep its connection open" *
          needs_tools({"openssl"})) {
  RunningTls running;
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("GET /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(client.read_all().ends_with("GET /fine "));
  CHECK(soon([&] { return running.connections() == 0; })); // its socket is still open
}

TEST_CASE("Tls: the application learns of a client that leaves, during a stream and before it" *
          needs_tools({"openssl"})) {
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

TEST_CASE("Tls: a client that reads nothing is dropped once its response exceeds the limit" *
          needs_tools({"openssl"})) {
  HttpLimits limits;
  limits.max_unread = 64 << 10;
  RunningTls running(limits);
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(soon([&] { return running.app.gone == 1; }));
}

TEST_CASE("Tls: a refused request gets its response, and the next client is served" * needs_tools({"openssl"})) {
  HttpLimits limits;
  limits.max_body = 1000;
  RunningTls running(limits);
  TlsClient client(running.port, running.certificate);
  REQUIRE(client.greet());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x'));
  CHECK(client.read_all().starts_with("HTTP/1.1 413 "));
  check_served(running);
}

TEST_CASE("Tls: mistakes in its files are reported in one line" * needs_tools({"openssl"})) {
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
  const auto mismatch = [&](const std::string& key) {
    return "--tls-key: '" + key + "' is not the key of the certificate in '" + one.file +
           "'; expected the private key of that certificate in PEM, without a passphrase";
  };
  CHECK(error_of(one.file, other.key) == mismatch(other.key));
  const std::string rsa = (one.folder.path / "rsa.pem").string(); // OpenSSL accepts a key of another kind
  REQUIRE(std::system(("openssl genpkey -algorithm RSA -out '" + rsa + "' 2>/dev/null").c_str()) == 0);
  CHECK(error_of(one.file, rsa) == mismatch(rsa));
  const std::string locked = (one.folder.path / "locked.pem").string();
  REQUIRE(
      std::system(("openssl pkey -aes256 -passout pass:secret -in '" + one.key + "' -out '" + locked + "' 2>/dev/null")
                      .c_str()) == 0);
  CHECK(error_of(one.file, locked).starts_with("--tls-key: OpenSSL takes none from '"));
}

TEST_CASE("Tls: renewed files are for new connections; files that do not fit change nothing" *
          needs_tools({"openssl"})) {
  const Certificate first, second;
  const TemporaryFolder folder;
  const std::string file = (folder.path / "cert.pem").string(), key = (folder.path / "key.pem").string();
  const auto install = [&](const std::string& certificate_file, const std::string& key_file) {
    std::filesystem::copy_file(certificate_file, file, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::copy_file(key_file, key, std::filesystem::copy_options::overwrite_existing);
  };
  install(first.file, first.key);
  const Tls tls = *Tls::make(file, key);
  sluice_test::RunningServer running({}, tls);
  const auto renew = [&] {
    std::promise<bool> renewed;
    running.server.post([&] { renewed.set_value(tls.renew().ok()); });
    return renewed.get_future().get();
  };
  TlsClient before(running.port, first);
  REQUIRE(before.greet());
  install(second.file, first.key);
  CHECK_FALSE(renew());
  CHECK(TlsClient(running.port, first).greet());
  install(second.file, second.key);
  CHECK(renew());
  CHECK(TlsClient(running.port, second).greet());
  CHECK_FALSE(TlsClient(running.port, first).greet());
  before.send("GET /fine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(before.read_all().ends_with("GET /fine "));
}

namespace {

using Mine = With<VllmSwap, GenerationFeed>;
using S = LiveServer<Mine, QueueLimit>;

} // namespace

TEST_CASE("LiveServer serves its API over TLS" * needs_tools({"openssl"})) {
  const Server machine{llama3_8b(), a5000(), TokenBlocks{500}, {.batch = 2, .max_context = Tokens{4'096}}};
  const ByteTokenizer tokenizer;
  const Certificate certificate;
  S::Config config = simulated_config<S>(machine, tokenizer);
  config.connection = *Tls::make(certificate.file, certificate.key);
  config.address.port = 0;
  const std::unique_ptr<S> server = *S::make(std::move(config));
  CHECK(server->url().starts_with("https://"));
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
