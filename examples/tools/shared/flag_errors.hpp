// SPDX-License-Identifier: Apache-2.0
// parse_or_say: a command line read by CLI11, and what is wrong with it as one line of the form of all others.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A flag's value that its reader refuses: passes through CLI11 as it is.
class RefusedFlag : public CLI::ParseError {
 public:
  explicit RefusedFlag(sluice::Error why)
      : CLI::ParseError(why.line(), CLI::ExitCodes::ValidationError), why_(std::move(why)) {}
  [[nodiscard]] const sluice::Error& why() const { return why_; }

 private:
  sluice::Error why_;
};

inline sluice::Error wrong_flag(std::string where, std::string what, std::string expected) {
  return {sluice::ErrorCode::bad_input, std::move(where), std::move(what), std::move(expected)};
}

/// Translates what CLI11 refuses. Its exceptions have a kind and a text. The text names the option, whose values tell
/// the rest; everything else in the text differs between versions of CLI11, and is not for users.
class FlagErrors {
 public:
  explicit FlagErrors(const CLI::App& app) : app_(app) {}

  /// A value of another type, or out of bounds.
  [[nodiscard]] sluice::Error value(const CLI::Error& error) const {
    const CLI::Option* option = named_in(error.what()).front();
    if (option == nullptr) return other(error);
    return wrong_flag(option->get_name(), "it is '" + sluice::excerpt(values(*option, ",")) + "'", kind_of(*option));
  }
  /// A value too many, or none.
  [[nodiscard]] sluice::Error count(const CLI::Error& error) const {
    const CLI::Option* option = named_in(error.what()).front();
    if (option == nullptr) return other(error);
    const std::size_t given = option->results().size();
    if (given == 0) return wrong_flag(option->get_name(), "it has no value", kind_of(*option));
    return wrong_flag(option->get_name(),
                      "there are " + std::to_string(given) + " values, '" +
                          sluice::excerpt(values(*option, "' and '"), 80) + "'",
                      "the flag once, with one value");
  }
  /// A flag that excludes or needs another one.
  [[nodiscard]] sluice::Error pair(const CLI::Error& error, const char* what, const char* expected) const {
    const std::vector<const CLI::Option*> named = named_in(error.what());
    if (named.size() < 2) return other(error);
    return wrong_flag(named[0]->get_name(), what + named[1]->get_name(), expected);
  }
  /// A word that no flag takes, among these words.
  [[nodiscard]] sluice::Error word(const std::vector<std::string>& words) const {
    for (const std::string& word : words)
      if (const std::string flag = flag_of(word); !flag.empty() && app_.get_option_no_throw(flag) == nullptr)
        return unknown("", flag, flag);
    const std::vector<std::string> rest = app_.remaining();
    return wrong_flag("command line",
                      "there is a word too many" +
                          (rest.empty() ? std::string{} : ", '" + sluice::excerpt(rest.front()) + "'"),
                      "flags and their values");
  }
  /// A line of the file of flags that is no flag's.
  [[nodiscard]] sluice::Error line(const CLI::Error& error) const {
    const std::string said = error.what(), mark = "not able to parse ";
    const std::size_t at = said.find(mark);
    if (at == std::string::npos) // "NAME: This option is not allowed in a configuration file"
      return wrong_flag(file_flag(), "'" + sluice::excerpt(said.substr(0, said.find(':'))) + "' cannot be in the file",
                        "it on the command line");
    const std::string name = said.substr(at + mark.size());
    return unknown(file_flag() + ": ", name, "--" + name);
  }
  [[nodiscard]] sluice::Error file() const {
    return wrong_flag(file_flag(),
                      "the file '" + sluice::excerpt(values(*app_.get_config_ptr(), ","), 160) + "' cannot be read",
                      "a file of flags, as 'port = 8080'");
  }
  /// Kinds that no flag of these programs can cause, and texts of CLI11 that name none of its options.
  [[nodiscard]] static sluice::Error other(const CLI::Error& error) {
    return wrong_flag("command line", sluice::excerpt(error.what(), 160), "the flags that --help lists");
  }

