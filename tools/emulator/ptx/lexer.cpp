#include "ptx/lexer.h"

#include <array>
#include <bit>
#include <charconv>
#include <stdexcept>

namespace emu::ptx {
namespace {

enum : u8 { kStart = 1, kRest = 2, kDigit = 4, kBlank = 8, kBrace = 16 };

// What a character can be. kBrace: what skip_braces() must stop at.
constexpr std::array<u8, 256> kClass = [] {
  std::array<u8, 256> c{};
  for (char x = 'a'; x <= 'z'; ++x) c[u8(x)] = kStart | kRest;
  for (char x = 'A'; x <= 'Z'; ++x) c[u8(x)] = kStart | kRest;
  for (char x = '0'; x <= '9'; ++x) c[u8(x)] = kRest | kDigit;
  c['_'] = c['$'] = kStart | kRest;
  c['%'] = kStart;
  for (char x : {' ', '\t', '\r', '\f', '\v'}) c[u8(x)] = kBlank;
  for (char x : {'{', '}', '"', '/', '\n'}) c[u8(x)] |= kBrace;
  return c;
}();

bool is(char c, u8 classes) { return (kClass[u8(c)] & classes) != 0; }

template <class Number>
bool parse_all(std::string_view digits, Number* out, int base) {
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, *out, base);
  return !digits.empty() && result.ec == std::errc() && result.ptr == end;
}

}  // namespace

void fail_at(u32 line, const std::string& what) {
  throw std::runtime_error("PTX line " + std::to_string(line) + ": " + what);
}

void Lexer::unexpected(const std::string& wanted) {
  skip_blank();
  if (at_ >= text_.size()) fail("expected " + wanted + ", got the end of the text");
  u64 end = at_ + 1;
  while (end < text_.size() && is(text_[end], kRest) && end < at_ + 60) ++end;
  fail("expected " + wanted + ", got '" + std::string(text_.substr(at_, end - at_)) + "'");
}

void Lexer::skip_comment() {
  if (text_[at_ + 1] == '/') {
    const u64 end = text_.find('\n', at_);
    at_ = end == text_.npos ? text_.size() : end;  // the newline is counted by the caller
    return;
  }
  const u64 end = text_.find("*/", at_ + 2);
  if (end == text_.npos) fail("a comment without its end");
  for (; at_ < end; ++at_) line_ += text_[at_] == '\n';
  at_ += 2;
}

void Lexer::skip_blank() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (is(c, kBlank)) {
      ++at_;
    } else if (c == '/' && (peek_second() == '/' || peek_second() == '*')) {
      skip_comment();
    } else {
      return;
    }
  }
}

char Lexer::peek() {
  skip_blank();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Lexer::at_number() {
  const char c = peek();
  return is(c, kDigit) || (c == '-' && is(peek_second(), kDigit));
}

bool Lexer::take(char c) {
  if (peek() != c) return false;
  ++at_;
  return true;
}

void Lexer::expect(char c) {
  if (!take(c)) unexpected(std::string("'") + c + "'");
}

std::string_view Lexer::name() {
  if (!is(peek(), kStart)) unexpected("a name");
  const u64 begin = at_++;
  while (at_ < text_.size() && is(text_[at_], kRest)) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view Lexer::directive() {
  expect('.');
  const u64 begin = at_;
  while (at_ < text_.size() && is(text_[at_], kRest)) ++at_;
  if (at_ == begin) unexpected("a directive");
  return text_.substr(begin, at_ - begin);
}

void Lexer::opcode_rest(std::vector<std::string_view>* parts) {
  while (take('.')) {
    const u64 begin = at_;
    while (at_ < text_.size()) {
      if (is(text_[at_], kRest)) {
        ++at_;
      } else if (text_.substr(at_, 2) == "::") {
        at_ += 2;
      } else {
        break;
      }
    }
    if (at_ == begin) unexpected("a part of an opcode");
    parts->push_back(text_.substr(begin, at_ - begin));
  }
}

std::string Lexer::string() {
  expect('"');
  const u64 end = text_.find('"', at_);
  if (end == text_.npos) fail("a string without its end");
  std::string s(text_.substr(at_, end - at_));
  at_ = end + 1;
  return s;
}

Constant Lexer::constant() {
  const bool minus = take('-');
  if (!minus) take('+');
  Constant c = unsigned_constant();
  if (!minus) return c;
  if (c.type == Type::f32) {
    c.bits ^= u64(1) << 31;
  } else if (c.type == Type::f64) {
    c.bits ^= u64(1) << 63;
  } else {
    c.bits = ~c.bits + 1;
    c.type = Type::s64;
  }
  return c;
}

Constant Lexer::unsigned_constant() {
  if (!is(peek(), kDigit)) unexpected("a number");
  const u64 begin = at_;
  while (at_ < text_.size() && is(text_[at_], kRest)) ++at_;
  std::string_view word = text_.substr(begin, at_ - begin);
  const char mark = word.size() > 1 && word[0] == '0' ? char(word[1] | 0x20) : '\0';
  Constant c;
  if ((mark == 'f' && word.size() == 10) || (mark == 'd' && word.size() == 18)) {
    c.type = mark == 'f' ? Type::f32 : Type::f64;
    if (parse_all(word.substr(2), &c.bits, 16)) return c;
  } else if (mark != 'x' &&
             (text_.substr(at_, 1) == "." || word.find_first_of("eE") != word.npos)) {
    // A decimal float: rare, and never written by nvcc.
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), text_.data() + text_.size(), value);
    if (error == std::errc()) {
      at_ = u64(end - text_.data());
      c.type = Type::f64;
      c.bits = std::bit_cast<u64>(value);
      return c;
    }
  } else {
    std::string_view digits = word;
    const bool is_unsigned = digits.back() == 'U';
    if (is_unsigned) digits.remove_suffix(1);
    const int base = mark == 'x' ? 16 : mark == 'b' ? 2 : digits.size() > 1 && mark ? 8 : 10;
    if (base == 16 || base == 2) digits.remove_prefix(2);
    if (parse_all(digits, &c.bits, base)) {
      if (is_unsigned || c.integer() < 0) c.type = Type::u64;
      return c;
    }
  }
  fail("not a number: " + std::string(word));
}

i64 Lexer::integer() {
  const Constant c = constant();
  if (c.is_float()) fail("expected an integer, got a float");
  return c.integer();
}

u32 Lexer::count() {
  const i64 value = integer();
  if (value < 0 || value > i64(~u32(0))) fail("a number out of range: " + std::to_string(value));
  return u32(value);
}

void Lexer::skip_parentheses() {
  expect('(');
  for (u32 depth = 1; depth > 0;) {
    const char c = peek();
    if (c == '\0') fail("a ( without its )");
    depth += c == '(';
    depth -= c == ')';
    ++at_;
  }
}

void Lexer::skip_braces(bool may_end) {
  expect('{');
  const u32 opened = line_;
  for (u32 depth = 1; depth > 0;) {
    while (at_ < text_.size() && !is(text_[at_], kBrace)) ++at_;
    if (at_ >= text_.size()) {
      if (may_end) return;
      fail_at(opened, "a { without its }");
    }
    switch (text_[at_]) {
      case '{':
        ++depth;
        break;
      case '}':
        --depth;
        break;
      case '\n':
        ++line_;
        break;
      case '"':
        string();
        continue;
      default:
        if (peek_second() != '/' && peek_second() != '*') break;
        skip_comment();
        continue;
    }
    ++at_;
  }
}

}  // namespace emu::ptx
