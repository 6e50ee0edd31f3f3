// SPDX-License-Identifier: Apache-2.0
// FileLayer: the few operations on one folder's files that a RecordStore needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// An abstract class, so that tests can fail and cut each operation: no test can make a real disk do that. PosixFiles
/// (posix_files.hpp) is the real one. Functions return 0, or the errno of what went wrong.
class FileLayer {
 public:
  struct Entry {
    std::string name;
    std::int64_t bytes = 0;
    std::int64_t used_ns = 0; ///< when it was last written or touched
  };

  /// Not an errno: the file does not have the length that was asked for.
  static constexpr int other_length = -1;

  FileLayer() = default;
  FileLayer(const FileLayer&) = delete;
  FileLayer& operator=(const FileLayer&) = delete;
  virtual ~FileLayer() = default;

  /// The folder's regular files, in any order.
  [[nodiscard]] virtual int list(std::vector<Entry>& into) = 0;
  /// Writes a whole new file in the order of `parts`, and waits until the disk has its bytes. After an error the file
  /// may be there in part.
  [[nodiscard]] virtual int write(const std::string& name, std::span<const std::span<const std::byte>> parts) = 0;
  /// Gives a file another name, and replaces a file that has it.
  [[nodiscard]] virtual int rename(const std::string& from, const std::string& to) = 0;
  /// Waits until the disk has the folder's names.
  [[nodiscard]] virtual int sync_folder() = 0;
  /// Reads a file of `bytes` bytes, from byte `from` on, into `parts` in their order. If the file has another length,
  /// returns `other_length`: a reader allocates by what it expects, not by what a damaged disk claims.
  [[nodiscard]] virtual int read(const std::string& name, std::int64_t bytes, std::int64_t from,
                                 std::span<const std::span<std::byte>> parts) = 0;
  [[nodiscard]] virtual int remove(const std::string& name) = 0;
  /// Notes that the file is used now: after every file that was written or touched before.
  [[nodiscard]] virtual int touch(const std::string& name) = 0;
};

} // namespace sluice
