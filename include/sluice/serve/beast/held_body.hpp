// SPDX-License-Identifier: Apache-2.0
// BodyBudget: a memory limit shared by all requests' bodies; HeldBody: a Beast body that counts its memory against it.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <boost/system/error_code.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

/// Counts the bytes of bodies that have arrived and that no application has taken yet. Used on one thread.
class BodyBudget {
 public:
  /// `most`: the limit in bytes.
  explicit BodyBudget(std::size_t most) : most_(most) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  [[nodiscard]] bool take(std::size_t bytes) {
    if (bytes > left()) return false;
    held_ += bytes;
    return true;
  }
  /// Records that a request was refused because `take` failed, or would have failed.
  void refused_one() { refused_ += 1; }
  void give_back(std::size_t bytes) { held_ -= bytes; }

  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] std::size_t held() const { return held_; }
  [[nodiscard]] std::size_t left() const { return most_ - held_; }
  [[nodiscard]] std::int64_t refused() const { return refused_; }

 private:
  std::size_t most_;
  std::size_t held_ = 0;
  std::int64_t refused_ = 0;
};

/// Rejected: Beast's string_body, which reserves a body's whole Content-Length when its first byte arrives.
struct HeldBody {
  /// A body whose memory is counted until it is destroyed.
  class value_type {
   public:
    value_type() = default;
    value_type(value_type&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          taken_(std::exchange(other.taken_, 0)),
          text_(std::move(other.text_)) {}
    value_type& operator=(value_type&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(taken_, other.taken_);
      std::swap(text_, other.text_);
      return *this;
    }
    ~value_type() {
      if (budget_ != nullptr) budget_->give_back(taken_);
    }

    void count_in(BodyBudget& budget) { budget_ = &budget; }
    /// Returns the text; its bytes stay counted.
    [[nodiscard]] std::string take_text() { return std::move(text_); }
    /// `whole`: bytes of the whole body if known, else 0. Returns false if the budget has too little left.
    [[nodiscard]] bool append(const char* data, std::size_t size, std::size_t whole) {
      const std::size_t needed = text_.size() + size;
      if (needed > text_.capacity()) {
        std::size_t room = std::max(needed, 2 * text_.capacity());
        if (whole >= needed) room = std::min(room, whole);
        if (room > taken_ && budget_ != nullptr) {
          if (!budget_->take(room - taken_)) return false;
          taken_ = room;
        }
        text_.reserve(room);
      }
      text_.append(data, size);
      return true;
    }

   private:
    BodyBudget* budget_ = nullptr;
    std::size_t taken_ = 0; ///< bytes
    std::string text_;
  };

  /// How Beast's parser fills a body.
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>& /*head*/, value_type& body) : body_(&body) {}
    void init(const boost::optional<std::uint64_t>& length, boost::system::error_code& error) {
      whole_ = length ? static_cast<std::size_t>(*length) : 0;
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      std::size_t bytes = 0;
      error = {};
      for (const auto piece : boost::beast::buffers_range_ref(buffers)) {
        if (!body_->append(static_cast<const char*>(piece.data()), piece.size(), whole_)) {
          error = make_error_code(boost::system::errc::not_enough_memory);
          break;
        }
        bytes += piece.size();
      }
      return bytes;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type* body_;
    std::size_t whole_ = 0;
  };
};

} // namespace sluice
