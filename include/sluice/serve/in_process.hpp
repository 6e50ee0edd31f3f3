// SPDX-License-Identifier: Apache-2.0
// InProcess: a transport without sockets on a virtual clock, and the clients at its other end.
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

namespace sluice {

/// What a client of an InProcess transport has been sent, and when, in seconds of the transport's clock.
struct InProcessReply {
  struct Piece {
    double at = 0;
    std::string text;
  };

  double sent = 0; ///< when the client sent its request
  bool begun = false;
  double head_at = 0;
  HttpResponse head;         ///< its body is in the pieces
  std::vector<Piece> pieces; ///< of the body, as the application sent them
  bool finished = false;     ///< the answer is whole
  bool cut = false;          ///< the application dropped the exchange within its answer
  bool left = false;         ///< the client left before the answer's end
  double ended_at = 0;       ///< when one of the three came to be

  [[nodiscard]] bool over() const { return finished || cut || left; }
  [[nodiscard]] std::string body() const {
    std::string all;
    for (const Piece& piece : pieces) all += piece.text;
    return all;
  }
};

/// Carries requests as an HttpServer does, but for the network: a request is there when its client sends it, and a
/// piece of its answer when the application sends the piece. Time passes when told to, so that a test of hours takes
/// milliseconds and comes out the same every time.
///
/// Everything happens on the thread that calls `run_until`; `post`, too, is for that thread alone. A client reads at
/// once what it is sent: none is cut for leaving an answer unread.
class InProcess final : public HttpTransport {
 public:
  using Reply = std::shared_ptr<const InProcessReply>;
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// Requests go to `app` from here on. It must outlive them.
  void serve(HttpApp& app) { app_ = &app; }

  [[nodiscard]] double now() const { return now_; }
  /// When something is to happen next; `never` if nothing is.
  [[nodiscard]] double next_due() const { return work_.empty() ? never : work_.begin()->first.first; }
  /// Does what is due by `when`, and what comes to be due by then meanwhile, in the order of time and, at one time, in
  /// the order in which it was asked for. The clock then says `when`.
  void run_until(double when) {
    while (next_due() <= when) {
      const auto next = work_.extract(work_.begin());
      now_ = next.key().first;
      next.mapped()();
    }
    if (when > now_) now_ = when;
  }

  void post(std::function<void()> work) override { at(now_, std::move(work)); }
  void after(double seconds, std::function<void()> work) override { at(now_ + seconds, std::move(work)); }
  /// Does `work` at `when`, or now if that has passed.
  void at(double when, std::function<void()> work) {
    work_.emplace(std::pair{when > now_ ? when : now_, order_++}, std::move(work));
  }

  /// A client sends `request` at `when`. The reply says what it has been answered so far.
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
  /// The client leaves at `when`, unless its answer is whole by then.
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
      line_->on_gone = nullptr; // nobody is left to be told
      if (line_->over()) return;
      if (line_->begun) {
        line_->cut = true;
        line_->ended_at = transport_->now_;
      } else {
        respond(transport_->app_->refuse(500, "the request was dropped without an answer"));
      }
    }

    void respond(HttpResponse response) override {
      begin(std::move(response));
      finish();
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
    void finish() override {
      if (line_->over()) return;
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
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::map<std::pair<double, std::uint64_t>, std::function<void()>> work_; ///< by time, then by order
};

} // namespace sluice
