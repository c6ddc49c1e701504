#include "warptape/nn/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "warptape/core/checked.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/half.h"
#include "warptape/core/input_file.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/nn/weights/gguf_bytes.h"

namespace wt::nn {
namespace {

using namespace detail::gguf;

static_assert(std::endian::native == std::endian::little, "the data is copied as it lies");

constexpr u64 kBlock = 32, kBlockBytes = 34;  // q8_0: a scale in f16, then the integers
constexpr u32 kMaxGgufDims = 4;
constexpr u64 kMaxKey = 65535, kMaxTensorName = 64;
constexpr u64 kMaxAlignment = 65536;

// ggml_type by its number; empty: none, or gone.
constexpr std::array<std::string_view, 36> kTypeNames = {
    "f32",     "f16",   "q4_0",   "q4_1",  "",      "",       "q5_0", "q5_1",    "q8_0",
    "q8_1",    "q2_K",  "q3_K",   "q4_K",  "q5_K",  "q6_K",   "q8_K", "iq2_xxs", "iq2_xs",
    "iq3_xxs", "iq1_s", "iq4_nl", "iq3_s", "iq2_s", "iq4_xs", "i8",   "i16",     "i32",
    "i64",     "f64",   "iq1_m",  "bf16",  "",      "",       "",     "tq1_0",   "tq2_0"};

std::optional<GgufType> known_type(u32 number) {
  switch (number) {
    case 0:
      return GgufType::f32;
    case 1:
      return GgufType::f16;
    case 8:
      return GgufType::q8_0;
    case 30:
      return GgufType::bf16;
    default:
      return {};
  }
}

constexpr std::array<u64, kKinds> kKindBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

}  // namespace

struct GgufFile::Contents {
  InputFile file;
  ParseLimits limits;
  u32 version = 0;
  std::vector<GgufEntry> entries{};
  std::vector<u32> by_name{};  // indices into entries
  std::vector<detail::gguf::Value> values{};
  std::vector<u32> by_key{};  // indices into values
  u64 handed_out = 0;

  const Value* find(std::string_view key) const {
    const auto at = std::lower_bound(by_key.begin(), by_key.end(), key,
                                     [&](u32 i, std::string_view k) { return values[i].key < k; });
    return at != by_key.end() && values[*at].key == key ? &values[*at] : nullptr;
  }
};

// Fills a GgufFile's contents.
class GgufFile::Parser {
 public:
  explicit Parser(Contents& out) : out_(out), bytes_(out.file, out.limits) {}

  void parse() {
    char magic[4];
    bytes_.take(magic, 4, "the magic number");
    if (std::string_view(magic, 4) != "GGUF") bytes_.fail(0, "this is no GGUF file");
    out_.version = bytes_.number<u32>("the version");
    if (out_.version == 0x02000000 || out_.version == 0x03000000)
      bytes_.fail(4, "the file is big-endian");
    if (out_.version != 2 && out_.version != 3)
      bytes_.fail(4, str("the version is ", out_.version, ", 2 and 3 are known"));
    const u64 tensors = count("tensors", 24), values = count("metadata", 13);
    for (u64 i = 0; i < values; ++i) out_.values.push_back(value());
    index_values();
    for (u64 i = 0; i < tensors; ++i) out_.entries.push_back(entry());
    index_entries();
    lay_out(alignment());
  }

 private:
  // A count, before anything is made of it: so many things of at least `least` bytes must follow.
  u64 count(const char* what, u64 least) {
    const u64 at = bytes_.offset(), n = bytes_.number<u64>(what);
    if (n > out_.limits.max_items)
      bytes_.fail(at, str(n, " ", what, ", the limit is ", out_.limits.max_items));
    if (n > (out_.file.size() - bytes_.offset()) / least)
      bytes_.fail(at, str(n, " ", what, ", more than the file has room for (truncated download?)"));
    return n;
  }

