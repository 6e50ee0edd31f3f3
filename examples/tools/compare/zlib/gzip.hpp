// SPDX-License-Identifier: Apache-2.0
// gzipped: compresses a text to a member of a gzip file. Needs zlib.
#pragma once

#include "sluice/core/assert.hpp"

#include <zlib.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace compared {

/// Returns one gzip member (RFC 1952). Concatenated members form one file, which gzip, Python and pandas read as the
/// concatenated texts, so several threads can each compress their own runs. At most 4 GiB.
[[nodiscard]] inline std::string gzipped(std::string_view text) {
  constexpr int gzip = 15 + 16; // the largest window, and gzip's header
  SLUICE_ASSERT(text.size() < (std::size_t{1} << 32), "a text of less than 4 GiB");
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    std::abort(); // no memory; operator new would end the program, too
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data())); // zlib does not write to its input
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort(); // deflateBound guarantees room for all of it
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

} // namespace compared
