#include "warptape/core/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/files/file_kind.h"
#include "warptape/core/files/file_shape.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"

namespace wt {
namespace {

static_assert(std::endian::native == std::endian::little, "the data is copied as it lies");

constexpr std::array<const char*, kNumDTypes> kFormatNames = {
    "F64", "F32", "F16", "BF16", "I64", "I32",     "U8",     "BOOL",
    "I8",  "I16", "U16", "U32",  "U64", "F8_E4M3", "F8_E5M2"};
constexpr std::array<std::string_view, 7> kRefusedNames = {
    "F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"};

constexpr u64 kMaxInteger = u64{1} << 48;
constexpr std::size_t kMaxTensorDims = 16;
constexpr std::size_t kMaxMetadata = 65536;  // entries: each costs more memory than header text
constexpr std::string_view kSumKey = "wt.crc32c";
constexpr u64 kReadChunk = u64{1} << 20;

std::string hex8(u32 value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

// The checksum of a header is taken with its own eight digits as zeros.
u32 header_checksum(std::string& header, std::size_t digits_at) {
  header.replace(digits_at, 8, 8, '0');
  return crc32c(header.data(), header.size());
}

}  // namespace

struct SafetensorsFile::Contents {
  struct Checksum {
    std::string name;  // of the tensor; empty for the header
    u32 crc;
  };

  InputFile file;
  ParseLimits limits;
  std::vector<TensorEntry> entries{};
  std::vector<u32> by_name{};  // indices into entries
  StringPairs metadata{};
  std::vector<Checksum> checksums{};  // by name
  u64 data_start = 0, handed_out = 0;
};

SafetensorsFile::SafetensorsFile(const std::string& path, const ParseLimits& limits)
    : in_(new Contents{.file = InputFile(path), .limits = limits}) {}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
const std::vector<TensorEntry>& SafetensorsFile::entries() const noexcept { return in_->entries; }
const StringPairs& SafetensorsFile::metadata() const noexcept { return in_->metadata; }
const std::string& SafetensorsFile::path() const noexcept { return in_->file.path(); }
bool SafetensorsFile::has_checksums() const noexcept { return !in_->checksums.empty(); }

// Fills a SafetensorsFile's entries, metadata and checksums from the header's text.
class SafetensorsFile::HeaderParser {
 public:
  HeaderParser(SafetensorsFile& out, std::string& header)
      : out_(out), header_(header), json_(header, out.path(), 8, out.in_->limits) {}

  // The header's own checksum as computed; 0 if it carries none.
  u32 parse() {
    // An entry needs at least 40 bytes of text and a brace, so this reserves no more than
    // twice the header whatever the text is.
    const auto braces = std::count(header_.begin(), header_.end(), '{');
    max_entries_ = std::min<std::size_t>(static_cast<std::size_t>(braces), header_.size() / 40);
    out_.in_->entries.reserve(max_entries_);
    json_.expect('{');
    if (!json_.accept('}')) {
      do {
        std::string name = json_.string();
        json_.expect(':');
        name == "__metadata__" ? metadata() : entry(std::move(name));
      } while (json_.accept(','));
      json_.expect('}');
    }
    finish();
    return digits_at_ ? header_checksum(header_, digits_at_) : 0;
  }

 private:
  void finish() {
    const std::size_t end = json_.offset() - 8;
    const std::size_t odd = header_.find_first_not_of(" \t\r\n", end);
    if (odd != header_.npos) {
      data_error(out_.path(), 8 + odd, "only white space may follow the header's closing brace");
    }
  }

  void entry(std::string name) {
    if (out_.in_->entries.size() >= out_.in_->limits.max_items) {
      json_.fail(str("more tensors than the limit of ", out_.in_->limits.max_items));
    }
    TensorEntry e;
    e.name = std::move(name);
    const u64 at = json_.offset();
    unsigned seen = 0;
    json_.expect('{');
    do {
      const std::string key = json_.string();
      const unsigned bit = key == "dtype"          ? 1u
                           : key == "shape"        ? 2u
                           : key == "data_offsets" ? 4u
                                                   : 0u;
      if (seen & bit) json_.fail(where(e) + "has '" + key + "' twice");
      seen |= bit;
      json_.expect(':');
      if (bit == 0)
        json_.skip_value();  // of another program: the format's own reader passes it over, too
      else
        bit == 1 ? dtype(e) : bit == 2 ? shape(e) : offsets(e);
    } while (json_.accept(','));
    json_.expect('}');
    if (seen != 7) data_error(out_.path(), at, where(e) + "needs dtype, shape and data_offsets");
    check_size(e, at);
    out_.in_->entries.push_back(std::move(e));
  }

