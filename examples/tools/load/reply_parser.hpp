// SPDX-License-Identifier: Apache-2.0
// ReplyParser: an HTTP response read as it comes, by Beast's parser; the body goes on in pieces.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace loading {

/// Gets bytes, however they are cut. Beast's own message types keep a body, or ask for a buffer for each piece.
class ReplyParser final : public boost::beast::http::basic_parser<false> {
 public:
  explicit ReplyParser(std::function<void(std::string_view)> body) : body_(std::move(body)) {
    eager(true);
    body_limit(boost::none);
  }

  /// Takes bytes from the front of `text`; false where they are no HTTP. What is left begins the next call's.
  bool feed(std::string& text) {
    std::size_t taken = 0;
    while (taken < text.size() && !is_done()) {
      boost::beast::error_code error;
      const std::size_t now = put(boost::asio::buffer(text.data() + taken, text.size() - taken), error);
      taken += now;
      if (error == boost::beast::http::error::need_more) break;
      if (error) return false;
      if (now == 0) break;
    }
    text.erase(0, taken);
    return true;
  }
  /// The connection has ended; false where the response had not.
  bool finish() {
    if (is_done()) return true;
    if (!got_some()) return false;
    boost::beast::error_code error;
    put_eof(error);
    return !error && is_done();
  }

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& type() const { return type_; }

 private:
  using Error = boost::beast::error_code;
  using Text = boost::beast::string_view;

  void on_request_impl(boost::beast::http::verb, Text, Text, int, Error&) override {}
  void on_response_impl(int code, Text, int, Error&) override { status_ = code; }
  void on_field_impl(boost::beast::http::field name, Text, Text value, Error&) override {
    if (name == boost::beast::http::field::content_type) type_.assign(value.data(), value.size());
  }
  void on_header_impl(Error&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, Error&) override {}
  std::size_t on_body_impl(Text body, Error&) override {
    body_({body.data(), body.size()});
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, Text, Error&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, Text body, Error&) override {
    body_({body.data(), body.size()});
    return body.size();
  }
  void on_finish_impl(Error&) override {}

  std::function<void(std::string_view)> body_;
  int status_ = 0;
  std::string type_;
};

} // namespace loading
