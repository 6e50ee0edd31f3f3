// SPDX-License-Identifier: Apache-2.0
// The docs name files, links, layers, systems and generators that exist. (Their code is compiled: see CMakeLists.txt.)
#include "sluice/workload/generator.hpp"
#include "sluice/workload/session_generator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> documents() {
  std::vector<fs::path> all{"README.md"};
  for (const char* folder : {"docs", "examples", "tests", "bench"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".md") all.push_back(entry.path());
  return all;
}

/// Fenced blocks whose info string begins with `info`: the rest of the info string, and the content.
struct Block {
  std::string rest, content;
};
std::vector<Block> blocks(const std::string& text, const std::string& info) {
  std::vector<Block> found;
  const std::string fence = "\n```" + info;
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at + 1)) {
    const std::size_t begin = at + fence.size(), line = text.find('\n', begin), end = text.find("\n```", line);
    found.push_back({text.substr(begin, line - begin), text.substr(line + 1, end - line)});
  }
  return found;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> all;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) all.push_back((*it)[1]);
  return all;
}

} // namespace

TEST_CASE("code that a page quotes is in the file that it names") {
  std::size_t quoted = 0;
  for (const fs::path& document : documents())
    for (const char* language : {"cpp from=", "cmake from="})
      for (const Block& block : blocks(read(document), language)) {
        CAPTURE(document.string());
        CHECK_MESSAGE(contains(read(block.rest), block.content), block.content);
        ++quoted;
      }
  CHECK(quoted >= 5); // those in the walk through the first policy
}

TEST_CASE("links refer to files") {
  for (const fs::path& document : documents())
    for (std::string target : matches(read(document), R"(\]\(([^)#\s]+)(#[^)]*)?\))")) {
      if (contains(target, "://") || target.rfind("docs/images/", 0) == 0) continue; // a run makes the picture
      CAPTURE(document.string());
      CHECK_MESSAGE(fs::exists(document.parent_path() / target), target);
    }
}

TEST_CASE("README is short, and the index of docs/ has every page once") {
  std::istringstream words(read("README.md"));
  CHECK(std::distance(std::istream_iterator<std::string>(words), {}) <= 900);
  const std::string index = read("docs/README.md");
  for (const fs::directory_entry& entry : fs::directory_iterator("docs")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".md" || name == "README.md") continue;
    const std::size_t row = index.find("| [" + name + "](" + name + ") |");
    CHECK_MESSAGE(row != std::string::npos, name);
    CHECK_MESSAGE(index.find("| [" + name + "]", row + 1) == std::string::npos, name, " is there twice");
  }
}

TEST_CASE("the guide has a line for every layer, and the page of the systems a row and a section for every system") {
  const std::string architecture = read("docs/architecture.md"), systems_page = read("docs/systems.md");
  CHECK_MESSAGE(std::count(architecture.begin(), architecture.end(), '\n') <= 200, "the guide stays a guide");
  for (const fs::directory_entry& folder : fs::directory_iterator("include/sluice"))
    if (folder.is_directory())
      CHECK_MESSAGE(contains(architecture, "`" + folder.path().filename().string() + "`"), folder.path().string());
  std::size_t systems = 0;
  for (const fs::directory_entry& header : fs::recursive_directory_iterator("include/sluice/engine/systems"))
    for (const std::string& alias :
         matches(header.is_regular_file() ? read(header.path()) : std::string{}, R"(using (\w+ =[^;]+);)")) {
      const std::string name = alias.substr(0, alias.find(' '));
      const std::string type = std::regex_replace(alias.substr(alias.find('=') + 1), std::regex(R"(\s+)"), " ");
      const std::size_t walk = systems_page.find("\n## ");
      CHECK_MESSAGE(contains(systems_page, "| `" + name + "` | `" + type.substr(1) + "`"), alias);
      CHECK_MESSAGE(systems_page.find("`" + name + "`", walk) != std::string::npos, name);
      ++systems;
    }
  CHECK(systems >= 13);
}

TEST_CASE("the workloads that the pages generate can be generated") {
  std::size_t specs = 0;
  for (const fs::path& document : documents())
    for (const std::string& spec : matches(read(document), R"(--generate '([^']+)')")) {
      CAPTURE(document.string());
      const auto check = [&](const auto& parsed) {
        CHECK_MESSAGE(parsed.has_value(), (parsed ? spec : parsed.error().line()));
      };
      if (sluice::describes_sessions(spec))
        check(sluice::parse_sessions(spec));
      else
        check(sluice::parse_generator(spec));
      ++specs;
    }
  CHECK(specs >= 5);
}