  static std::string where(const TensorEntry& e) { return "tensor '" + printable(e.name) + "' "; }

  void dtype(TensorEntry& e) {
    const u64 at = json_.offset();
    const std::string name = json_.string();
    const auto known = std::find(kFormatNames.begin(), kFormatNames.end(), name);
    if (known != kFormatNames.end()) {
      e.dtype = DType(known - kFormatNames.begin());
      return;
    }
    const bool refused =
        std::find(kRefusedNames.begin(), kRefusedNames.end(), name) != kRefusedNames.end();
    std::string supported;
    for (const char* const n : kFormatNames) supported += std::string(" ") + n;
    data_error(out_.path(), at,
               where(e) + "has the " + (refused ? "unsupported" : "unknown") + " dtype '" +
                   printable(name) + "'; supported are" + supported);
  }

  void shape(TensorEntry& e) {
    std::array<i64, kMaxTensorDims> sizes;
    std::size_t count = 0;
    json_.expect('[');
    if (!json_.accept(']')) {
      do {
        if (count == kMaxTensorDims) {
          json_.fail(str(where(e), "has more than ", kMaxTensorDims, " dimensions"));
        }
        sizes[count++] = static_cast<i64>(json_.unsigned_int(kMaxInteger));
      } while (json_.accept(','));
      json_.expect(']');
    }
    e.shape.assign(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count));
  }

  void offsets(TensorEntry& e) {
    json_.expect('[');
    e.begin = json_.unsigned_int(kMaxInteger);
    json_.expect(',');
    e.end = json_.unsigned_int(kMaxInteger);
    json_.expect(']');
  }

  void check_size(const TensorEntry& e, u64 at) {
    u64 bytes = 0;
    if (!detail::dense_bytes(e.dtype, e.shape, bytes)) {
      data_error(out_.path(), at,
                 where(e) + detail::shape_text(e.shape) + " is too large to address");
    }
    if (e.end < e.begin || e.end - e.begin != bytes) {
      data_error(
          out_.path(), at,
          str(where(e), detail::shape_text(e.shape), " ", dtype_name(e.dtype), " needs ", bytes,
              " bytes, its data_offsets [", e.begin, ", ", e.end, "] do not give that"));
    }
  }

  void metadata() {
    if (std::exchange(metadata_seen_, true)) json_.fail("'__metadata__' appears twice");
    json_.expect('{');
    if (json_.accept('}')) return;
    do {
      std::string key = json_.string();
      json_.expect(':');
      if (json_.peek() != '"') json_.fail("a value in '__metadata__' is not a string");
      std::string value = json_.string();
      if (key.starts_with(kSumKey) &&
          (key.size() == kSumKey.size() || key[kSumKey.size()] == ':')) {
        checksum(key, value);
      } else if (out_.in_->metadata.size() == kMaxMetadata) {
        json_.fail(str("'__metadata__' has more than ", kMaxMetadata, " entries"));
      } else {
        out_.in_->metadata.emplace_back(std::move(key), std::move(value));
      }
    } while (json_.accept(','));
    json_.expect('}');
  }

  void checksum(const std::string& key, const std::string& value) {
    if (value.size() != 8 || value.find_first_not_of("0123456789abcdef") != value.npos) {
      json_.fail("the checksum '" + printable(key) + "' is not eight hexadecimal digits");
    }
    if (out_.in_->checksums.empty()) out_.in_->checksums.reserve(max_entries_ + 1);
    if (out_.in_->checksums.size() > max_entries_) json_.fail("more checksums than tensors");
    const u32 crc = static_cast<u32>(std::stoul(value, nullptr, 16));
    if (key.size() == kSumKey.size()) {
      digits_at_ = static_cast<std::size_t>(json_.offset()) - 8 - 9;  // before the closing quote
      if (header_.compare(digits_at_, 8, value) != 0) json_.fail("a checksum with escapes");
      out_.in_->checksums.push_back({"", crc});
    } else {
      // A tensor with an empty name would look like the header: its key ends in ':'.
      out_.in_->checksums.push_back({key.substr(kSumKey.size()), crc});
    }
  }

