// SPDX-License-Identifier: Apache-2.0
// InProcess: a transport without sockets, on a virtual clock, and its clients.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/serve/http.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::testing {

/// A client's view of one exchange. Times are in seconds of the transport's clock.
struct InProcessReply {
  struct Piece {
    double at = 0;
    std::string text;
  };

  double sent = 0; ///< when the request was sent
  bool begun = false;
  double head_at = 0;
  HttpResponse head;         ///< without its body, which is in `pieces`
  std::vector<Piece> pieces; ///< of the body, as the application sent them
  HttpHeaders trailers;      ///< behind the body
  bool finished = false;     ///< the response is complete
  bool cut = false;          ///< the application dropped the exchange in the middle of its response
  bool left = false;         ///< the client left before the response was complete
  double ended_at = 0;       ///< when one of these three became true

  [[nodiscard]] bool over() const { return finished || cut || left; }
  [[nodiscard]] std::string body() const {
    std::string all;
    for (const Piece& piece : pieces) all += piece.text;
    return all;
  }
};

/// Behaves like an HttpServer with an instant network: requests and pieces of responses arrive when they are sent. Time
/// is virtual, so that a test of hours takes milliseconds and always has the same result.
///
/// Everything happens on the thread that calls `run_until`, including `post`. Clients read everything at once, so none
/// is dropped because of unread bytes.
class InProcess final : public HttpTransport {
 public:
  using Reply = std::shared_ptr<const InProcessReply>;
  static constexpr double never = std::numeric_limits<double>::infinity();

  InProcess() = default;
  /// `late`: seconds by which the next timer fires late, as on a busy machine.
  explicit InProcess(std::function<double()> late) : late_(std::move(late)) {}

  /// Sends requests to `app`, which must outlive them.
  void serve(HttpApp& app) { app_ = &app; }

  [[nodiscard]] double now() const { return now_; }
  /// Returns when the next work is due; `never` if there is no work.
  [[nodiscard]] double next_due() const { return work_.empty() ? never : work_.begin()->first.first; }
  /// Runs all work that is due by `when`, including work added during the call, ordered by time and then by submission.
  /// Then sets the clock to `when`.
  void run_until(double when) {
    while (next_due() <= when) {
      const auto next = work_.extract(work_.begin());
      now_ = next.key().first;
      next.mapped()();
    }
    if (when > now_) now_ = when;
  }

  void post(std::function<void()> work) override { at(now_, std::move(work)); }
  void after(double seconds, std::function<void()> work) override {
    at(now_ + seconds + (late_ ? late_() : 0), std::move(work));
  }
  /// Runs `work` at `when`, or now if that time has passed.
  void at(double when, std::function<void()> work) {
    work_.emplace(std::pair{when > now_ ? when : now_, order_++}, std::move(work));
  }

  /// Makes a client send `request` at `when`. The reply is filled in as the response arrives.
  Reply send(double when, HttpRequest request) {
    auto line = std::make_shared<Line>();
    at(when, [this, line, request = std::move(request)]() mutable {
      SLUICE_ASSERT(app_ != nullptr, "an application that serves");
      line->sent = now_;
      const bool head_only = request.method == "HEAD";
      app_->handle(std::move(request), std::make_unique<LineExchange>(*this, line, head_only));
    });
    return line;
  }
  /// Makes the client disconnect at `when`, unless its response is complete by then.
  void leave(double when, const Reply& reply) {
    at(when, [this, line = std::static_pointer_cast<Line>(std::const_pointer_cast<InProcessReply>(reply))] {
      if (line->over()) return;
      line->left = true;
      line->ended_at = now_;
      if (line->on_gone) std::exchange(line->on_gone, nullptr)();
    });
  }

 private:
  struct Line : InProcessReply {
    std::function<void()> on_gone;
  };

  class LineExchange final : public Exchange {
   public:
    LineExchange(InProcess& transport, std::shared_ptr<Line> line, bool head_only)
        : transport_(&transport), line_(std::move(line)), head_only_(head_only) {}
    ~LineExchange() override {
      line_->on_gone = nullptr; // the application has destroyed the exchange
      if (line_->over()) return;
      if (line_->begun) {
        line_->cut = true;
        line_->ended_at = transport_->now_;
      } else {
        respond(transport_->app_->refuse(500, "the request was dropped without an answer", nullptr));
      }
    }

    void respond(HttpResponse response) override {
      begin(std::move(response));
      finish(HttpHeaders{});
    }
    void begin(HttpResponse head) override {
      if (line_->over() || line_->begun) return;
      line_->begun = true;
      line_->head_at = transport_->now_;
      const std::string first = std::exchange(head.body, {});
      line_->head = std::move(head);
      send(first);
    }
    void send(std::string_view piece) override {
      if (line_->over() || piece.empty() || head_only_) return;
      SLUICE_ASSERT(line_->begun, "a head before its body");
      line_->pieces.push_back({transport_->now_, std::string{piece}});
    }
    void finish(const HttpHeaders& trailers) override {
      if (line_->over()) return;
      line_->trailers = trailers;
      line_->finished = true;
      line_->ended_at = transport_->now_;
    }
    void on_gone(std::function<void()> gone) override {
      if (line_->left)
        gone();
      else
        line_->on_gone = std::move(gone);
    }

   private:
    InProcess* transport_;
    std::shared_ptr<Line> line_;
    bool head_only_;
  };

  HttpApp* app_ = nullptr;
  std::function<double()> late_; ///< empty: timers are punctual
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::map<std::pair<double, std::uint64_t>, std::function<void()>> work_; ///< ordered by time, then by submission
};

} // namespace sluice::testing
