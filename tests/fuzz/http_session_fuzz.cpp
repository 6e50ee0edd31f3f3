// SPDX-License-Identifier: Apache-2.0
// Whatever bytes come over a connection, the answer is whole HTTP responses: a refusal is one sentence in OpenAI's
// form, a stream is whole events. The input's first byte determines how large the pieces are in which the rest arrives.
#include "sluice/serve/beast/http_session.hpp"

#include "fuzz/openai_world.hpp"

#include <algorithm>
#include <memory>
#include <string>

namespace {

using namespace sluice;
using sluice_test::require;
namespace asio = boost::asio;
namespace http = boost::beast::http;

/// A connection on which the bytes arrive in pieces, followed by the client's end; it keeps what the session writes.
class BytesStream {
 public:
  using executor_type = asio::any_io_executor;
  struct Wire {
    std::string in, out;
    std::size_t piece = 1, at = 0;
    bool closed = false;
  };

  BytesStream(asio::io_context& context, Wire& wire) : executor_(context.get_executor()), wire_(&wire) {}
  [[nodiscard]] executor_type get_executor() const { return executor_; }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& into) {
          const std::string_view rest = std::string_view(wire_->in).substr(wire_->at, wire_->piece);
          const std::size_t bytes = asio::buffer_copy(into, asio::buffer(rest.data(), rest.size()));
          wire_->at += bytes;
          const boost::system::error_code error =
              bytes > 0 && !wire_->closed ? boost::system::error_code{} : asio::error::eof;
          asio::post(executor_, boost::beast::bind_front_handler(std::move(handler), error, bytes));
        },
        token, buffers);
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& from) {
          const std::size_t bytes = wire_->closed ? 0 : asio::buffer_size(from);
          wire_->out += boost::beast::buffers_to_string(from);
          asio::post(executor_, boost::beast::bind_front_handler(
                                    std::move(handler),
                                    wire_->closed ? boost::system::error_code(asio::error::broken_pipe)
                                                  : boost::system::error_code{},
                                    bytes));
        },
        token, buffers);
  }

  // The other parts of tcp_stream that the session uses.
  struct Socket {
    Wire* wire;
    void close(boost::system::error_code& /*error*/) const { wire->closed = true; }
    void shutdown(asio::ip::tcp::socket::shutdown_type /*what*/, boost::system::error_code& /*error*/) const {}
    [[nodiscard]] bool is_open() const { return !wire->closed; }
    [[nodiscard]] asio::ip::tcp::endpoint remote_endpoint(boost::system::error_code& /*error*/) const { return {}; }
  };
  [[nodiscard]] Socket& socket() { return socket_; }
  void expires_after(std::chrono::milliseconds /*time*/) {}
  void expires_never() {}
  void cancel() {} // a read has always ended

 private:
  executor_type executor_;
  Wire* wire_;
  Socket socket_{wire_};
};

/// Has no handshake and no farewell.
struct Wired {
  using Stream = BytesStream;
  static asio::awaitable<bool> greet(BytesStream& /*stream*/) { co_return true; }
  static asio::awaitable<void> part(BytesStream& /*stream*/) { co_return; }
};

/// The engine answers each request at once, so the client's end comes after the answer.
class AtOnce final : public HttpApp {
 public:
  explicit AtOnce(sluice_test::OpenAiWorld& world) : world_(&world) {}
  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override {
    require(request.target.size() <= max_header && request.body.size() <= max_body, "a request is within its limits");
    world_->app.handle(std::move(request), std::move(exchange));
    world_->run();
  }
  HttpResponse refuse(int status, std::string what, const HttpRequest* head) override {
    require(status == 400 || status == 413 || status == 431, "an unreadable request is refused with its status");
    return world_->app.refuse(status, std::move(what), head);
  }
  static constexpr std::size_t max_header = 1024, max_body = 2048;

 private:
  sluice_test::OpenAiWorld* world_;
};

asio::awaitable<void> run_whole(HttpSession<Wired>& session, bool& ended) {
  co_await session.run();
  ended = true;
}

void check_responses(std::string_view out) {
  while (!out.empty()) {
    constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    if (out.starts_with(go_on)) {
      out.remove_prefix(go_on.size());
      continue;
    }
    http::response_parser<http::string_body> parser;
    parser.body_limit(std::uint64_t{1} << 30);
    parser.eager(true);
    // HEAD has a length and no body. This target sees only the response, and recognises a response to HEAD by the next
    // bytes.
    const std::size_t head_end = out.find("\r\n\r\n");
    require(head_end != std::string_view::npos, "a head ends");
    const std::string_view after = out.substr(head_end + 4);
    const bool no_body = after.empty() || after.starts_with("HTTP/1.1 ");
    if (no_body) parser.skip(true);
    boost::system::error_code error;
    const std::size_t read = parser.put(asio::buffer(out.data(), out.size()), error);
    require(!error, "a response is HTTP");
    if (!parser.is_done() && parser.need_eof()) parser.put_eof(error);
    require(parser.is_done(), "a response is whole");
    out.remove_prefix(read);
    const auto& response = parser.get();
    if (no_body) continue;
    const std::string_view type{response[http::field::content_type].data(), response[http::field::content_type].size()};
    if (type == "application/json") {
      const nlohmann::json body = sluice_test::require_json(response.body());
      if (response.result_int() >= 400) sluice_test::require_error(body);
    } else if (type.starts_with("text/event-stream")) {
      (void)sluice_test::require_stream(response.body());
    } else {
      require(response.result_int() == 200, "any other response is a page or figures");
    }
  }
}

} // namespace

SLUICE_FUZZ_TARGET(http_session) {
  if (size == 0) return 0;
  BytesStream::Wire wire;
  wire.in = sluice_test::text_of(data + 1, size - 1);
  wire.piece = data[0] >= 128 ? wire.in.size() + 1 : data[0] + std::size_t{1};
  {
    sluice_test::OpenAiWorld world;
    AtOnce app(world);
    HttpLimits limits;
    limits.max_header = AtOnce::max_header;
    limits.max_body = AtOnce::max_body;
    limits.max_unread = std::size_t{1} << 30; // an answer is complete before its first byte is written here
    const bool draining = false;
    asio::io_context context{1};
    const Wired wired;
    BodyBudget bodies(limits.max_bodies);
    const auto session =
        std::make_shared<HttpSession<Wired>>(BytesStream(context, wire), wired, app, limits, draining, bodies);
    bool ended = false;
    asio::co_spawn(context, run_whole(*session, ended), asio::detached);
    context.run();
    require(ended, "a session ends with its connection");
    require(bodies.held() == 0, "no memory of a body stays counted");
    require(world.app.under_way() == 0, "nothing remains of a request");
  }
  check_responses(wire.out);
  return 0;
}
