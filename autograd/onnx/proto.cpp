#include "warptape/autograd/onnx/proto.h"

#include <cstring>

#include "warptape/core/input_file.h"
#include "warptape/core/str.h"

namespace wt::onnx {
namespace {

enum Wire : u32 { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
T number_of(std::string_view bytes) {
  T v;
  std::memcpy(&v, bytes.data(), sizeof v);
  return v;
}

}  // namespace

// --- writing ---

void ProtoWriter::varint(u64 v) {
  for (; v >= 0x80; v >>= 7) bytes_.push_back(char(v | 0x80));
  bytes_.push_back(char(v));
}
void ProtoWriter::key(u32 field, u32 wire) { varint(u64(field) << 3 | wire); }

void ProtoWriter::number(u32 field, i64 v) {
  key(field, kVarint);
  varint(u64(v));
}
void ProtoWriter::real(u32 field, float v) {
  key(field, kFixed32);
  bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
}
void ProtoWriter::text(u32 field, std::string_view v) {
  key(field, kBytes);
  varint(v.size());
  bytes_.append(v);
}
// --- reading ---

ProtoReader::ProtoReader(const ProtoSource& s, std::string_view message, u32 depth)
    : source_(s), rest_(message), value_(message.substr(0, 0)), depth_(depth) {
  if (depth > s.limits.max_depth) fail(str("messages are nested deeper than ", s.limits.max_depth));
}

void ProtoReader::fail(const std::string& what) const {
  data_error(source_.path, u64(rest_.data() - source_.file.data()), what);
}

u64 ProtoReader::varint(std::string_view& from) const {
  u64 v = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (from.empty()) fail("a number is cut off");
    const u8 byte = u8(from.front());
    from.remove_prefix(1);
    if (shift == 63 && byte > 1) break;
    v |= u64(byte & 0x7F) << shift;
    if (byte < 0x80) return v;
  }
  fail("a number has more than 64 bits");
}

std::string_view ProtoReader::fixed(u32 n) {
  if (rest_.size() < n) fail("a number is cut off");
  const std::string_view v = rest_.substr(0, n);
  rest_.remove_prefix(n);
  return v;
}

bool ProtoReader::next() {
  if (rest_.empty()) return false;
  const u64 key = varint(rest_);
  field_ = u32(key >> 3), wire_ = u32(key & 7);
  if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) fail("a field has a number that none can have");
  switch (wire_) {
    case kVarint:
      integer_ = varint(rest_);
      return true;
    case kFixed64:
      value_ = fixed(8);
      return true;
    case kFixed32:
      value_ = fixed(4);
      return true;
    case kBytes: {
      const u64 n = varint(rest_);
      if (n > rest_.size())
        fail(str("field ", field_, " has ", n, " bytes, ", rest_.size(), " are left"));
      value_ = rest_.substr(0, size_t(n));
      rest_.remove_prefix(size_t(n));
      return true;
    }
    default:
      fail(str("field ", field_, " has wire type ", wire_, ", which is none"));
  }
}

void ProtoReader::must_be(u32 wire, const char* what) const {
  if (wire_ != wire) fail(str("field ", field_, " is no ", what));
}
i64 ProtoReader::number() {
  must_be(kVarint, "integer");
  return i64(integer_);
}
float ProtoReader::real() {
  must_be(kFixed32, "float");
  return number_of<float>(value_);
}
std::string_view ProtoReader::bytes() {
  must_be(kBytes, "bytes");
  return value_;
}
std::string ProtoReader::text() {
  const std::string_view v = bytes();
  if (v.size() > source_.limits.max_string)
    fail(str("a text of ", v.size(), " bytes, at most ", source_.limits.max_string));
  return std::string(v);
}
ProtoReader ProtoReader::message() { return {source_, bytes(), depth_ + 1}; }

void ProtoSource::take(const ProtoReader& at, u64 bytes) const {
  const u64 most = limits.max_bytes,
            left = taken + file.size() < most ? most - taken - file.size() : 0;
  if (bytes > left) at.fail(str("more memory than the ", most, " bytes that it may take"));
  taken += bytes;
}

// A number of one byte becomes eight: they are counted before memory is taken. The last byte of
// each is below 0x80.
void ProtoReader::numbers(std::vector<i64>& to, u64 most) {
  std::string_view packed = wire_ == kVarint ? std::string_view() : bytes();
  u64 count = wire_ == kVarint;
  for (const char c : packed) count += u8(c) < 0x80;
  if (to.size() + count > most) fail(str("field ", field_, " has more than ", most, " numbers"));
  source_.take(*this, count * sizeof(i64));
  if (wire_ == kVarint) return to.push_back(i64(integer_));
  to.reserve(to.size() + size_t(count));
  while (!packed.empty()) to.push_back(i64(varint(packed)));
}
std::string_view ProtoReader::elements(u32 wire, u32 size, const char* what) {
  if (wire_ != wire) must_be(kBytes, what);
  if (value_.size() % size != 0) fail(str("field ", field_, " has half a ", what));
  return value_;
}
void ProtoReader::reals(std::vector<float>& to) {
  const std::string_view v = elements(kFixed32, 4, "float");
  source_.take(*this, v.size());
  for (size_t i = 0; i < v.size(); i += 4) to.push_back(number_of<float>(v.substr(i)));
}
void ProtoReader::doubles(std::vector<double>& to) {
  const std::string_view v = elements(kFixed64, 8, "double");
  source_.take(*this, v.size());
  for (size_t i = 0; i < v.size(); i += 8) to.push_back(number_of<double>(v.substr(i)));
}

}  // namespace wt::onnx
