// The head of a GGUF file: its bytes from the first one on, and what a value is. Internal.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "warptape/core/input_file.h"
#include "warptape/core/parse_limits.h"
#include "warptape/core/str.h"

namespace wt::nn::detail::gguf {

enum Kind : u32 {  // gguf_metadata_value_type
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kKinds
};

struct Value {
  std::string key;
  Kind kind;
  std::string text;
  i64 integer = 0;
  bool has_integer = false;
  double number = 0;
};

// Takes bytes in order, through a window; no more of them than ParseLimits::max_header.
class Bytes {
 public:
  Bytes(const InputFile& file, const ParseLimits& limits)
      : file_(file), most_(std::min(file.size(), limits.max_header)) {}

  u64 offset() const { return at_; }
  [[noreturn]] void fail(u64 at, const std::string& message) const {
    data_error(file_.path(), at, message);
  }

  void take(void* dst, u64 n, const char* what) {
    require(n, what);
    for (char* to = static_cast<char*>(dst); n > 0;) {
      if (at_ < begin_ || at_ >= begin_ + window_.size()) refill();
      const u64 some = std::min(n, begin_ + window_.size() - at_);
      std::memcpy(to, window_.data() + (at_ - begin_), some);
      to += some, at_ += some, n -= some;
    }
  }
  template <class T>
  T number(const char* what) {
    T value;
    take(&value, sizeof value, what);
    return value;
  }
  // Its length is before it.
  std::string text(u64 most, const char* what) {
    std::string s(length(most, what), '\0');
    take(s.data(), s.size(), what);
    return s;
  }
  void skip(u64 n, const char* what) { require(n, what), at_ += n; }
  void skip_text(u64 most) { skip(length(most, "a text"), "a text"); }

 private:
  static constexpr u64 kWindow = 65536;

  void require(u64 n, const char* what) const {
    if (n <= most_ - at_) return;
    if (most_ < file_.size())
      fail(at_, str(what, ": the head of the file passes the limit of ", most_, " bytes"));
    fail(at_, str(what, " needs ", n, " bytes, ", most_ - at_, " follow (truncated download?)"));
  }
  u64 length(u64 most, const char* what) {
    const u64 at = at_, n = number<u64>(what);
    if (n > most) fail(at, str(what, " of ", n, " bytes, at most ", most, " are possible"));
    require(n, what);  // before memory is taken for it
    return n;
  }
  void refill() {
    begin_ = at_;
    window_.resize(std::min(kWindow, file_.size() - at_));
    file_.read(begin_, window_.data(), window_.size(), "the head of the file");
  }

  const InputFile& file_;
  u64 most_, at_ = 0, begin_ = 0;
  std::vector<char> window_;
};

}  // namespace wt::nn::detail::gguf
