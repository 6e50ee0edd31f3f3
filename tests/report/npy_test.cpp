// SPDX-License-Identifier: Apache-2.0
#include "sluice/report/unfinished_file.hpp"

#include "support/program.hpp"
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

using namespace sluice;
using sluice_test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>{stream}, std::istreambuf_iterator<char>{}};
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

NpyWriter writer_of(const fs::path& path, std::int64_t columns) {
  Expected<NpyWriter> writer = NpyWriter::create(path.string(), columns);
  if (!writer) FAIL(writer.error().line());
  return std::move(*writer);
}

} // namespace

TEST_CASE("a NumPy file has its format's header, followed by the rows") {
  const TemporaryFolder folder;
  std::vector<float> values(12);
  std::iota(values.begin(), values.end(), -2.5F);
  const fs::path path = folder.path / "logits.npy";
  NpyWriter writer = writer_of(path, 4);
  CHECK(writer.append(std::span(values).first(4)).ok());
  CHECK(writer.append({}).ok());
  CHECK(writer.append(std::span(values).subspan(4)).ok());
  CHECK(writer.rows() == 3);
  CHECK_FALSE(fs::exists(path));
  CHECK(writer.finish().ok());
  CHECK(files_in(folder.path) == 1);

  const std::string text = text_of(path);
  REQUIRE(text.size() == 128 + sizeof(float) * values.size());
  CHECK(text.substr(0, 6) == "\x93NUMPY");
  CHECK(text[6] == 1);
  CHECK(text[7] == 0);
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(text[8])) +
                      256 * static_cast<std::size_t>(static_cast<unsigned char>(text[9]));
  CHECK((10 + length) % 64 == 0);
  CHECK(10 + length == 128);
  const std::string header = text.substr(10, length);
  CHECK(header.back() == '\n');
  CHECK(header.find("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  ") == 0);
  CHECK(std::memcmp(text.data() + 128, values.data(), sizeof(float) * values.size()) == 0);

  NpyWriter none = writer_of(folder.path / "none.npy", 7);
  CHECK(none.finish().ok());
  CHECK(text_of(folder.path / "none.npy").find("(0, 7)") != std::string::npos);
}

TEST_CASE("an existing file stays until the new one is complete, and is then replaced") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "a.npy";
  std::ofstream(path) << "old";
  {
    NpyWriter dropped = writer_of(path, 1);
    CHECK(dropped.append(std::vector<float>{1}).ok());
  }
  CHECK(text_of(path) == "old");
  CHECK(files_in(folder.path) == 1);
  NpyWriter writer = writer_of(path, 1);
  CHECK(writer.append(std::vector<float>{1, 2}).ok());
  CHECK(text_of(path) == "old");
  CHECK(writer.finish().ok());
  CHECK(text_of(path).size() == 128 + 8);
  CHECK(files_in(folder.path) == 1);
}

TEST_CASE("without support for unnamed files, a file has the name unfinished until it is complete") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "a";
  std::ofstream(path) << "old";
  const std::vector<std::byte> bytes(3, std::byte{'n'});
  const auto create = [&] { return UnfinishedFile::create(path.string(), false); };
  {
    Expected<UnfinishedFile> dropped = create();
    REQUIRE(dropped);
    CHECK(dropped->write(0, bytes).ok());
    CHECK(fs::exists(path.string() + "." + std::to_string(::getpid()) + ".unfinished"));
  }
  CHECK(files_in(folder.path) == 1);
  CHECK(text_of(path) == "old");
  Expected<UnfinishedFile> file = create();
  REQUIRE(file);
  CHECK(file->write(0, bytes).ok());
  CHECK(text_of(path) == "old");
  CHECK(file->finish().ok());
  CHECK(text_of(path) == "nnn");
  CHECK(files_in(folder.path) == 1);
}

TEST_CASE("writing to a link writes its target, and the link stays") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path / "there");
  const fs::path target = folder.path / "there" / "target.npy", link = folder.path / "link.npy";
  fs::create_symlink("there/target.npy", folder.path / "second");
  fs::create_symlink(folder.path / "second", link);
  CHECK(UnfinishedFile::target(link.string()) == target.string());
  for (int written = 0; written < 2; ++written) { // a missing target, and an existing one
    NpyWriter writer = writer_of(link, 1);
    CHECK(writer.append(std::vector<float>(static_cast<std::size_t>(written) + 1)).ok());
    CHECK(writer.finish().ok());
    CHECK(fs::is_symlink(link));
    CHECK_FALSE(fs::is_symlink(target));
    CHECK(text_of(target).size() == 128 + 4 * (static_cast<std::size_t>(written) + 1));
  }
  fs::create_symlink("round", folder.path / "round");
  const Expected<UnfinishedFile> round = UnfinishedFile::create((folder.path / "round").string());
  CHECK_FALSE(round.has_value());
  CHECK(fs::is_symlink(folder.path / "round"));
}

TEST_CASE("a program that is killed while it writes leaves no file") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "a.npy";
  std::size_t named = 0;
  {
    const NpyWriter writer = writer_of(path, 1);
    named = files_in(folder.path); // 1 on a file system without unnamed files
  }
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Expected<NpyWriter> writer = NpyWriter::create(path.string(), 1024);
    if (writer && writer->append(std::vector<float>(1 << 20)).ok()) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(files_in(folder.path) == named);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("an output that cannot be written is reported before any computation") {
  const TemporaryFolder folder;
  CHECK(NpyWriter::create(folder.path.string(), 1).error().what == "this is no regular file");
  CHECK(NpyWriter::create("/dev/null", 1).error().what == "this is no regular file");
  const std::string nowhere = (folder.path / "none" / "a.npy").string();
  CHECK(NpyWriter::create(nowhere, 1).error().line() ==
        nowhere + ": the file cannot be made: No such file or directory; expected a folder that can be written to");
}
