// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 for an HttpApp, thousands of connections on one thread.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/connection.hpp"
#include "sluice/serve/beast/http_session.hpp"
#include "sluice/serve/http.hpp"

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

// clang-tidy 14 takes a coroutine's parameter, which moves into its frame, for used after that move.
// NOLINTBEGIN(bugprone-use-after-move)
namespace sluice {

/// Where to listen.
struct HttpAddress {
  std::string host = "127.0.0.1"; ///< an address of this machine, numeric
  std::uint16_t port = 8080;      ///< 0: any that is free; `HttpServer::port` says which
};

/// Everything runs on the thread that calls `run`; `post` alone may be called from others.
///
/// Life: `listen`, `run`; `drain` (no new connections; requests under way end; at the latest after `bound`) or `stop`
/// ends `run`.
template <class Transport = PlainHttp>
class HttpServer final : public HttpTransport {
 public:
  explicit HttpServer(HttpLimits limits = {}, Transport transport = {})
      : limits_(limits), transport_(std::move(transport)) {}

  /// Errors: no such address, a port in use or not allowed.
  [[nodiscard]] Status listen(const HttpAddress& address) {
    namespace asio = boost::asio;
    boost::system::error_code error;
    const auto host = asio::ip::make_address(address.host, error);
    if (error)
      return Error{ErrorCode::bad_input, "--host", "'" + address.host + "' is no address",
                   "a number, as 127.0.0.1 or ::1"};
    const asio::ip::tcp::endpoint endpoint{host, address.port};
    const auto step = [&](auto&& act) {
      if (!error) act();
    };
    step([&] { acceptor_.open(endpoint.protocol(), error); });
    step([&] { acceptor_.set_option(asio::socket_base::reuse_address(true), error); });
    step([&] { acceptor_.bind(endpoint, error); });
    step([&] { acceptor_.listen(backlog, error); });
    if (!error) return {};
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    return Error{ErrorCode::bad_input, "--port",
                 address.host + ":" + std::to_string(address.port) + ": " + error.message(),
                 "a port that is free and allowed (--port 0: any)"};
  }
  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  /// Serves `app` until `stop`, or until a drain has ended.
  void run(HttpApp& app) {
    app_ = &app;
    boost::asio::co_spawn(context_, accept(), boost::asio::detached);
    cut_who_is_stuck();
    context_.run();
    for (Session* session : sessions_) session->cut(); // their coroutines end with the context
  }

  /// Runs `work` on the application's thread. From any thread, and from a signal's handler that asio calls.
  void post(std::function<void()> work) override { boost::asio::post(context_, std::move(work)); }
  void after(double seconds, std::function<void()> work) override {
    auto timer = std::make_shared<boost::asio::steady_timer>(
        context_,
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds)));
    timer->async_wait([timer, work = std::move(work)](const boost::system::error_code& error) {
      if (!error) work();
    });
  }
  /// Calls `then` at the first of the signals, once, when they do again what they do by default. On the application's
  /// thread.
  void on_signal(std::initializer_list<int> numbers, std::function<void(int)> then) {
    auto signals = std::make_shared<boost::asio::signal_set>(context_);
    for (const int number : numbers) signals->add(number);
    signals->async_wait([signals, then = std::move(then)](const boost::system::error_code& error, int number) {
      boost::system::error_code ignored;
      signals->clear(ignored);
      if (!error) then(number);
    });
  }

  /// Lets requests under way end, for at most `bound`, and accepts no new connection: then `run` returns. On the
  /// application's thread.
  void drain(std::chrono::milliseconds bound) {
    if (draining_) return;
    draining_ = true;
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    for (Session* session : sessions_) session->close_if_idle();
    deadline_ = std::chrono::steady_clock::now() + bound;
    end_if_drained();
  }
  /// Ends `run` now. On the application's thread.
  void stop() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    context_.stop();
  }
  [[nodiscard]] bool draining() const { return draining_; }
  [[nodiscard]] std::size_t connections() const { return sessions_.size(); }

 private:
  using Session = HttpSession<Transport>;

  boost::asio::awaitable<void> accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(detail::as_tuple_awaitable);
      if (!acceptor_.is_open()) co_return;
      if (error) { // no file handle left, say: the connections that are open will end
        boost::asio::steady_timer pause(context_, std::chrono::milliseconds(50));
        co_await pause.async_wait(detail::as_tuple_awaitable);
        continue;
      }
      boost::asio::co_spawn(context_, serve(std::move(socket)), boost::asio::detached);
    }
  }

  boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored); // a token is a packet, and is waited for
    // The kernel would take megabytes of a stream that nobody reads before the server could notice.
    socket.set_option(boost::asio::socket_base::send_buffer_size(send_buffer), ignored);
    socket.non_blocking(true, ignored); // for writes that are tried before they are waited for
    typename Transport::Stream stream = transport_.wrap(std::move(socket));
    if (static_cast<int>(sessions_.size()) >= limits_.max_connections) {
      boost::beast::get_lowest_layer(stream).expires_after(std::chrono::seconds(1));
      if (!co_await transport_.greet(stream)) co_return;
      HttpResponse full = app_->refuse(503, "the server has as many connections as it takes");
      full.headers.add("Retry-After", "1");
      detail::HttpReply reply(context_.get_executor());
      reply.keep_alive = false;
      std::string text = detail::http_head(full, static_cast<std::int64_t>(full.body.size()), reply) + full.body;
      co_await boost::asio::async_write(stream, boost::asio::buffer(text), detail::as_tuple_awaitable);
      co_await transport_.part(stream);
      co_return;
    }
    Session session(std::move(stream), transport_, *app_, limits_, draining_);
    const Listed listed{*this, session};
    co_await session.run();
  }

  /// Keeps the session's name in the list while it lives.
  struct Listed {
    Listed(HttpServer& server_, Session& session_) : server(server_), session(session_) {
      server.sessions_.insert(&session);
    }
    ~Listed() { server.sessions_.erase(&session); }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;
    HttpServer& server;
    Session& session;
  };

  void cut_who_is_stuck() {
    const auto open = sessions_; // who is cut leaves the list
    for (Session* session : open)
      if (sessions_.contains(session)) session->cut_if_stuck(std::chrono::steady_clock::now());
    after(1, [this] { cut_who_is_stuck(); });
  }

  void end_if_drained() {
    if (sessions_.empty()) return stop();
    if (std::chrono::steady_clock::now() >= deadline_) {
      const auto open = sessions_; // aborting ends sessions, which leave the list
      for (Session* session : open) session->cut();
      return stop();
    }
    after(0.02, [this] { end_if_drained(); });
  }

  static constexpr int backlog = 4096;
  static constexpr int send_buffer = 32 << 10; // bytes

  HttpLimits limits_;
  Transport transport_;
  std::unordered_set<Session*> sessions_; ///< outlives the context, with which coroutines end that stand in it
  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_{context_};
  HttpApp* app_ = nullptr;
  bool draining_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

} // namespace sluice
// NOLINTEND(bugprone-use-after-move)
