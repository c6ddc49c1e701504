#include "warptape/core/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>

#include "warptape/core/atomic_file.h"
#include "warptape/core/file_shape.h"

namespace wt {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr u64 kMaxNpyHeader = 65536;
constexpr std::size_t kMaxNpyDims = 32;

struct Descr {
  std::string_view code;
  DType dtype;
};
constexpr Descr kNpyTypes[] = {{"b1", DType::boolean}, {"u1", DType::u8},  {"i1", DType::i8},
                               {"i2", DType::i16},     {"i4", DType::i32}, {"i8", DType::i64},
                               {"u2", DType::u16},     {"u4", DType::u32}, {"u8", DType::u64},
                               {"f2", DType::f16},     {"f4", DType::f32}, {"f8", DType::f64}};

void swap_bytes(char* p, u64 bytes, std::size_t item) {
  for (u64 i = 0; i < bytes; i += item) std::reverse(p + i, p + i + item);
}

}  // namespace

// The header is a Python dictionary literal; this reads exactly the one that NumPy writes, with
// its keys in any order.
class NpyFile::HeaderParser {
 public:
  HeaderParser(NpyFile& out, std::string_view text, u64 base)
      : out_(out), text_(text), base_(base) {}

  void parse() {
    unsigned seen = 0;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      const unsigned bit = key == "descr"           ? 1u
                           : key == "fortran_order" ? 2u
                           : key == "shape"         ? 4u
                                                    : 0u;
      if (bit == 0) fail("the header has the unknown key '" + printable(key) + "'");
      if (seen & bit) fail("the header has '" + std::string(key) + "' twice");
      seen |= bit;
      expect(':');
      bit == 1 ? descr() : bit == 2 ? fortran_order() : shape();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (seen != 7) fail("the header needs descr, fortran_order and shape");
    const std::size_t odd = text_.find_first_not_of(" \n", pos_);
    if (odd != text_.npos) pos_ = odd, fail("text after the header's closing brace");
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    data_error(out_.file_.path(), base_ + pos_, message);
  }
  char peek() {
    while (pos_ < text_.size() && text_[pos_] == ' ') ++pos_;
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool accept(char c) {
    if (pos_ >= text_.size() || peek() != c) return false;
    ++pos_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(str("expected '", c, "' in the header"));
  }
  std::string_view quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("expected a string in the header");
    const std::size_t end = text_.find(quote, pos_ + 1);
    if (end == text_.npos) fail("a string in the header does not end");
    const std::string_view value = text_.substr(pos_ + 1, end - pos_ - 1);
    pos_ = end + 1;
    return value;
  }

  void descr() {
    if (peek() != '\'' && peek() != '"') fail("records and structured types are not supported");
    const std::size_t at = pos_;
    const std::string_view text = quoted();
    const auto refuse = [&](const std::string& why) {
      pos_ = at;
      fail("the element type '" + printable(text) + "' " + why);
    };
    const char order = text.empty() ? '\0' : text[0];
    const std::string_view code = text.substr(text.empty() ? 0 : 1);
    if (code.starts_with('O')) refuse("holds pickled Python objects, which are never loaded");
    const auto known = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                    [&](const Descr& d) { return d.code == code; });
    if (known == std::end(kNpyTypes)) {
      refuse("is not supported; supported are b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8");
    }
    out_.dtype_ = known->dtype;
    const bool one_byte = item_size(out_.dtype_) == 1;
    if (order != '<' && order != '>' && order != '=' && !(order == '|' && one_byte)) {
      refuse("has no byte order");
    }
    out_.swapped_ = order == '>' && !one_byte;
  }

  void fortran_order() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(pos_, word.size()) != word) continue;
      pos_ += word.size();
      out_.fortran_ = value;
      return;
    }
    fail("fortran_order must be True or False");
  }

  void shape() {
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("expected ',' in the shape");
      if (out_.shape_.size() == kMaxNpyDims) fail("the shape has more than 32 dimensions");
      peek();
      i64 size = -1;
      const char* const begin = text_.data() + pos_;
      const auto result = std::from_chars(begin, text_.data() + text_.size(), size);
      if (result.ec != std::errc{} || size < 0 || (*begin == '0' && result.ptr - begin > 1)) {
        fail("a size in the shape is not an integer from 0 to 2^63-1");
      }
      pos_ = static_cast<std::size_t>(result.ptr - text_.data());
      out_.shape_.push_back(size);
      comma = accept(',');
    }
    if (out_.shape_.size() == 1 && !comma) fail("a shape of one dimension needs a comma: (3,)");
  }

  NpyFile& out_;
  std::string_view text_;
  u64 base_;
  std::size_t pos_ = 0;
};

