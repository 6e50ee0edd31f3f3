// SPDX-License-Identifier: Apache-2.0
// HttpHead, wrong_framing: finds the end of a request's head, and checks that every HTTP program reads its framing
// alike.
#pragma once

#include "sluice/core/compiled.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// Finds the end of a head that arrives in pieces. Reads each byte once.
class HttpHead {
 public:
  /// Scans the bytes that have arrived so far, from the first one: `text` begins with the text of earlier calls.
  /// Returns false if these bytes cannot begin a head; `wrong` then contains the reason.
  [[nodiscard]] bool look(std::string_view text);
  /// Returns where the head begins in the text, after the ignored empty line.
  [[nodiscard]] std::size_t begin() const { return begin_; }
  /// Returns the position after the head's last byte; 0 if it has not ended yet.
  [[nodiscard]] std::size_t end() const { return end_; }
  [[nodiscard]] const char* wrong() const { return wrong_; }

 private:
  bool no(const char* wrong);

  std::size_t at_ = 0, begin_ = 0, end_ = 0;
  const char* wrong_ = "";
};

/// Returns why the framing of a request is wrong or ambiguous; empty if it is correct. `head`: from the method to the
/// empty line that ends it, each line with its CRLF.
///
/// A router in front of the server must see the same requests as the server. RFC 9112 allows a server to repair some
/// requests (repeated lengths, folded lines). This function refuses them, because a router may repair them in another
/// way.
[[nodiscard]] std::string wrong_framing(std::string_view head);

/// Returns whether a trailer of a chunked body has a folded line. `text`: the end of the body, up to the empty line
/// that ends it. RFC 9112 5.2 allows it nowhere, and a router may read it in another way.
[[nodiscard]] bool folds_trailer(std::string_view text);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/http_framing.inl.hpp"
#endif
