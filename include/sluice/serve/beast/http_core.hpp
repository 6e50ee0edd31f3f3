// SPDX-License-Identifier: Apache-2.0
// HttpCore: what an HttpServer is made of, on Asio; and what a Connection of your own needs to become an
// HttpConnection.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/connection.hpp"
#include "sluice/serve/beast/http_connection.hpp"
#include "sluice/serve/beast/http_session.hpp"
#include "sluice/serve/http.hpp"

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

// clang-tidy 14 mistakes a coroutine's parameter, which moves into its frame, for one used after a move.
// NOLINTBEGIN(bugprone-use-after-move)
namespace sluice::detail {

class HttpCore;

/// A Connection of any type: one indirect call per connection.
class AnyConnection {
 public:
  AnyConnection() = default;
  virtual ~AnyConnection() = default;
  AnyConnection(const AnyConnection&) = delete;
  AnyConnection& operator=(const AnyConnection&) = delete;
  /// Serves one client of `server` until its connection ends.
  [[nodiscard]] virtual boost::asio::awaitable<void> serve(HttpCore& server,
                                                           boost::asio::ip::tcp::socket socket) const = 0;
};

/// Returns an IPv4 address, or the first 64 bits of an IPv6 address: one client may own all addresses of such a
/// network.
[[nodiscard]] inline std::string client_address(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return "?";
  const boost::asio::ip::address address = remote.address();
  if (address.is_v4()) return address.to_string();
  const boost::asio::ip::address_v6 six = address.to_v6();
  if (six.is_v4_mapped()) return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, six).to_string();
  const auto bytes = six.to_bytes();
  return {bytes.begin(), bytes.begin() + 8};
}

/// The members of HttpServer, which documents them.
class HttpCore {
 public:
  HttpCore(HttpLimits limits, HttpConnection connection) : limits_(limits), connection_(std::move(connection)) {}