 private:
  /// The flag's name, from "--flag" and "--flag=value"; empty for a word that is no flag, such as a negative number.
  static std::string flag_of(std::string_view word) {
    if (word.size() < 2 || word == "--" || word[0] != '-' || (word[1] >= '0' && word[1] <= '9') || word[1] == '.')
      return {};
    return std::string{word.substr(0, word.find('='))};
  }
  static std::string values(const CLI::Option& option, std::string_view between) {
    std::string all;
    for (const std::string& value : option.results()) all += (all.empty() ? "" : std::string{between}) + value;
    return all;
  }
  /// The options that a text names, in its order; one that is null if there are none.
  [[nodiscard]] std::vector<const CLI::Option*> named_in(std::string_view text) const {
    std::vector<const CLI::Option*> named;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(" :"), text.size());
      const std::string word{text.substr(0, end)};
      if (const CLI::Option* option = word.starts_with("-") ? app_.get_option_no_throw(word) : nullptr)
        named.push_back(option);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return named.empty() ? std::vector<const CLI::Option*>{nullptr} : named;
  }
  /// What a flag expects, from CLI11's name of its type: "INT:INT in [2 - 128]", "TEXT:{one,other}", "SIZE".
  static std::string kind_of(const CLI::Option& option) {
    if (option.get_expected_max() == 0) return "no value, or true or false";
    const std::string type = option.get_type_name(), kind = type.substr(0, type.find(':'));
    const std::string bounds = kind.size() < type.size() ? type.substr(kind.size() + 1) : "";
    if (bounds.starts_with('{')) return "one of " + bounds.substr(1, bounds.size() - 2);
    std::string said = kind == "INT"     ? "a whole number"
                       : kind == "UINT"  ? "a whole number of at least 0"
                       : kind == "FLOAT" ? "a number"
                                         : option.get_name() + " " + kind;
    if (bounds == "POSITIVE") said += " above 0";
    if (const std::size_t range = bounds.find('['); range != std::string::npos) said += " in " + bounds.substr(range);
    return said + (option.get_delimiter() == ',' ? ", or several with commas" : "");
  }
  [[nodiscard]] sluice::Error unknown(const std::string& where, const std::string& name,
                                      const std::string& flag) const {
    std::vector<std::string> known;
    for (const CLI::Option* option : app_.get_options())
      for (const std::string& one : option->get_lnames()) known.push_back("--" + one);
    return wrong_flag(where + sluice::excerpt(name), "there is no such flag" + sluice::did_you_mean(flag, known),
                      "the flags that --help lists");
  }
  [[nodiscard]] std::string file_flag() const { return app_.get_config_ptr()->get_name(); }

  const CLI::App& app_;
};

/// Reads the words after the program's name. Returns what --help or --version asks to print; empty: continue.
[[nodiscard]] inline sluice::Expected<std::string> read_flags(CLI::App& app, const std::vector<std::string>& words) {
  const FlagErrors errors(app);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend())); // CLI11 expects a reversed vector
  } catch (const RefusedFlag& error) {
    return error.why();
  } catch (const CLI::Success& error) {
    std::ostringstream shown;
    app.exit(error, shown, shown);
    return shown.str();
  } catch (const CLI::ExtrasError&) {
    return errors.word(words);
  } catch (const CLI::ConfigError& error) {
    return errors.line(error);
  } catch (const CLI::FileError&) {
    return errors.file();
  } catch (const CLI::ExcludesError& error) {
    return errors.pair(error, "not with ", "one of the two");
  } catch (const CLI::RequiresError& error) {
    return errors.pair(error, "not without ", "both, or neither");
  } catch (const CLI::ArgumentMismatch& error) {
    return errors.count(error);
  } catch (const CLI::ConversionError& error) {
    return errors.value(error);
  } catch (const CLI::ValidationError& error) {
    return errors.value(error);
  } catch (const CLI::ParseError& error) {
    return FlagErrors::other(error);
  }
  return std::string{};
}

/// Reads a command line. Empty: continue; otherwise the program's exit status, with all output already printed.
[[nodiscard]] inline std::optional<int> parse_or_say(CLI::App& app, int argc, char** argv) {
  if (app.get_name().empty()) app.name(std::filesystem::path{argv[0]}.filename().string());
  const sluice::Expected<std::string> asked =
      read_flags(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  if (!asked) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), asked.error().line().c_str());
    return 2;
  }
  if (asked->empty()) return std::nullopt;
  std::fputs(asked->c_str(), stdout);
  return 0;
}