  Kind kind() {
    const u64 at = bytes_.offset();
    const u32 number = bytes_.number<u32>("a value's kind");
    if (number >= kKinds) bytes_.fail(at, str("a value of the unknown kind ", number));
    return Kind(number);
  }

  Value value() {
    const u64 at = bytes_.offset();
    Value v{.key = bytes_.text(kMaxKey, "a key"), .kind = kU8, .text = {}};
    if (v.key.empty() || !is_utf8(v.key)) bytes_.fail(at, "a key that is empty or not UTF-8");
    v.kind = kind();
    if (v.kind == kString)
      v.text = bytes_.text(out_.limits.max_string, "a text");
    else if (v.kind == kArray)
      skip_array();
    else
      scalar(v);
    return v;
  }

  void scalar(Value& v) {
    const auto integer = [&](auto n) {
      v.number = double(n);
      v.has_integer = std::in_range<i64>(n);
      v.integer = i64(n);
    };
    switch (v.kind) {
      case kU8:
        return integer(bytes_.number<u8>("a value"));
      case kI8:
        return integer(bytes_.number<i8>("a value"));
      case kU16:
        return integer(bytes_.number<u16>("a value"));
      case kI16:
        return integer(bytes_.number<i16>("a value"));
      case kU32:
        return integer(bytes_.number<u32>("a value"));
      case kI32:
        return integer(bytes_.number<i32>("a value"));
      case kU64:
        return integer(bytes_.number<u64>("a value"));
      case kI64:
        return integer(bytes_.number<i64>("a value"));
      case kBool:
        return integer(boolean_byte());
      case kF32:
        v.number = double(bytes_.number<float>("a value"));
        return;
      default:
        v.number = bytes_.number<double>("a value");
        return;
    }
  }

  u8 boolean_byte() {
    const u64 at = bytes_.offset();
    const u8 byte = bytes_.number<u8>("a bool");
    if (byte > 1) bytes_.fail(at, str("a bool is ", int(byte)));
    return byte;
  }

  void skip_array() {
    const u64 at = bytes_.offset();
    const Kind of = kind();
    if (of == kArray) bytes_.fail(at, "an array of arrays");
    const u64 n = count("elements", of == kString ? 8 : kKindBytes[of]);
    if (of == kString)
      for (u64 i = 0; i < n; ++i) bytes_.skip_text(out_.limits.max_string);
    else if (of == kBool)
      for (u64 i = 0; i < n; ++i) boolean_byte();
    else
      bytes_.skip(n * kKindBytes[of], "an array");
  }

  void index_values() {
    for (u32 i = 0; i < out_.values.size(); ++i) out_.by_key.push_back(i);
    const auto key = [&](u32 i) -> const std::string& { return out_.values[i].key; };
    std::sort(out_.by_key.begin(), out_.by_key.end(),
              [&](u32 a, u32 b) { return key(a) < key(b); });
    const auto twice = std::adjacent_find(out_.by_key.begin(), out_.by_key.end(),
                                          [&](u32 a, u32 b) { return key(a) == key(b); });
    if (twice != out_.by_key.end())
      bytes_.fail(0, "the key '" + printable(key(*twice)) + "' appears twice");
  }

  u64 alignment() {
    const Value* v = out_.find("general.alignment");
    if (!v) return 32;
    const u64 a = v->has_integer && v->integer > 0 ? u64(v->integer) : 0;
    if (v->kind != kU32 || a % 8 != 0 || !std::has_single_bit(a) || a > kMaxAlignment)
      bytes_.fail(0,
                  str("general.alignment must be a u32, a power of two from 8 to ", kMaxAlignment));
    return a;
  }