  SafetensorsFile& out_;
  std::string& header_;
  JsonReader json_;
  std::size_t max_entries_ = 0;
  std::size_t digits_at_ = 0;
  bool metadata_seen_ = false;
};

// What cannot be a header is looked at once more: it may be a file of another program.
[[noreturn]] static void refuse_header(const InputFile& file, u64 at, const std::string& why) {
  const std::string kind = kind_of_file(file);
  if (kind.empty()) data_error(file.path(), at, why);
  data_error(file.path(), 0, "this is " + kind);
}

SafetensorsFile SafetensorsFile::open(const std::string& path, const ParseLimits& limits) {
  SafetensorsFile out(path, limits);
  const InputFile& file = out.in_->file;
  u64 header_size = 0;
  if (file.size() < 8)
    refuse_header(file, file.size(),
                  str("the header's length needs 8 bytes from byte 0, the file has ", file.size(),
                      " (truncated download?)"));
  file.read(0, &header_size, 8, "the header's length");
  if (header_size > limits.max_header) {
    refuse_header(file, 0,
                  str("the header claims ", header_size, " bytes, the limit is ", limits.max_header,
                      " (is this a safetensors file?)"));
  }
  if (header_size > file.size() - 8) {
    refuse_header(file, 0,
                  str("the header claims ", header_size, " bytes, only ", file.size() - 8,
                      " follow (truncated download?)"));
  }
  std::string header(header_size, '\0');
  file.read(8, header.data(), header_size, "the header");
  if (!header.starts_with('{')) refuse_header(file, 8, "the header does not start with '{'");
  out.in_->data_start = 8 + header_size;
  const u32 header_crc = HeaderParser(out, header).parse();
  std::sort(out.in_->entries.begin(), out.in_->entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
            });
  out.check_names();
  out.check_layout();
  out.check_checksums(header_crc);
  return out;
}

// The polyglot rule: sorted by offset, the tensors cover the rest of the file exactly.
void SafetensorsFile::check_layout() const {
  u64 next = 0;
  for (const TensorEntry& e : in_->entries) {
    if (e.begin != next) {
      data_error(
          path(), in_->data_start + next,
          str("tensor '", printable(e.name), "' begins at ", e.begin, ", ",
              e.begin < next ? "overlapping data that ends at " : "leaving a hole after ", next));
    }
    next = e.end;
  }
  const u64 present = in_->file.size() - in_->data_start;
  if (next != present) {
    data_error(path(), in_->data_start + std::min(next, present),
               str("the tensors need ", next, " bytes, the file has ", present,
                   next > present ? " (truncated download?)" : ": there is data after the end"));
  }
}

void SafetensorsFile::check_names() {
  in_->by_name.resize(in_->entries.size());
  std::iota(in_->by_name.begin(), in_->by_name.end(), 0u);
  std::sort(in_->by_name.begin(), in_->by_name.end(),
            [&](u32 a, u32 b) { return in_->entries[a].name < in_->entries[b].name; });
  const auto twice = std::adjacent_find(
      in_->by_name.begin(), in_->by_name.end(),
      [&](u32 a, u32 b) { return in_->entries[a].name == in_->entries[b].name; });
  if (twice != in_->by_name.end()) {
    data_error(path(), 8,
               "the tensor name '" + printable(in_->entries[*twice].name) + "' appears twice");
  }
  std::vector<const std::string*> keys;
  for (const auto& pair : in_->metadata) keys.push_back(&pair.first);
  std::sort(keys.begin(), keys.end(), [](auto* a, auto* b) { return *a < *b; });
  const auto same =
      std::adjacent_find(keys.begin(), keys.end(), [](auto* a, auto* b) { return *a == *b; });
  if (same != keys.end()) {
    data_error(path(), 8, "the metadata key '" + printable(**same) + "' appears twice");
  }
  std::sort(
      in_->checksums.begin(), in_->checksums.end(),
      [](const Contents::Checksum& a, const Contents::Checksum& b) { return a.name < b.name; });
}

