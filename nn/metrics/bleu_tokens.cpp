// The words of a line by mteval-v13a's rules.
#include "warptape/nn/bleu.h"

namespace wt::metrics {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }
// ASCII's punctuation and space without ' , - and the point.
bool stands_alone(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/' ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Pairs of neighbours that do not overlap, from the left, with what `join` makes of them. Bytes do
// for characters: what is asked for is ASCII, and a byte of another character is none of it.
template <class Fits, class Join>
std::string replace_pairs(const std::string& text, const Fits& fits, const Join& join) {
  std::string out;
  for (size_t i = 0; i < text.size();)
    if (i + 1 < text.size() && fits(text[i], text[i + 1])) {
      join(out, text[i], text[i + 1]);
      i += 2;
    } else {
      out += text[i++];
    }
  return out;
}

// Bytes of the white space that `text` begins with, of Unicode's and of ASCII's separators; 0:
// none.
size_t space_length(std::string_view text) {
  const u8 first = u8(text[0]);
  if (first < 0x80)
    return first == ' ' || (first >= 9 && first <= 13) || (first >= 28 && first <= 31);
  for (const std::string_view wide :
       {"\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
        "\xE2\x81\x9F", "\xE3\x80\x80"})
    if (text.starts_with(wide)) return wide.size();
  const bool quad = text.starts_with("\xE2\x80") && text.size() > 2 && u8(text[2]) >= 0x80 &&
                    u8(text[2]) <= 0x8A;  // U+2000 to U+200A
  return quad ? 3 : 0;
}

std::string_view without_spaces_behind(std::string_view line) {
  size_t end = 0;
  for (size_t at = 0; at < line.size();) {
    const size_t space = space_length(line.substr(at));
    at += space ? space : 1;
    if (!space) end = at;
  }
  return line.substr(0, end);
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t space = space_length(text.substr(at));
    if (space == 0) {
      if (!inside) words.emplace_back();
      words.back() += text[at];
    }
    inside = space == 0;
    at += inside ? 1 : space;
  }
  return words;
}

}  // namespace

std::vector<std::string> tokenize_13a(std::string_view line) {
  std::string text(without_spaces_behind(line));
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  for (const auto& [name, character] :
       {std::pair("&quot;", "\""), {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
    replace_all(text, name, character);
  std::string parted = " ";
  for (const char c : text)
    if (stands_alone(c))
      parted += {' ', c, ' '};
    else
      parted += c;
  parted += ' ';
  // A point stays in a word between digits alone, a hyphen everywhere but behind a digit.
  parted = replace_pairs(
      parted, [](char a, char b) { return !is_ascii_digit(a) && is_point(b); },
      [](std::string& out, char a, char b) {
        out += {a, ' ', b, ' '};
      });
  parted = replace_pairs(
      parted, [](char a, char b) { return is_point(a) && !is_ascii_digit(b); },
      [](std::string& out, char a, char b) {
        out += {' ', a, ' ', b};
      });
  parted = replace_pairs(
      parted, [](char a, char b) { return is_ascii_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) {
        out += {a, ' ', b, ' '};
      });
  return words_of(parted);
}

}  // namespace wt::metrics
