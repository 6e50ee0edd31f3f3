// SPDX-License-Identifier: Apache-2.0
// Requests whose end a router and a server may see in different places, each followed by one that must not be served.
#include "sluice/serve/beast/http_server.hpp"
#include "sluice/serve/http_framing.hpp"

#include "serve/beast/wire.hpp"
#include "support/certificate.hpp"
#include <boost/asio.hpp>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

extern char** environ; // POSIX leaves this declaration to programs

using namespace sluice;
using sluice_test::answer_to_plain;
using sluice_test::needs_tools;
using sluice_test::RunningServer;
using sluice_test::soon;
namespace asio = boost::asio;

namespace {

struct Row {
  std::string rfc; ///< what the request breaks
  std::string what;
  std::string request; ///< the bytes before the request that must not be served
};

const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const std::string chunk = "5\r\nhello\r\n0\r\n\r\n";

std::string post(std::string_view fields, std::string_view body = "") {
  std::string text = "POST /a HTTP/1.1\r\nHost: x\r\n";
  return text.append(fields).append("\r\n").append(body);
}
std::string chunked(std::string_view body) { return post("Transfer-Encoding: chunked\r\n", body); }

std::vector<Row> ambiguous() {
  std::vector<Row> rows;
  // Transfer-Encoding: everything but `chunked`, once and alone.
  for (const char* coding :
       {"xchunked", "chunked, identity", "\"chunked\"", "identity", "gzip", "gzip, chunked", "chunked, chunked",
        "chunked,", ",chunked", "chunked;q=1", "chunke", "chunked x", "x chunked", "", "'chunked'", "chunked\x0b",
        "\x0c"
        "chunked"})
    rows.push_back({"RFC 9112 6.1, 6.3", coding, post("Transfer-Encoding: " + std::string{coding} + "\r\n", chunk)});
  rows.push_back({"RFC 9112 6.1", "Transfer-Encoding twice",
                  post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk)});
  rows.push_back({"RFC 9112 6.1", "Transfer-Encoding twice, once unknown",
                  post("Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n", chunk)});
  rows.push_back({"RFC 9112 6.1", "the same, unknown first",
                  post("Transfer-Encoding: cow\r\ntransfer-encoding: chunked\r\n", chunk)});
  rows.push_back(
      {"RFC 9112 6.1", "HTTP/1.0 with Transfer-Encoding",
       "POST /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk});
  rows.push_back({"RFC 9112 6.3", "Transfer-Encoding and Content-Length",
                  post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunk)});
  rows.push_back({"RFC 9112 6.3", "Content-Length and Transfer-Encoding",
                  post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", chunk)});
  rows.push_back({"RFC 9112 6.3", "Content-Length and an unknown Transfer-Encoding",
                  post("Content-Length: 4\r\nTransfer-Encoding: cow\r\n", "abcd")});
  // Content-Length: everything but one number.
  rows.push_back({"RFC 9112 6.3", "two lengths", post("Content-Length: 5\r\nContent-Length: 0\r\n", "hello")});
  rows.push_back({"RFC 9112 6.3", "one length twice", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello")});
  for (const char* length : {"5, 5", "5, 6", "+5", "-5", "0x5", "5 5", "5;", "", "5.0", "1e1", "5,", "\"5\"",
                             "18446744073709551621", "99999999999999999999999999"})
    rows.push_back(
        {"RFC 9112 6.3, RFC 9110 8.6", length, post("Content-Length: " + std::string{length} + "\r\n", "hello")});
  // Lines.
  rows.push_back(
      {"RFC 9112 5.2", "Transfer-Encoding in a folded line", post("X: a\r\n Transfer-Encoding: chunked\r\n")});
  rows.push_back({"RFC 9112 5.2", "a folded Transfer-Encoding", post("Transfer-Encoding:\r\n chunked\r\n", chunk)});
  rows.push_back({"RFC 9112 5.2", "a folded Content-Length", post("Content-Length:\r\n\t5\r\n", "hello")});
  rows.push_back({"RFC 9112 2.2", "white space before the first field",
                  "POST /a HTTP/1.1\r\n Host: x\r\nContent-Length: 0\r\n\r\n"});
  rows.push_back(
      {"RFC 9112 2.2", "LF alone after the request line", "POST /a HTTP/1.1\nHost: x\r\nContent-Length: 0\r\n\r\n"});
  rows.push_back({"RFC 9112 2.2", "LF alone after a field", post("X: a\nContent-Length: 5\r\n", "hello")});
  rows.push_back({"RFC 9112 2.2", "LF alone everywhere", "POST /a HTTP/1.1\nHost: x\nContent-Length: 0\n\n"});
  rows.push_back({"RFC 9112 2.2", "CR alone in a value", post("X: a\rContent-Length: 5\r\n", "hello")});
  rows.push_back({"RFC 9112 2.2", "CR twice", post("X: a\r\r\nContent-Length: 0\r\n")});
  rows.push_back({"RFC 9112 2.2", "empty lines before the request", "\r\n\r\n" + post("Content-Length: 0\r\n")});
  rows.push_back({"RFC 9110 5.5", "a zero byte in a value", post(std::string("X: a\0b\r\n", 8), "")});
  rows.push_back({"RFC 9112 5.1", "white space before the colon", post("Content-Length : 5\r\n", "hello")});
  rows.push_back({"RFC 9112 5.1", "a tab before the colon", post("Transfer-Encoding\t: chunked\r\n", chunk)});
  rows.push_back({"RFC 9112 5.1", "a zero byte in a name", post(std::string("X\0: a\r\n", 7), "")});
  rows.push_back({"RFC 9112 5.1", "a line without a colon", post("Content-Length 5\r\n", "hello")});
  rows.push_back({"RFC 9112 5.1", "a field without a name", post(": 5\r\n")});
  // The request line.
  for (const char* line : {"GET  /a HTTP/1.1", "GET /a  HTTP/1.1", "GET /a b HTTP/1.1", " GET /a HTTP/1.1",
                           "GET /a HTTP/1.1 ", "GET /a", "GET /a HTTP/1.2", "GET /a HTTP/2.0", "GET /a http/1.1",
                           "GET /a HTTP/1.10", "GET\t/a\tHTTP/1.1", "G@T /a HTTP/1.1", "GET /\x7f HTTP/1.1"})
    rows.push_back({"RFC 9112 3", line, std::string{line} + "\r\nHost: x\r\n\r\n"});
  // Host.
  rows.push_back({"RFC 9112 3.2", "no Host", "GET /a HTTP/1.1\r\n\r\n"});
  rows.push_back({"RFC 9112 3.2", "Host twice", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"});
  rows.push_back({"RFC 9112 3.2", "the same Host twice", "GET /a HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n"});
  rows.push_back({"RFC 9112 3.2", "Host twice in HTTP/1.0",
                  "GET /a HTTP/1.0\r\nHost: x\r\nHost: y\r\nConnection: keep-alive\r\n\r\n"});
  for (const char* host : {"a b", "a/b", "a@b", "a, b", "a?b", "a#b", "a\\b", "<a>"})
    rows.push_back({"RFC 9112 3.2, RFC 9110 7.2", host, "GET /a HTTP/1.1\r\nHost: " + std::string{host} + "\r\n\r\n"});
  // Chunks.
  for (const char* size : {"", " 5", "5 ", "0x5", "+5", "-5", "5g", "10000000000000005", "5;", "5;=", "5;a b", "5;\"a"})
    rows.push_back({"RFC 9112 7.1", size, chunked(std::string{size} + "\r\nhello\r\n0\r\n\r\n")});
  rows.push_back({"RFC 9112 7.1", "LF alone after a size", chunked("5\nhello\r\n0\r\n\r\n")});
  rows.push_back({"RFC 9112 7.1", "CR alone after a size", chunked("5\rhello\r\n0\r\n\r\n")});
  rows.push_back({"RFC 9112 7.1", "LF alone after data", chunked("5\r\nhello\n0\r\n\r\n")});
  rows.push_back({"RFC 9112 7.1", "no line's end after data", chunked("5\r\nhello0\r\n\r\n")});
  rows.push_back({"RFC 9112 7.1", "more data than its size", chunked("5\r\nhello!\r\n0\r\n\r\n")});
  rows.push_back({"RFC 9112 7.1.1", "LF in an extension", chunked("5;a=\nb\r\nhello\r\n0\r\n\r\n")});
  rows.push_back({"RFC 9112 7.1.2", "Content-Length in a trailer", chunked("0\r\nContent-Length: 50\r\n\r\n")});
  rows.push_back(
      {"RFC 9112 7.1.2", "Transfer-Encoding in a trailer", chunked("0\r\nTransfer-Encoding: chunked\r\n\r\n")});
  rows.push_back({"RFC 9112 5.2", "a folded line in a trailer", chunked("5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n")});
  rows.push_back({"RFC 9112 5.2", "the same with a tab, above another field",
                  chunked("0;e=\"f: g\"\r\nX: a\r\n\tb\r\nY: c\r\n\r\n")});
  for (const char* field : {"Authorization: Bearer ", "Content-Type: application/", "Origin: http://"})
    rows.push_back(
        {"RFC 9110 5.3", field, post(std::string{field} + "a\r\n" + field + "b\r\nContent-Length: 5\r\n", "hello")});
  rows.push_back({"RFC 9112 7.1.2", "LF alone in a trailer", chunked("0\r\nX: a\nY: b\r\n\r\n")});
  return rows;
}

/// Requests with one reading, each followed by another that must be served.
std::vector<Row> plain() {
  return {
      {"RFC 9112 7", "chunked in capitals", post("Transfer-Encoding: CHUNKED\r\n", chunk)},
      {"RFC 9112 5.1", "white space around a value", post("Transfer-Encoding: \t chunked \t\r\n", chunk)},
      {"RFC 9112 5.1", "none before a value", post("Content-Length:5\r\n", "hello")},
      {"RFC 9112 2.2", "an empty line before the request", "\r\n" + post("Content-Length: 5\r\n", "hello")},
      {"RFC 9112 3.2", "an empty Host", "GET /a HTTP/1.1\r\nHost:\r\n\r\n"},
      {"RFC 9112 3.2", "a Host with a port", "GET /a HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"},
      {"RFC 9112 7.1", "sizes in both cases, with zeros",
       chunked("00A\r\n0123456789\r\n0a\r\n0123456789\r\n000\r\n\r\n")},
      {"RFC 9112 7.1.1", "an extension", chunked("5;a=\"b\";c\r\nhello\r\n0;d\r\n\r\n")},
      {"RFC 9112 7.1.2", "a trailer", chunked("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")},
      {"RFC 9112 5.2", "a chunk that looks like a folded line", chunked("8\r\nX: a\r\n b\r\n0\r\nX: a\r\n\r\n")},
      {"RFC 9112 6.3", "a length with zeros", post("Content-Length: 0005\r\n", "hello")},
      {"RFC 9112 6.3", "no length", post("")},
  };
}

} // namespace

TEST_CASE("HttpServer refuses a request of ambiguous framing with 400 and closes: the next bytes are no request") {
  RunningServer running;
  for (const Row& row : ambiguous()) {
    INFO(row.rfc << ": " << row.what);
    const std::string answer = answer_to_plain(running.port, row.request + smuggled);
    INFO(answer);
    CHECK(answer.starts_with("HTTP/1.1 400 "));
    CHECK(answer.find("Connection: close\r\n") != std::string::npos);
    CHECK(answer.find("Content-Length: ") == answer.rfind("Content-Length: ")); // one response
    CHECK(running.app.smuggled == 0);
  }
  CHECK(running.app.requests == 0);
  int served = 0;
  for (const Row& row : plain()) {
    INFO(row.rfc << ": " << row.what);
    const std::string answer = answer_to_plain(running.port, row.request + smuggled);
    INFO(answer);
    CHECK(answer.starts_with("HTTP/1.1 200 "));
    CHECK(running.app.smuggled == ++served);
  }
  CHECK(running.app.requests == 2 * served);
}

TEST_CASE("HttpServer reads the same framing whatever pieces a request arrives in") {
  RunningServer running;
  const auto answer_in_bytes = [&](const std::string& request) {
    asio::io_context context;
    asio::ip::tcp::socket socket(context);
    socket.connect({asio::ip::make_address("127.0.0.1"), running.port});
    socket.set_option(asio::ip::tcp::no_delay(true));
    boost::system::error_code error;
    for (const char byte : request)
      if (!error) asio::write(socket, asio::buffer(&byte, 1), error);
    std::string text;
    asio::read(socket, asio::dynamic_buffer(text), error);
    return text;
  };
  for (const Row& row : plain()) {
    INFO(row.rfc << ": " << row.what);
    CHECK(answer_in_bytes(row.request + smuggled).starts_with("HTTP/1.1 200 "));
  }
  CHECK(running.app.smuggled == static_cast<int>(plain().size()));
  HttpHead head;
  const std::string text = "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\nGET";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    CHECK(head.look(text.substr(0, size)));
    CHECK(head.end() == (size < text.size() - 3 ? 0 : text.size() - 3));
  }
  CHECK(head.begin() == 2);
}

namespace {

/// nginx in front of a server, at a socket of its own. It tells the server which request it saw.
class Nginx {
 public:
  explicit Nginx(std::uint16_t port) {
    const std::string at = folder_.path.string();
    std::string config = "daemon off; master_process off; error_log /dev/null; pid " + at +
                         "/pid;\nevents {}\nhttp {\n"
                         "access_log off; large_client_header_buffers 4 16k;\n";
    for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
      config += std::string{kind} + "_temp_path " + at + "/" + kind + ";\n";
    config += "upstream sluice { server 127.0.0.1:" + std::to_string(port) + "; keepalive 1; }\n";
    config += "server { listen unix:" + socket() +
              ";\nlocation / { proxy_pass http://sluice; proxy_http_version 1.1;\n"
              "proxy_request_buffering off; proxy_ignore_client_abort on; proxy_buffering off; proxy_set_header "
              "Connection \"\";\n"
              "proxy_set_header X-Seen $request_uri; } } }\n";
    std::ofstream(folder_.path / "nginx.conf") << config;
    std::vector<std::string> words{"nginx", "-c", at + "/nginx.conf", "-p", at};
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions; // it warns that it cannot write its default log
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    REQUIRE(posix_spawnp(&process_, "nginx", &actions, nullptr, pointers.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    REQUIRE(
        soon([&] { return answer("GET /up HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").starts_with("HTTP/"); }));
  }
  ~Nginx() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;

  /// Everything that it sends back to these bytes and the end of the data.
  [[nodiscard]] std::string answer(std::string_view bytes) const {
    asio::io_context context;
    asio::local::stream_protocol::socket to(context);
    boost::system::error_code error;
    to.connect({socket()}, error);
    if (!error) asio::write(to, asio::buffer(bytes), error);
    if (!error) to.shutdown(asio::socket_base::shutdown_send, error);
    std::string text;
    if (!error) asio::read(to, asio::dynamic_buffer(text), error);
    return text;
  }

 private:
  [[nodiscard]] std::string socket() const { return (folder_.path / "socket").string(); }

  sluice_test::TemporaryFolder folder_;
  pid_t process_ = -1;
};

} // namespace

TEST_CASE("HttpServer behind nginx serves the requests that nginx saw, and no other" * needs_tools({"nginx"})) {
  RunningServer running;
  const Nginx nginx(running.port);
  CHECK(running.app.unseen == 0);
  int passed = 0;
  std::vector<Row> rows = ambiguous();
  for (Row& row : plain()) rows.push_back(std::move(row));
  for (const Row& row : rows) {
    INFO(row.rfc << ": " << row.what);
    const int before = running.app.requests;
    const std::string answer = nginx.answer(row.request + smuggled);
    CHECK(running.app.unseen == 0);
    passed += running.app.requests - before;
    // A request that gets another's answer shows in the next one, on nginx's connection to the server.
    CHECK(nginx.answer("GET /check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ends_with("GET /check "));
  }
  MESSAGE(rows.size() << " rows, of which nginx passed " << passed << " requests on");
  CHECK(passed >= static_cast<int>(plain().size()));
}
