// SPDX-License-Identifier: Apache-2.0
// ModuleExpression: regular expressions over names of modules, as published quantisation configs use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::detail {

/// A subset of Python's regular expressions: characters, `.`, `\.` and other escaped signs, `\d`, `\w`, classes such as
/// [0-9], each with `*`, `+` or `?` behind it, alternatives, groups of them up to four deep, `^` and `$`.
///
/// A match begins where the name does and may end before it (Python's `re.match`). The positions that a part of the
/// expression can reach follow from those that the part before it reaches, so a match takes at most the product of both
/// lengths. std::regex was rejected: it recurses on its input and tries every way to match, so that an expression of a
/// file can overflow the stack or run for ever.
class ModuleExpression {
 public:
  static constexpr std::size_t longest = 512;

  /// Nothing if the text is longer than `longest` or outside the subset.
  static std::optional<ModuleExpression> parse(std::string_view text) {
    ModuleExpression read;
    if (text.size() > longest || !read.read_alternatives(text, read.whole_, 0) || !text.empty()) return std::nullopt;
    return read;
  }

  [[nodiscard]] bool matches(std::string_view name) const {
    Positions from(name.size() + 1);
    from[0] = true;
    for (const bool reached : after(whole_, from, name))
      if (reached) return true;
    return false;
  }

 private:
  static constexpr int deepest = 4;
  using Positions = std::vector<bool>; ///< before each character of the name, and behind the last

  struct Part;
  using Sequence = std::vector<Part>;
  using Alternatives = std::vector<Sequence>;
  enum class Kind : std::uint8_t { characters, group, begin, end };
  struct Part {
    Kind kind = Kind::characters;
    std::vector<std::pair<char, char>> ranges; ///< of characters, first and last
    bool inverted = false;
    bool none = false, several = false; ///< may be left out, may be repeated
    Alternatives group;

    [[nodiscard]] bool has(char c) const {
      for (const auto& [first, last] : ranges)
        if (first <= c && c <= last) return !inverted;
      return inverted;
    }
  };

  static constexpr std::string_view signs = "\\.^$|?*+()[]{}";

  /// The readers below take what they read from `text`; false: outside the subset.
  static bool read_escaped(std::string_view& text, Part& part) {
    if (text.empty()) return false;
    const char c = text.front();
    text.remove_prefix(1);
    if (c == 'd') {
      part.ranges.emplace_back('0', '9');
    } else if (c == 'w') {
      for (const auto& range : {std::pair{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}) part.ranges.push_back(range);
    } else if (signs.find(c) != std::string_view::npos || c == '-' || c == '_' || c == '/') {
      part.ranges.emplace_back(c, c);
    } else {
      return false;
    }
    return true;
  }
  static bool read_class(std::string_view& text, Part& part) {
    if (!text.empty() && text.front() == '^') {
      part.inverted = true;
      text.remove_prefix(1);
    }
    while (!text.empty() && text.front() != ']') {
      const char first = text.front();
      text.remove_prefix(1);
      if (first == '[') return false; // Python reserves it
      if (first == '\\') {
        if (!read_escaped(text, part)) return false;
        continue;
      }
      char last = first;
      if (text.size() > 1 && text[0] == '-' && text[1] != ']') {
        last = text[1];
        text.remove_prefix(2);
        if (last == '\\' || last < first) return false;
      }
      part.ranges.emplace_back(first, last);
    }
    if (text.empty() || part.ranges.empty()) return false;
    text.remove_prefix(1);
    return true;
  }
  static bool read_part(std::string_view& text, Part& part, int depth) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '(') {
      part.kind = Kind::group;
      if (text.substr(0, 2) == "?:") text.remove_prefix(2); // other groups with ? look ahead or behind
      if (!read_alternatives(text, part.group, depth + 1) || text.empty()) return false;
      text.remove_prefix(1);
    } else if (c == '^' || c == '$') {
      part.kind = c == '^' ? Kind::begin : Kind::end;
    } else if (c == '.') {
      part.inverted = true;
      part.ranges.emplace_back('\n', '\n');
    } else if (c == '\\') {
      if (!read_escaped(text, part)) return false;
    } else if (c == '[') {
      if (!read_class(text, part)) return false;
    } else if (signs.find(c) != std::string_view::npos) {
      return false;
    } else {
      part.ranges.emplace_back(c, c);
    }
    if (text.empty() || (text.front() != '*' && text.front() != '+' && text.front() != '?')) return true;
    part.none = text.front() != '+';
    part.several = text.front() != '?';
    text.remove_prefix(1);
    // A repeated group would take rounds; no published config has one.
    return part.kind == Kind::characters || (part.kind == Kind::group && !part.several);
  }
  static bool read_alternatives(std::string_view& text, Alternatives& into, int depth) {
    if (depth > deepest) return false;
    into.emplace_back();
    while (!text.empty() && text.front() != ')') {
      if (text.front() == '|') {
        text.remove_prefix(1);
        into.emplace_back();
      } else if (!read_part(text, into.back().emplace_back(), depth)) {
        return false;
      }
    }
    return true;
  }

  /// Where a match of these can end that begins at one of `from`.
  static Positions after(const Alternatives& any, const Positions& from, std::string_view name) {
    Positions reached(from.size());
    for (const Sequence& one : any) {
      Positions at = from;
      for (const Part& part : one) at = after(part, at, name);
      for (std::size_t p = 0; p < at.size(); ++p) reached[p] = reached[p] || at[p];
    }
    return reached;
  }
  static Positions after(const Part& part, const Positions& from, std::string_view name) {
    Positions reached = part.kind == Kind::group ? after(part.group, from, name) : Positions(from.size());
    if (part.kind == Kind::begin) reached[0] = from[0];
    if (part.kind == Kind::end) reached.back() = from.back();
    if (part.kind == Kind::characters)
      for (std::size_t p = 0; p < name.size(); ++p)
        if ((from[p] || (part.several && reached[p])) && part.has(name[p])) reached[p + 1] = true;
    for (std::size_t p = 0; part.none && p < from.size(); ++p) reached[p] = reached[p] || from[p];
    return reached;
  }

  Alternatives whole_;
};

} // namespace sluice::detail
