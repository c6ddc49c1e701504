#include "warptape/core/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/file_shape.h"

namespace wt {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::string_view kNpySpace = " \t\r\n";
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

// The header is a Python dictionary literal; this reads exactly the one that NumPy writes, with
// its keys in any order, and white space and Python 2's long integers (3L) as NumPy reads them.
class HeaderParser {
 public:
  HeaderParser(detail::NpyHeader& out, const std::string& label, std::string_view text, u64 base)
      : out_(out), label_(label), text_(text), base_(base) {}

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
    const std::size_t odd = text_.find_first_not_of(kNpySpace, pos_);
    if (odd != text_.npos) pos_ = odd, fail("text after the header's closing brace");
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    data_error(label_, base_ + pos_, message);
  }
  char peek() {
    while (pos_ < text_.size() && kNpySpace.find(text_[pos_]) != kNpySpace.npos) ++pos_;
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
    out_.dtype = known->dtype;
    const bool one_byte = item_size(out_.dtype) == 1;
    if (order != '<' && order != '>' && order != '=' && !(order == '|' && one_byte)) {
      refuse("has no byte order");
    }
    out_.swapped = order == '>' && !one_byte;
  }

  void fortran_order() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(pos_, word.size()) != word) continue;
      pos_ += word.size();
      out_.fortran = value;
      return;
    }
    fail("fortran_order must be True or False");
  }

  void shape() {
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("expected ',' in the shape");
      if (out_.shape.size() == kMaxNpyDims) fail("the shape has more than 32 dimensions");
      peek();
      i64 size = -1;
      const char* const begin = text_.data() + pos_;
      const auto result = std::from_chars(begin, text_.data() + text_.size(), size);
      if (result.ec != std::errc{} || size < 0 || (*begin == '0' && result.ptr - begin > 1)) {
        fail("a size in the shape is not an integer from 0 to 2^63-1");
      }
      pos_ = static_cast<std::size_t>(result.ptr - text_.data());
      if (pos_ < text_.size() && text_[pos_] == 'L') ++pos_;
      out_.shape.push_back(size);
      comma = accept(',');
    }
    if (out_.shape.size() == 1 && !comma) fail("a shape of one dimension needs a comma: (3,)");
  }

  detail::NpyHeader& out_;
  const std::string& label_;
  std::string_view text_;
  u64 base_;
  std::size_t pos_ = 0;
};

}  // namespace

detail::NpyHeader detail::read_npy_header(const NpyBytes& file, const ParseLimits& limits) {
  const std::string& label = file.label;
  NpyHeader out;
  unsigned char start[12] = {};
  file.read(0, start, 8, "the magic number");
  if (!std::equal(kNpyMagic.begin(), kNpyMagic.end(), reinterpret_cast<const char*>(start))) {
    data_error(label, 0, "not an .npy file: it does not start with \\x93NUMPY");
  }
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0) {
    data_error(label, 6, str("version ", version, ".", int(start[7]), " is not 1.0, 2.0 or 3.0"));
  }
  const u64 length_bytes = version == 1 ? 2 : 4;
  file.read(8, start + 8, length_bytes, "the header's length");
  u64 length = start[8] | u64{start[9]} << 8;
  if (version > 1) length |= u64{start[10]} << 16 | u64{start[11]} << 24;
  if (length > std::min(kMaxNpyHeader, limits.max_header)) {
    data_error(label, 8,
               str("the header claims ", length, " bytes, the limit is ",
                   std::min(kMaxNpyHeader, limits.max_header)));
  }
  std::string header(length, '\0');
  file.read(8 + length_bytes, header.data(), length, "the header");
  HeaderParser(out, label, header, 8 + length_bytes).parse();

  out.data_start = 8 + length_bytes + length;
  if (!dense_bytes(out.dtype, out.shape, out.bytes)) {
    data_error(label, 8, "the shape " + shape_text(out.shape) + " is too large to address");
  }
  const u64 present = file.size - out.data_start;
  if (out.bytes != present) {
    data_error(
        label, out.data_start,
        str("the shape ", shape_text(out.shape), " ", dtype_name(out.dtype), " needs ", out.bytes,
            " bytes, the file has ", present, present < out.bytes ? " (truncated download?)" : ""));
  }
  if (out.bytes > limits.max_bytes) {
    data_error(label, out.data_start,
               str("the array of ", out.bytes, " bytes passes the limit of ", limits.max_bytes));
  }
  return out;
}