  // `begin` and `end` count from the beginning of the data until lay_out().
  GgufEntry entry() {
    const u64 at = bytes_.offset();
    GgufEntry e{.name = bytes_.text(kMaxTensorName, "a tensor's name"), .shape = {}};
    if (e.name.empty() || !is_utf8(e.name)) bytes_.fail(at, "a name that is empty or not UTF-8");
    const std::string where = "tensor '" + printable(e.name) + "' ";
    const u32 ndim = bytes_.number<u32>("the number of dimensions");
    if (ndim < 1 || ndim > kMaxGgufDims)
      bytes_.fail(at,
                  str(where, "has ", ndim, " dimensions, 1 to ", kMaxGgufDims, " are possible"));
    std::array<i64, kMaxGgufDims> sizes{};
    u64 numel = 1;
    for (u32 i = 0; i < ndim; ++i) {
      const u64 size = bytes_.number<u64>("a size");
      if (size == 0 || !mul_fits(numel, size, numel) || numel > u64{1} << 48)
        bytes_.fail(at, where + "has no elements or too many to address");
      sizes[ndim - 1 - i] = i64(size);
    }
    e.shape = Shape(std::span<const i64>(sizes.data(), ndim));
    e.type = type(at, where);
    e.begin = bytes_.number<u64>("an offset");
    const u64 row = u64(sizes[ndim - 1]);
    if (e.type == GgufType::q8_0 && row % kBlock != 0)
      bytes_.fail(at, str(where, "is q8_0 with rows of ", row, ", no multiple of ", kBlock));
    const u64 size = e.type == GgufType::q8_0 ? numel / kBlock * kBlockBytes
                                              : numel * u64(item_size(dtype_of(e.type)));
    if (e.begin > out_.file.size() || size > out_.file.size() - e.begin)
      bytes_.fail(at, str(where, "needs ", size, " bytes from byte ", e.begin,
                          " of the data, more than the file has (truncated download?)"));
    e.end = e.begin + size;
    return e;
  }

  GgufType type(u64 at, const std::string& where) {
    const u32 number = bytes_.number<u32>("a type");
    if (const auto known = known_type(number)) return *known;
    const bool named = number < kTypeNames.size() && !kTypeNames[number].empty();
    bytes_.fail(at, str(where, "is of the ", named ? "unsupported" : "unknown", " type ",
                        named ? std::string(kTypeNames[number]) : std::to_string(number),
                        "; supported are f32, f16, bf16 and q8_0"));
  }

  void index_entries() {
    std::vector<GgufEntry>& all = out_.entries;
    std::sort(all.begin(), all.end(),
              [](const GgufEntry& a, const GgufEntry& b) { return a.begin < b.begin; });
    for (u32 i = 0; i < all.size(); ++i) out_.by_name.push_back(i);
    std::sort(out_.by_name.begin(), out_.by_name.end(),
              [&](u32 a, u32 b) { return all[a].name < all[b].name; });
    const auto twice = std::adjacent_find(out_.by_name.begin(), out_.by_name.end(),
                                          [&](u32 a, u32 b) { return all[a].name == all[b].name; });
    if (twice != out_.by_name.end())
      bytes_.fail(0, "the tensor name '" + printable(all[*twice].name) + "' appears twice");
  }

  // One after another, each at the next multiple of the alignment, and then the file ends. All
  // numbers are below the file's size and the alignment's: sums fit.
  void lay_out(u64 alignment) {
    const auto up = [&](u64 n) { return (n + alignment - 1) / alignment * alignment; };
    const u64 start = up(bytes_.offset());
    u64 next = 0, end = 0;
    for (GgufEntry& e : out_.entries) {
      if (e.begin != next)
        bytes_.fail(start + next, str("tensor '", printable(e.name), "' begins at byte ", e.begin,
                                      " of the data, the one before it needs ", next));
      end = e.end, next = up(end);
      e.begin += start, e.end += start;
    }
    const u64 size = out_.file.size();
    if (out_.entries.empty() && size == bytes_.offset()) return;
    if (start + end > size)
      bytes_.fail(size, str("the tensors end at byte ", start + end, ", the file has ", size,
                            " (truncated download?)"));
    if (size > start + next) bytes_.fail(start + next, "there is data after the end");
  }

