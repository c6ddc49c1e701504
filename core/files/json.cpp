#include "warptape/core/files/json.h"

#include <cmath>
#include <limits>

#include "warptape/core/files/decimal.h"
#include "warptape/core/input_file.h"

namespace wt {
namespace {

void encode_utf8(u32 code, std::string& out) {
  const auto put = [&](u32 byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 63));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 63));
    put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

// Unicode table 3-7.
std::size_t utf8_length(std::string_view s) {
  const auto at = [&](std::size_t i) { return i < s.size() ? static_cast<u8>(s[i]) : 0u; };
  const auto tail = [&](std::size_t i) { return at(i) >= 0x80 && at(i) <= 0xBF; };
  const u32 lead = at(0), second = at(1);
  if (lead < 0x80) return s.empty() ? 0 : 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const u32 low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
    return second >= low && second <= high && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const u32 low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

std::string json_quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (length != 1) {
      out += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<u8>(c) < 0x20 || c == 0x7f) {
      out += {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
    } else {
      out += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  char text[32];
  // Plain digits where people expect them: 0.0003 and 1000000, not 3e-04 and 1e+06.
  const double size = std::abs(value);
  const bool plain = size >= 1e-5 && size < 1e15;
  const auto format = plain ? std::chars_format::fixed : std::chars_format::general;
  const auto end = std::to_chars(text, text + sizeof text, value, format).ptr;
  return std::string(text, end);
}

JsonObject& JsonObject::add_raw(std::string_view key, std::string_view json) {
  if (!body_.empty()) body_ += ',';
  body_ += json_quote(key);
  body_ += ':';
  body_ += json;
  return *this;
}

double JsonScalar::number() const {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (kind == Kind::string && text == "Infinity") return inf;
  if (kind == Kind::string && text == "-Infinity") return -inf;
  double value = std::numeric_limits<double>::quiet_NaN();
  if (kind == Kind::number) {
    const auto r = detail::decimal_from_chars(text.data(), text.data() + text.size(), value);
    if (r.ec == std::errc::result_out_of_range) value = text[0] == '-' ? -inf : inf;
  }
  return value;
}

JsonReader::JsonReader(std::string_view text, std::string source, u64 base, ParseLimits limits)
    : text_(text), source_(std::move(source)), base_(base), limits_(limits) {}

void JsonReader::fail(const std::string& message) const { data_error(source_, offset(), message); }

char JsonReader::peek() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      if (c == 0) fail("zero byte in JSON");
      return c;
    }
    ++pos_;
  }
  return 0;
}

bool JsonReader::accept(char c) {
  if (peek() != c) return false;
  ++pos_;
  return true;
}

void JsonReader::expect(char c) {
  const char next = peek();
  if (next != c) {
    fail(str("expected '", c, "', found ",
             next == 0 ? "the end" : "'" + printable({&next, 1}) + "'"));
  }
  ++pos_;
}

std::string JsonReader::string() {
  expect('"');
  std::string out;
  for (;;) {
    if (pos_ >= text_.size()) fail("the string does not end");
    const char c = text_[pos_];
    if (c == '"') break;
    if (out.size() >= limits_.max_string) {
      fail(str("the string is longer than the limit of ", limits_.max_string, " bytes"));
    }
    if (static_cast<u8>(c) < 0x20) fail("control character in a string");
    if (c == '\\') {
      append_escape(out);
    } else if (static_cast<u8>(c) >= 0x80) {
      append_multibyte(out);
    } else {
      out += c;
      ++pos_;
    }
  }
  ++pos_;
  return out;
}

void JsonReader::append_multibyte(std::string& out) {
  const std::size_t length = utf8_length(text_.substr(pos_));
  if (length == 0) fail("bytes that are not UTF-8 in a string");
  out += text_.substr(pos_, length);
  pos_ += length;
}

void JsonReader::append_escape(std::string& out) {
  static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  ++pos_;
  const char c = pos_ < text_.size() ? text_[pos_] : 0;
  const std::size_t simple = c == 0 ? kFrom.npos : kFrom.find(c);
  if (simple != kFrom.npos) {
    out += kTo[simple];
    ++pos_;
    return;
  }
  if (c != 'u') fail("unknown escape in a string");
  u32 code = hex_escape();
  if (code >= 0xD800 && code <= 0xDBFF && text_.substr(pos_, 2) == "\\u") {
    ++pos_;
    const u32 low = hex_escape();
    if (low < 0xDC00 || low > 0xDFFF) fail("lone surrogate in a string");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xD800 && code <= 0xDFFF) {
    fail("lone surrogate in a string");
  }
  encode_utf8(code, out);
}

// Reads uXXXX, the position being on the u.
u32 JsonReader::hex_escape() {
  u32 code = 0;
  const std::string_view digits = text_.substr(pos_ + 1, 4);
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() != 4 || result.ec != std::errc{} || result.ptr != digits.data() + 4) {
    fail("\\u needs four hexadecimal digits");
  }
  pos_ += 5;
  return code;
}

u64 JsonReader::unsigned_int(u64 max) {
  const std::string_view digits = number_text();
  u64 value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ptr != digits.data() + digits.size() || result.ec != std::errc{} || value > max) {
    pos_ -= digits.size();
    fail(str("expected an integer from 0 to ", max, ", found ", printable(digits, 40)));
  }
  return value;
}

// Takes one number of JSON's grammar.
std::string_view JsonReader::number_text() {
  peek();
  const std::size_t begin = pos_;
  const auto at = [&] { return pos_ < text_.size() ? text_[pos_] : '\0'; };
  const auto digits = [&] {
    if (!is_digit(at())) fail("expected a digit");
    while (is_digit(at())) ++pos_;
  };
  if (at() == '-') ++pos_;
  const bool zero = at() == '0';
  digits();
  if (zero && pos_ - begin > (text_[begin] == '-' ? 2u : 1u)) fail("a number with a leading zero");
  if (at() == '.') ++pos_, digits();
  if (at() == 'e' || at() == 'E') {
    ++pos_;
    if (at() == '+' || at() == '-') ++pos_;
    digits();
  }
  return text_.substr(begin, pos_ - begin);
}

JsonScalar JsonReader::scalar() {
  const char c = peek();
  if (c == '"') return {JsonScalar::Kind::string, string()};
  if (c == '-' || is_digit(c)) return {JsonScalar::Kind::number, std::string(number_text())};
  for (const std::string_view word : {"null", "true", "false"}) {
    if (text_.substr(pos_, word.size()) != word) continue;
    pos_ += word.size();
    const bool null = word == "null";
    return {null ? JsonScalar::Kind::null : JsonScalar::Kind::boolean, std::string(word)};
  }
  fail("expected a JSON value");
}

void JsonReader::skip_value() {
  std::string open;  // the brackets that wait for their end
  for (;;) {
    const char c = peek();
    if (c == '{' || c == '[') {
      if (open.size() >= limits_.max_depth) {
        fail(str("nested deeper than ", limits_.max_depth, " levels"));
      }
      ++pos_;
      open += c == '{' ? '}' : ']';
      if (peek() != open.back()) {
        if (c == '{') string(), expect(':');
        continue;
      }
    } else {
      scalar();
    }
    while (!open.empty() && accept(open.back())) open.pop_back();
    if (open.empty()) return;
    expect(',');
    if (open.back() == '}') string(), expect(':');
  }
}

void JsonReader::finish() {
  if (peek() != 0) fail("unexpected text after the JSON value");
}

}  // namespace wt
