// A strict JSON reader that pulls tokens and never recurses, and a writer for flat objects. Just
// enough for file headers, metrics and summaries; the tools need no other JSON library for them.
// Internal.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/parse_limits.h"

namespace wt {

// "text" with quotes and escapes; bytes that are not UTF-8 become U+FFFD.
WT_API std::string json_quote(std::string_view text);
WT_API bool is_utf8(std::string_view text);
// Bytes of the UTF-8 character that `text` begins with; 0 for none.
WT_API std::size_t utf8_length(std::string_view text);
// The shortest number that reads back as the same double. JSON has no NaN and no infinity: they
// are the strings "NaN", "Infinity" and "-Infinity" (protobuf's JSON mapping).
WT_API std::string json_number(double value);

// Builds {"key":value,...} in the order of the calls.
class WT_API JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view text) {
    return add_raw(key, json_quote(text));
  }
  JsonObject& add(std::string_view key, const char* text) {
    return add(key, std::string_view(text));
  }
  JsonObject& add(std::string_view key, double value) { return add_raw(key, json_number(value)); }
  JsonObject& add(std::string_view key, i64 value) { return add_raw(key, std::to_string(value)); }
  JsonObject& add(std::string_view key, u64 value) { return add_raw(key, std::to_string(value)); }
  JsonObject& add(std::string_view key, int value) { return add(key, i64{value}); }
  JsonObject& add(std::string_view key, bool value) {
    return add_raw(key, value ? "true" : "false");
  }
  JsonObject& add_null(std::string_view key) { return add_raw(key, "null"); }
  // `json` must be a complete JSON value.
  JsonObject& add_raw(std::string_view key, std::string_view json);
  std::string str() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

// A value that is neither object nor array; numbers keep their text.
struct JsonScalar {
  enum class Kind { null, boolean, number, string };
  Kind kind = Kind::null;
  std::string text;

  // The number, also of "NaN" and "Infinity"; NaN for anything else. 1e-400 is 0, 1e400 infinity.
  WT_API double number() const;
};

// Pulls tokens from `text`, which lies at byte `base` of `source`; anything that is not strict JSON
// in valid UTF-8 throws DataError with that file and byte.
class WT_API JsonReader {
 public:
  JsonReader(std::string_view text, std::string source, u64 base = 0, ParseLimits limits = {});

  char peek();  // the next character that is not white space, 0 at the end
  void expect(char c);
  bool accept(char c);        // takes `c` if it is next
  std::string string();       // unescaped, valid UTF-8
  u64 unsigned_int(u64 max);  // digits only, no leading zero
  JsonScalar scalar();
  void skip_value();  // any value, nested no deeper than the limit
  void finish();      // only white space may follow

  u64 offset() const { return base_ + pos_; }
  [[noreturn]] void fail(const std::string& message) const;

 private:
  u32 hex_escape();
  void append_escape(std::string& out);
  void append_multibyte(std::string& out);
  std::string_view number_text();

  std::string_view text_;
  std::string source_;
  u64 base_;
  ParseLimits limits_;
  std::size_t pos_ = 0;
};

}  // namespace wt