NpyFile NpyFile::open(const std::string& path, const ParseLimits& limits) {
  NpyFile out(path);
  unsigned char start[12] = {};
  out.file_.read(0, start, 8, "the magic number");
  if (!std::equal(kNpyMagic.begin(), kNpyMagic.end(), reinterpret_cast<const char*>(start))) {
    data_error(path, 0, "not an .npy file: it does not start with \\x93NUMPY");
  }
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0) {
    data_error(path, 6, str("version ", version, ".", int(start[7]), " is not 1.0, 2.0 or 3.0"));
  }
  const u64 length_bytes = version == 1 ? 2 : 4;
  out.file_.read(8, start + 8, length_bytes, "the header's length");
  u64 length = start[8] | u64{start[9]} << 8;
  if (version > 1) length |= u64{start[10]} << 16 | u64{start[11]} << 24;
  if (length > std::min(kMaxNpyHeader, limits.max_header)) {
    data_error(path, 8,
               str("the header claims ", length, " bytes, the limit is ",
                   std::min(kMaxNpyHeader, limits.max_header)));
  }
  std::string header(length, '\0');
  out.file_.read(8 + length_bytes, header.data(), length, "the header");
  HeaderParser(out, header, 8 + length_bytes).parse();

  out.data_start_ = 8 + length_bytes + length;
  if (!detail::dense_bytes(out.dtype_, out.shape_, out.bytes_)) {
    data_error(path, 8, "the shape " + detail::shape_text(out.shape_) + " is too large to address");
  }
  const u64 present = out.file_.size() - out.data_start_;
  if (out.bytes_ != present) {
    data_error(path, out.data_start_,
               str("the shape ", detail::shape_text(out.shape_), " ", dtype_name(out.dtype_),
                   " needs ", out.bytes_, " bytes, the file has ", present,
                   present < out.bytes_ ? " (truncated download?)" : ""));
  }
  if (out.bytes_ > limits.max_bytes) {
    data_error(path, out.data_start_,
               str("the array of ", out.bytes_, " bytes passes the limit of ", limits.max_bytes));
  }
  return out;
}

std::vector<i64> NpyFile::strides() const {
  const std::size_t dims = shape_.size();
  std::vector<i64> out(dims);
  u64 step = 1;  // wraps without harm where a zero size leaves nothing to address
  for (std::size_t k = 0; k < dims; ++k) {
    const std::size_t i = fortran_ ? k : dims - 1 - k;
    out[i] = static_cast<i64>(step);
    step *= static_cast<u64>(std::max<i64>(shape_[i], 1));
  }
  return out;
}

void NpyFile::read(void* dst) const {
  char* const p = static_cast<char*>(dst);
  file_.read(data_start_, p, bytes_, "the array");
  if (swapped_) swap_bytes(p, bytes_, static_cast<std::size_t>(item_size(dtype_)));
  if (dtype_ != DType::boolean) return;
  const auto odd = std::find_if(p, p + bytes_, [](char c) { return c != 0 && c != 1; });
  if (odd != p + bytes_) {
    data_error(file_.path(), data_start_ + static_cast<u64>(odd - p),
               str("a bool holds ", int(u8(*odd))));
  }
}

void write_npy(const std::string& path, DType dtype, std::span<const i64> shape, const void* data) {
  const auto known = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                  [&](const Descr& d) { return d.dtype == dtype; });
  if (known == std::end(kNpyTypes)) {
    throw DtypeError(str("[write_npy] NumPy has no element type for ", dtype_name(dtype)));
  }
  u64 bytes = 0;
  if (shape.size() > kMaxNpyDims ||
      std::any_of(shape.begin(), shape.end(), [](i64 size) { return size < 0; }) ||
      !detail::dense_bytes(dtype, shape, bytes)) {
    throw ShapeError("[write_npy] the shape " + detail::shape_text(shape) +
                     " has no size in bytes");
  }
  if (bytes > 0 && !data) throw UsageError("[write_npy] the array has no data");
  std::string dims;
  for (const i64 size : shape) dims += std::to_string(size) + ", ";
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  if (shape.size() == 1) dims.pop_back();
  std::string header = str("{'descr': '", item_size(dtype) == 1 ? '|' : '<', known->code,
                           "', 'fortran_order': False, 'shape': (", dims, "), }");
  // Magic, version, length and header together are a multiple of 64 and end in a newline.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  AtomicFile file(path, {.expected_bytes = 10 + header.size() + bytes});
  file.write(str(kNpyMagic, '\x01', '\0', char(header.size() & 255), char(header.size() >> 8)));
  file.write(header);
  file.write(data, bytes);
  file.commit();
}

}  // namespace wt
