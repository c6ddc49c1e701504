// Protocol Buffers' wire format, as far as ONNX needs it: fields of numbers, of bytes and of
// messages (protobuf.dev/programming-guides/encoding). Internal to autograd/onnx.h.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/core/types.h"

namespace wt::onnx {

// Fields go out in the order of the calls, lists one number after the other. What is 0 or empty is
// written too: who does not want that does not call.
class ProtoWriter {
 public:
  void number(u32 field, i64 v);  // int32, int64, enums, bool
  void real(u32 field, float v);
  void text(u32 field, std::string_view v);  // string, bytes, and messages that are written already
  const std::string& bytes() const { return bytes_; }

 private:
  void key(u32 field, u32 wire);
  void varint(u64 v);
  std::string bytes_;
};

// A message within a file that is in memory. Whatever is wrong is a DataError with the file's name
// and the byte.
class ProtoReader;
struct ProtoSource {
  const std::string& path;
  std::string_view file;
  const ParseLimits& limits;
  mutable u64 taken = 0;  // bytes of what was made of the file

  // Before memory is taken: DataError, said by `at`, where it is more than the limits allow.
  void take(const ProtoReader& at, u64 bytes) const;
};
class ProtoReader {
 public:
  explicit ProtoReader(const ProtoSource& s) : ProtoReader(s, s.file, 0) {}
  ProtoReader(const ProtoSource& s, std::string_view message, u32 depth);

  // Goes to the next field; false at the end. What nobody reads is passed over.
  bool next();
  u32 field() const { return field_; }
  // The present field as what it must be.
  i64 number();
  float real();
  std::string_view bytes();
  std::string text();
  ProtoReader message();
  // One number, or several that are packed; at most so many in all.
  void numbers(std::vector<i64>& to, u64 most = ~u64{0});
  void reals(std::vector<float>& to);
  void doubles(std::vector<double>& to);

  const ProtoSource& source() const { return source_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  u64 varint(std::string_view& from) const;
  std::string_view fixed(u32 n);
  void must_be(u32 wire, const char* what) const;
  // Elements of `size` bytes each, or one that stands by itself.
  std::string_view elements(u32 wire, u32 size, const char* what);

  const ProtoSource& source_;
  std::string_view rest_;
  std::string_view value_;  // of the present field: what fixed or delimited bytes it has
  u64 integer_ = 0;
  u32 field_ = 0, wire_ = 0, depth_;
};

}  // namespace wt::onnx
