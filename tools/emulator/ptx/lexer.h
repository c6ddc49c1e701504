// The words of PTX, taken from the text as the parsers ask for them: nothing is stored, so finding
// the functions of a module costs one look at each byte.
#pragma once
#include <string_view>

#include "ptx/syntax.h"

namespace emu::ptx {

// Throws std::runtime_error("PTX line N: what").
[[noreturn]] void fail_at(u32 line, const std::string& what);

// A literal: s64, u64 (U suffix, or too large for s64), f32 or f64.
struct Constant {
  Type type = Type::s64;
  u64 bits = 0;
  i64 integer() const { return static_cast<i64>(bits); }
  bool is_float() const { return type == Type::f32 || type == Type::f64; }
};

class Lexer {
 public:
  // Reads text[at, end); the place `at` is in line `line`.
  Lexer(std::string_view text, u64 at, u64 end, u32 line)
      : text_(text.substr(0, end)), at_(at), line_(line) {}

  char peek();  // the next character that is not blank or comment; 0 at the end
  char peek_second() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }
  bool at_number();  // a digit, or a minus and a digit
  bool take(char c);
  void expect(char c);
  std::string_view name();       // [A-Za-z_$%][A-Za-z0-9_$]*
  std::string_view directive();  // ".shared" -> "shared"
  // The parts of an opcode that follow its first word: ".mbarrier::complete_tx::bytes.b64".
  void opcode_rest(std::vector<std::string_view>* parts);
  std::string string();  // "...", quotes removed
  Constant constant();   // with its sign
  i64 integer();         // a constant that must not be a float
  u32 count();           // an integer of 0 .. 2^32 - 1
  void skip_parentheses();
  // From { to its }. An unclosed one is an error, unless `may_end`: it then reaches to the end.
  void skip_braces(bool may_end);
  void skip_blank();

  u64 at() const { return at_; }
  u32 line() const { return line_; }
  [[noreturn]] void fail(const std::string& what) const { fail_at(line_, what); }
  [[noreturn]] void unexpected(const std::string& wanted);  // names what stands there instead

 private:
  Constant unsigned_constant();
  void skip_comment();

  std::string_view text_;
  u64 at_;
  u32 line_;
};

}  // namespace emu::ptx
