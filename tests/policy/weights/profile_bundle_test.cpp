// SPDX-License-Identifier: Apache-2.0
// The files of sluice-profile --measure: all or none, and never over a model's config.
#include "../../../examples/tools/profile/bundle.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

} // namespace

TEST_CASE("a bundle's files appear together and replace the old ones") {
  const sluice_test::TemporaryFolder here;
  const fs::path folder = here.path / "a" / "b";
  const auto all = [&](const std::string& text) {
    sluice::Expected<profiled::Bundle> bundle = profiled::Bundle::open(folder.string());
    REQUIRE_MESSAGE(bundle.has_value(), bundle.error().line());
    std::array<std::string, profiled::Bundle::names.size()> texts;
    for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = text + profiled::Bundle::names[i];
    const sluice::Status status = bundle->finish(texts);
    CHECK(status.ok());
  };
  for (const std::string text : {"a longer first ", "second "}) {
    all(text);
    CHECK(files_in(folder) == profiled::Bundle::names.size());
    for (const char* name : profiled::Bundle::names) CHECK(sluice_test::content(folder / name) == text + name);
  }
  { // stopped
    const sluice::Expected<profiled::Bundle> bundle = profiled::Bundle::open(folder.string());
    REQUIRE(bundle);
  }
  CHECK(files_in(folder) == profiled::Bundle::names.size());
  for (const char* name : profiled::Bundle::names)
    CHECK(sluice_test::content(folder / name) == std::string{"second "} + name);
  { // a table without rows is left out, and an earlier one would not belong to this measurement
    sluice::Expected<profiled::Bundle> bundle = profiled::Bundle::open(folder.string());
    REQUIRE(bundle);
    std::array<std::string, profiled::Bundle::names.size()> texts;
    texts.fill("third");
    texts.back().clear();
    const sluice::Status status = bundle->finish(texts);
    CHECK(status.ok());
  }
  CHECK(files_in(folder) == profiled::Bundle::names.size() - 1);
  CHECK_FALSE(fs::exists(folder / profiled::Bundle::names.back()));
}

TEST_CASE("an unfinished bundle leaves no new folder, and keeps an existing one") {
  const sluice_test::TemporaryFolder here;
  const fs::path made = here.path / "made", before = here.path / "before";
  fs::create_directory(before);
  for (const fs::path& folder : {made, before}) {
    const sluice::Expected<profiled::Bundle> bundle = profiled::Bundle::open(folder.string());
    REQUIRE(bundle);
    CHECK(fs::exists(folder));
  }
  CHECK_FALSE(fs::exists(made));
  CHECK(fs::exists(before));
  fs::create_directory(before / "link.csv"); // no file can have this name, which is detected before the long work
  const sluice::Expected<profiled::Bundle> none = profiled::Bundle::open(before.string());
  REQUIRE_FALSE(none);
  CHECK(none.error().where == "--out: " + (before / "link.csv").string());
  CHECK(files_in(before) == 1);
}

TEST_CASE("a bundle is not written into a model's folder") {
  const sluice_test::TemporaryFolder here;
  const std::string model = (here.path / "model").string(), other = (here.path / "other").string();
  CHECK(profiled::check_out(other, "tiny").ok());
  CHECK(profiled::check_out(other, model).ok());
  fs::create_directory(model);
  fs::create_directory(other);
  write(fs::path(model) / "config.json", "{}");
  fs::create_directory_symlink(model, here.path / "link");
  CHECK(profiled::check_out(other, model).ok());
  for (const std::string& out : {model, model + "/", model + "/../model", (here.path / "link").string()}) {
    const sluice::Status status = profiled::check_out(out, model);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().line().find("has the config.json of --model, which would be replaced") != std::string::npos);
  }
  fs::create_symlink(fs::path(model) / "config.json",
                     fs::path(other) / "config.json"); // writing would follow the link
  CHECK_FALSE(profiled::check_out(other, model).ok());
  CHECK(profiled::check_out(other, "tiny").ok());
  write(fs::path(other) / "model-00001-of-00002.safetensors", "");
  const sluice::Status weights = profiled::check_out(other, "tiny");
  REQUIRE_FALSE(weights.ok());
  CHECK(weights.error().line().find("has the config.json of model-00001-of-00002.safetensors") != std::string::npos);
}