  Contents& out_;
  Bytes bytes_;
};

GgufFile::GgufFile(Owned<Contents> in) : in_(std::move(in)) {}
GgufFile::~GgufFile() = default;
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;

GgufFile GgufFile::open(const std::string& path, const ParseLimits& limits) {
  Owned<Contents> in(new Contents{.file = InputFile(path), .limits = limits});
  Parser(*in).parse();
  return GgufFile(std::move(in));
}

u32 GgufFile::version() const noexcept { return in_->version; }
const std::vector<GgufEntry>& GgufFile::entries() const noexcept { return in_->entries; }
const std::string& GgufFile::path() const noexcept { return in_->file.path(); }

const GgufEntry* GgufFile::find(std::string_view name) const noexcept {
  const auto at =
      std::lower_bound(in_->by_name.begin(), in_->by_name.end(), name,
                       [&](u32 i, std::string_view n) { return in_->entries[i].name < n; });
  return at != in_->by_name.end() && in_->entries[*at].name == name ? &in_->entries[*at] : nullptr;
}

std::vector<std::string> GgufFile::keys() const {
  std::vector<std::string> all;
  for (const Value& v : in_->values) all.push_back(v.key);
  return all;
}
const std::string* GgufFile::text(std::string_view key) const {
  const Value* v = in_->find(key);
  return v && v->kind == kString ? &v->text : nullptr;
}
std::optional<i64> GgufFile::integer(std::string_view key) const {
  const Value* v = in_->find(key);
  return v && v->has_integer ? std::optional(v->integer) : std::nullopt;
}
std::optional<double> GgufFile::number(std::string_view key) const {
  const Value* v = in_->find(key);
  return v && v->kind != kString && v->kind != kArray ? std::optional(v->number) : std::nullopt;
}

namespace {

// y = scale * q, of whole blocks.
void unpack_q8_0(const char* from, u64 blocks, float* to) {
  for (u64 b = 0; b < blocks; ++b, from += kBlockBytes, to += kBlock) {
    Half scale;
    std::memcpy(&scale, from, 2);
    for (u64 i = 0; i < kBlock; ++i) to[i] = float(scale) * float(static_cast<i8>(from[2 + i]));
  }
}

}  // namespace

Tensor GgufFile::read(const GgufEntry& e) {
  const DType dtype = dtype_of(e.type);
  const u64 bytes = u64(numel_of(e.shape)) * u64(item_size(dtype));
  if (bytes > in_->limits.max_bytes - in_->handed_out)
    data_error(path(), e.begin,
               str("tensor '", printable(e.name), "' of ", bytes,
                   " bytes passes the reader's limit of ", in_->limits.max_bytes, " bytes a file"));
  Tensor t = empty(e.shape, {.dtype = dtype, .device = Device::cpu()});
  if (e.type != GgufType::q8_0) {
    in_->file.read(e.begin, t.impl()->data, bytes, "a tensor");
  } else {
    constexpr u64 kAtOnce = 4096;  // blocks
    std::vector<char> packed(std::min((e.end - e.begin), kAtOnce * kBlockBytes));
    float* to = static_cast<float*>(t.impl()->data);
    for (u64 at = e.begin; at < e.end;) {
      const u64 some = std::min<u64>(packed.size(), e.end - at);
      in_->file.read(at, packed.data(), some, "a tensor");
      unpack_q8_0(packed.data(), some / kBlockBytes, to);
      to += some / kBlockBytes * kBlock, at += some;
    }
  }
  in_->handed_out += bytes;
  return t;
}

Tensor GgufFile::read(std::string_view name) {
  const GgufEntry* e = find(name);
  if (!e) data_error(path(), 0, str("there is no tensor '", printable(name), "'"));
  return read(*e);
}

}  // namespace wt::nn