// All or nothing: one sum for the header and one for each tensor, so that a damaged key cannot
// switch the verification off.
void SafetensorsFile::check_checksums(u32 header_crc) const {
  if (in_->checksums.empty()) return;
  if (!in_->checksums[0].name.empty())
    data_error(path(), 8, "the header's own checksum is missing");
  if (in_->checksums[0].crc != header_crc) {
    data_error(path(), 8,
               str("the header is damaged: its checksum is ", hex8(header_crc), ", not ",
                   hex8(in_->checksums[0].crc)));
  }
  bool match = in_->checksums.size() == in_->entries.size() + 1;
  for (std::size_t i = 0; match && i < in_->entries.size(); ++i) {
    match = in_->checksums[i + 1].name.substr(1) == in_->entries[in_->by_name[i]].name;
  }
  if (!match) data_error(path(), 8, "the checksums do not belong to these tensors");
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto at =
      std::lower_bound(in_->by_name.begin(), in_->by_name.end(), name,
                       [&](u32 i, std::string_view n) { return in_->entries[i].name < n; });
  return at != in_->by_name.end() && in_->entries[*at].name == name ? &in_->entries[*at] : nullptr;
}

const std::string* SafetensorsFile::find_metadata(std::string_view key) const noexcept {
  for (const auto& [name, value] : in_->metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

void SafetensorsFile::read(const TensorEntry& entry, void* dst) {
  if (entry.bytes() > in_->limits.max_bytes - in_->handed_out) {
    data_error(path(), in_->data_start + entry.begin,
               str("tensor '", printable(entry.name), "' of ", entry.bytes(),
                   " bytes passes the reader's limit of ", in_->limits.max_bytes, " bytes a file"));
  }
  transfer(entry, static_cast<char*>(dst));
  in_->handed_out += entry.bytes();
}

void SafetensorsFile::verify() const {
  for (const TensorEntry& entry : in_->entries) transfer(entry, nullptr);
}

void SafetensorsFile::transfer(const TensorEntry& entry, char* dst) const {
  const u32* expected = nullptr;
  if (!in_->checksums.empty()) {
    const auto at = std::lower_bound(in_->checksums.begin() + 1, in_->checksums.end(), entry.name,
                                     [](const Contents::Checksum& c, std::string_view n) {
                                       return std::string_view(c.name).substr(1) < n;
                                     });
    if (at != in_->checksums.end()) expected = &at->crc;
  }
  const u64 start = in_->data_start + entry.begin;
  std::string scratch(dst ? 0 : std::min(kReadChunk, entry.bytes()), '\0');
  u32 crc = 0;
  // In pieces that stay in the cache between the copy and the checks.
  for (u64 done = 0; done < entry.bytes(); done += kReadChunk) {
    const u64 count = std::min(kReadChunk, entry.bytes() - done);
    char* const to = dst ? dst + done : scratch.data();
    in_->file.read(start + done, to, count, "a tensor");
    if (expected) crc = crc32c(to, count, crc);
    if (entry.dtype != DType::boolean) continue;
    const auto odd = std::find_if(to, to + count, [](char c) { return c != 0 && c != 1; });
    if (odd != to + count) {
      data_error(path(), start + done + static_cast<u64>(odd - to),
                 str("tensor '", printable(entry.name), "' is bool and holds ", int(u8(*odd))));
    }
  }
  if (expected && crc != *expected) {
    data_error(path(), start,
               str("tensor '", printable(entry.name), "' is damaged: the checksum of its ",
                   entry.bytes(), " bytes is ", hex8(crc), ", not ", hex8(*expected)));
  }
}

// --- Writing ---

namespace {

struct WritePlan {
  std::vector<const SafetensorsItem*> order;
  std::vector<u64> sizes;
  u64 total = 0;
};

WritePlan plan_of(std::span<const SafetensorsItem> items) {
  WritePlan out;
  for (const SafetensorsItem& item : items) out.order.push_back(&item);
  std::sort(out.order.begin(), out.order.end(), [](auto* a, auto* b) {
    const i64 sa = item_size(a->dtype), sb = item_size(b->dtype);
    return sa != sb ? sa > sb : a->name < b->name;
  });
  for (const SafetensorsItem* item : out.order) {
    const auto refuse = [&](const std::string& why) {
      throw UsageError("[write_safetensors] tensor '" + printable(item->name) + "' " + why);
    };
    if (item->name == "__metadata__" || !is_utf8(item->name))
      refuse("has a name the format forbids");
    if (item->shape.size() > kMaxTensorDims) refuse("has more than 16 dimensions");
    for (const i64 size : item->shape) {
      if (size < 0 || u64(size) > kMaxInteger)
        refuse("has the shape " + detail::shape_text(item->shape));
    }
    u64 bytes = 0;
    if (!detail::dense_bytes(item->dtype, item->shape, bytes) || bytes > kMaxInteger - out.total) {
      refuse(detail::shape_text(item->shape) + " is too large for the format");
    }
    if (bytes > 0 && !item->data) refuse("has no data");
    out.sizes.push_back(bytes);
    out.total += bytes;
  }
  std::vector<std::string_view> names;
  for (const SafetensorsItem& item : items) names.push_back(item.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw UsageError("[write_safetensors] two tensors are named '" + printable(*twice) + "'");
  }
  return out;
}

std::string header_of(const WritePlan& plan, const SafetensorsOptions& options) {
  JsonObject metadata, root;
  for (const auto& [key, value] : options.metadata) {
    if (!is_utf8(key) || !is_utf8(value) || key.starts_with(kSumKey)) {
      throw UsageError("[write_safetensors] the metadata key '" + printable(key) +
                       "' is reserved or not UTF-8");
    }
    metadata.add(key, value);
  }
  if (options.checksums) {
    metadata.add(kSumKey, "00000000");
    for (std::size_t i = 0; i < plan.order.size(); ++i) {
      const SafetensorsItem& item = *plan.order[i];
      metadata.add(std::string(kSumKey) + ":" + item.name, hex8(crc32c(item.data, plan.sizes[i])));
    }
  }
  if (options.checksums || !options.metadata.empty()) root.add_raw("__metadata__", metadata.str());
  u64 begin = 0;
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    const SafetensorsItem& item = *plan.order[i];
    std::string dims;
    for (const i64 size : item.shape) dims += (dims.empty() ? "" : ",") + std::to_string(size);
    root.add_raw(item.name,
                 str("{\"dtype\":\"", kFormatNames[std::size_t(item.dtype)], "\",\"shape\":[", dims,
                     "],\"data_offsets\":[", begin, ",", begin + plan.sizes[i], "]}"));
    begin += plan.sizes[i];
  }
  std::string header = root.str();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (options.checksums) {
    // The first occurrence as a whole key with its value: an earlier metadata value cannot contain
    // it, because quotes inside strings are escaped.
    const std::string key = "\"wt.crc32c\":\"";
    const std::size_t digits = header.find(key) + key.size();
    header.replace(digits, 8, hex8(header_checksum(header, digits)));
  }
  return header;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const SafetensorsItem> items,
                       const SafetensorsOptions& options) {
  const WritePlan tensors = plan_of(items);
  const std::string header = header_of(tensors, options);
  const u64 header_size = header.size(), total = 8 + header_size + tensors.total;
  if (header_size > ParseLimits{}.max_header) {
    throw UsageError(str("[write_safetensors] the header would take ", header_size, " bytes"));
  }
  AtomicFileOptions how{.expected_bytes = total, .durable = options.durable};
  if (total <= options.verify_up_to) {
    how.verify = [](const std::string& temp) { SafetensorsFile::open(temp).verify(); };
  }
  AtomicFile file(path, std::move(how));
  file.write(&header_size, 8);
  file.write(header);
  for (std::size_t i = 0; i < tensors.order.size(); ++i) {
    file.write(tensors.order[i]->data, tensors.sizes[i]);
  }
  file.commit();
}

}  // namespace wt