void detail::read_npy_data(const NpyBytes& file, const NpyHeader& header, void* dst) {
  char* const p = static_cast<char*>(dst);
  file.read(header.data_start, p, header.bytes, "the array");
  if (header.swapped) {
    swap_bytes(p, header.bytes, static_cast<std::size_t>(item_size(header.dtype)));
  }
  if (header.dtype != DType::boolean) return;
  const auto odd = std::find_if(p, p + header.bytes, [](char c) { return c != 0 && c != 1; });
  if (odd != p + header.bytes) {
    data_error(file.label, header.data_start + static_cast<u64>(odd - p),
               str("a bool holds ", int(u8(*odd))));
  }
}

std::vector<i64> detail::NpyHeader::strides() const {
  const std::size_t dims = shape.size();
  std::vector<i64> out(dims);
  u64 step = 1;  // wraps without harm where a zero size leaves nothing to address
  for (std::size_t k = 0; k < dims; ++k) {
    const std::size_t i = fortran ? k : dims - 1 - k;
    out[i] = static_cast<i64>(step);
    step *= static_cast<u64>(std::max<i64>(shape[i], 1));
  }
  return out;
}

detail::NpyBytes NpyFile::content() const {
  return {file_.path(), file_.size(),
          [this](u64 offset, void* dst, u64 bytes, std::string_view what) {
            file_.read(offset, dst, bytes, what);
          }};
}

NpyFile::NpyFile(const std::string& path) : file_(path) {}
std::vector<i64> NpyFile::strides() const { return header_.strides(); }
NpyFile NpyFile::open(const std::string& path, const ParseLimits& limits) {
  NpyFile out(path);
  out.header_ = detail::read_npy_header(out.content(), limits);
  return out;
}

void NpyFile::read(void* dst) const { detail::read_npy_data(content(), header_, dst); }

std::string detail::npy_header(DType dtype, std::span<const i64> shape) {
  const auto known = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                  [&](const Descr& d) { return d.dtype == dtype; });
  if (known == std::end(kNpyTypes)) {
    throw DtypeError(str("[write_npy] NumPy has no element type for ", dtype_name(dtype)));
  }
  u64 bytes = 0;
  if (shape.size() > kMaxNpyDims ||
      std::any_of(shape.begin(), shape.end(), [](i64 size) { return size < 0; }) ||
      !dense_bytes(dtype, shape, bytes)) {
    throw ShapeError("[write_npy] the shape " + shape_text(shape) + " has no size in bytes");
  }
  std::string dims;
  for (const i64 size : shape) dims += std::to_string(size) + ", ";
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  if (shape.size() == 1) dims.pop_back();
  std::string header = str("{'descr': '", item_size(dtype) == 1 ? '|' : '<', known->code,
                           "', 'fortran_order': False, 'shape': (", dims, "), }");
  // Magic, version, length and header together are a multiple of 64 and end in a newline.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  return str(kNpyMagic, '\x01', '\0', char(header.size() & 255), char(header.size() >> 8), header);
}

void write_npy(const std::string& path, DType dtype, std::span<const i64> shape, const void* data) {
  const std::string header = detail::npy_header(dtype, shape);
  u64 bytes = 0;
  (void)detail::dense_bytes(dtype, shape, bytes);  // npy_header has refused what does not fit
  if (bytes > 0 && !data) throw UsageError("[write_npy] the array has no data");
  AtomicFile file(path, {.expected_bytes = header.size() + bytes});
  file.write(header);
  file.write(data, bytes);
  file.commit();
}

}  // namespace wt