  [[nodiscard]] Status listen(const HttpAddress& address) { return open(acceptor_, address, "--host", "--port"); }
  [[nodiscard]] Status listen_admin(const HttpAddress& address) {
    return open(admin_acceptor_, address, "--admin", "--admin");
  }
  [[nodiscard]] std::uint16_t admin_port() const { return admin_acceptor_.local_endpoint().port(); }
  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] std::string_view scheme() const { return connection_.scheme(); }

  void run(HttpApp& app, HttpApp* admin = nullptr) {
    app_ = &app;
    boost::asio::co_spawn(context_, accept(), boost::asio::detached);
    if (admin != nullptr && admin_acceptor_.is_open())
      boost::asio::co_spawn(context_, accept_admin(*admin), boost::asio::detached);
    cut_who_is_stuck();
    for (;;) {
      try {
        context_.run();
        break;
      } catch (...) { // NOLINT(bugprone-empty-catch): work has thrown, and the exchanges that it owned have ended
      }
    }
    for (OpenConnection* session : sessions_) session->cut(); // their coroutines end when the context is destroyed
    for (OpenConnection* session : admin_sessions_) session->cut();
  }

  void post(std::function<void()> work) { boost::asio::post(context_, std::move(work)); }
  void after(double seconds, std::function<void()> work) {
    auto timer = std::make_shared<boost::asio::steady_timer>(
        context_,
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds)));
    timer->async_wait([timer, work = std::move(work)](const boost::system::error_code& error) {
      if (!error) work();
    });
  }
  void on_signal(std::initializer_list<int> numbers, std::function<void(int)> then) {
    auto signals = std::make_shared<boost::asio::signal_set>(context_);
    for (const int number : numbers) signals->add(number);
    signals->async_wait([signals, then = std::move(then)](const boost::system::error_code& error, int number) {
      boost::system::error_code ignored;
      signals->clear(ignored);
      if (!error) then(number);
    });
  }

  void on_each_signal(int number, std::function<void()> then) {
    await_each(std::make_shared<boost::asio::signal_set>(context_, number), std::move(then));
  }

  void drain(std::chrono::milliseconds bound) {
    if (draining_) return;
    draining_ = true;
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    for (OpenConnection* session : sessions_) session->close_if_idle();
    deadline_ = std::chrono::steady_clock::now() + bound;
    end_if_drained();
  }
  void stop() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    admin_acceptor_.close(ignored);
    context_.stop();
  }
  [[nodiscard]] bool draining() const { return draining_; }
  [[nodiscard]] std::size_t connections() const { return sessions_.size(); }
  [[nodiscard]] HttpFigures figures() const {
    return {sessions_.size(), reserve_.size(), turned_away_, bodies_.held(), bodies_.refused()};
  }

 private:
  static void await_each(const std::shared_ptr<boost::asio::signal_set>& signals, std::function<void()> then) {
    signals->async_wait([signals, then = std::move(then)](const boost::system::error_code& error, int /*number*/) {
      if (error) return;
      then();
      await_each(signals, then);
    });
  }

  Status open(boost::asio::ip::tcp::acceptor& acceptor, const HttpAddress& address, const char* host_flag,
              const char* port_flag) {
    namespace asio = boost::asio;
    boost::system::error_code error;
    const auto host = asio::ip::make_address(address.host, error);
    if (error)
      return Error{ErrorCode::bad_input, host_flag, "'" + address.host + "' is no address",
                   "a number, as 127.0.0.1 or ::1"};
    const asio::ip::tcp::endpoint endpoint{host, address.port};
    const auto step = [&](auto&& act) {
      if (!error) act();
    };
    step([&] { acceptor.open(endpoint.protocol(), error); });
    step([&] { acceptor.set_option(asio::socket_base::reuse_address(true), error); });
    step([&] { acceptor.bind(endpoint, error); });
    step([&] { acceptor.listen(backlog, error); });
    if (!error) return {};
    boost::system::error_code ignored;
    acceptor.close(ignored);
    return Error{ErrorCode::bad_input, port_flag,
                 address.host + ":" + std::to_string(address.port) + ": " + error.message(),
                 "a port that is free and allowed (" + std::string{port_flag} + " 0: any)"};
  }

  boost::asio::awaitable<void> accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(as_tuple_awaitable);
      if (!acceptor_.is_open()) co_return;
      if (error) {
        co_await pause();
        continue;
      }
      boost::asio::co_spawn(context_, connection_.any_->serve(*this, std::move(socket)), boost::asio::detached);
    }
  }
  boost::asio::awaitable<void> accept_admin(HttpApp& admin) {
    for (;;) {
      auto [error, socket] = co_await admin_acceptor_.async_accept(as_tuple_awaitable);
      if (!admin_acceptor_.is_open()) co_return;
      if (error) {
        co_await pause();
        continue;
      }
      if (admin_sessions_.size() < most_admin)
        boost::asio::co_spawn(context_, serve_admin(admin, std::move(socket)), boost::asio::detached);
    }
  }
  /// Waits after an error, for example when no file handle is left: open connections will end.
  boost::asio::awaitable<void> pause() {
    boost::asio::steady_timer timer(context_, std::chrono::milliseconds(50));
    co_await timer.async_wait(as_tuple_awaitable);
  }
  boost::asio::awaitable<void> serve_admin(HttpApp& admin, boost::asio::ip::tcp::socket socket) {
    static constexpr bool never_draining = false;
    static constexpr PlainHttp plain;
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored); // so that writes are tried before they wait
    const auto session = std::make_shared<HttpSession<PlainHttp>>(plain.wrap(std::move(socket)), plain, admin, limits_,
                                                                  never_draining, bodies_);
    const struct Member {
      Member(std::unordered_set<OpenConnection*>& all_, OpenConnection& one_) : all(all_), one(one_) {
        all.insert(&one);
      }
      ~Member() { all.erase(&one); }
      Member(const Member&) = delete;
      Member& operator=(const Member&) = delete;
      std::unordered_set<OpenConnection*>& all;
      OpenConnection& one;
    } member{admin_sessions_, *session};
    co_await session->run();
  }

  template <Connection C>
  friend class ConnectionOf;

  template <Connection C>
  boost::asio::awaitable<void> serve(const C& connection, boost::asio::ip::tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored); // a token must not wait for more bytes
    // By default the kernel buffers megabytes of an unread stream before the server notices.
    socket.set_option(boost::asio::socket_base::send_buffer_size(send_buffer), ignored);
    socket.non_blocking(true, ignored); // so that writes are tried before they wait
    const std::string address = client_address(socket);
    const std::string_view full = why_full(address);
    if (!full.empty()) {
      turned_away_ += 1;
      if (!make_room_in_reserve()) co_return;
    }
    const auto session = std::make_shared<HttpSession<C>>(connection.wrap(std::move(socket)), connection, *app_,
                                                          limits_, draining_, bodies_, full);
    const Listed listed{*this, *session, full.empty() ? address : std::string{}};
    co_await session->run();
  }

  /// Returns why a new connection goes to the reserve; empty if it does not.
  [[nodiscard]] std::string_view why_full(const std::string& address) const {
    if (static_cast<int>(sessions_.size() - reserve_.size()) >= limits_.max_connections)
      return "the server has as many connections as it takes";
    const auto found = addresses_.find(address);
    if (limits_.max_per_address > 0 && found != addresses_.end() && found->second >= limits_.max_per_address)
      return "this address has as many connections as one may have";
    return {};
  }
  /// Closes the oldest connection of a full reserve that has no response under way. Returns false if all of them have
  /// one.
  [[nodiscard]] bool make_room_in_reserve() {
    if (static_cast<int>(reserve_.size() - leaving_.size()) < limits_.reserved) return true;
    for (OpenConnection* const session : reserve_)
      if (!leaving_.contains(session) && session->cut_unless_answering()) return leaving_.insert(session).second;
    return false;
  }

  /// Lists the session during its lifetime: under its client's address, or in the reserve without an address.
  struct Listed {
    Listed(HttpCore& server_, OpenConnection& session_, std::string address_)
        : server(server_), session(session_), address(std::move(address_)) {
      server.sessions_.insert(&session);
      if (address.empty())
        server.reserve_.push_back(&session);
      else
        server.addresses_[address] += 1;
    }
    ~Listed() {
      server.sessions_.erase(&session);
      server.leaving_.erase(&session);
      if (address.empty())
        std::erase(server.reserve_, &session);
      else if (--server.addresses_[address] == 0)
        server.addresses_.erase(address);
    }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;
    HttpCore& server;
    OpenConnection& session;
    std::string address;
  };

  void cut_who_is_stuck() {
    const auto open = sessions_; // a copy: `cut` may end a session, which removes it from the list
    for (OpenConnection* session : open)
      if (sessions_.contains(session)) session->cut_if_stuck(std::chrono::steady_clock::now());
    const auto admins = admin_sessions_;
    for (OpenConnection* session : admins)
      if (admin_sessions_.contains(session)) session->cut_if_stuck(std::chrono::steady_clock::now());
    after(1, [this] { cut_who_is_stuck(); });
  }

  void end_if_drained() {
    if (sessions_.empty()) return stop();
    if (std::chrono::steady_clock::now() >= deadline_) {
      const auto open = sessions_; // a copy: `cut` may end a session, which removes it from the list
      for (OpenConnection* session : open) session->cut();
      return stop();
    }
    after(0.02, [this] { end_if_drained(); });
  }

  static constexpr int backlog = 4096;
  static constexpr std::size_t most_admin = 64; // connections; further ones are closed
  static constexpr int send_buffer = 32 << 10;  // bytes

  HttpLimits limits_;
  HttpConnection connection_;
  // Declared before the context, so that they outlive it: destroying the context ends the sessions' coroutines.
  BodyBudget bodies_{limits_.max_bodies};
  std::unordered_set<OpenConnection*> sessions_;
  std::unordered_set<OpenConnection*> admin_sessions_; ///< sessions of the second port; none of them is in `sessions_`
  std::vector<OpenConnection*> reserve_;               ///< sessions of the reserve, the oldest first
  std::unordered_set<OpenConnection*> leaving_;        ///< sessions of the reserve that were ended for a newer one
  std::unordered_map<std::string, int> addresses_;     ///< connections of each client, excluding the reserve
  std::int64_t turned_away_ = 0;
  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_{context_}, admin_acceptor_{context_};
  HttpApp* app_ = nullptr;
  bool draining_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

template <Connection C>
class ConnectionOf final : public AnyConnection {
 public:
  explicit ConnectionOf(C connection) : connection_(std::move(connection)) {}
  [[nodiscard]] boost::asio::awaitable<void> serve(HttpCore& server,
                                                   boost::asio::ip::tcp::socket socket) const override {
    return server.serve(connection_, std::move(socket));
  }

 private:
  C connection_;
};

} // namespace sluice::detail

namespace sluice {

template <class C>
  requires(!std::same_as<C, HttpConnection>)
HttpConnection::HttpConnection(C connection) {
  static_assert(Connection<C>,
                "sluice: this Connection needs a `scheme`, a nested `Stream`, `Stream wrap(tcp::socket) const`, "
                "`boost::asio::awaitable<bool> greet(Stream&) const` and `awaitable<void> part(Stream&) const`");
  if constexpr (Connection<C>) {
    scheme_ = C::scheme;
    any_ = std::make_shared<const detail::ConnectionOf<C>>(std::move(connection));
  }
}

} // namespace sluice
// NOLINTEND(bugprone-use-after-move)
