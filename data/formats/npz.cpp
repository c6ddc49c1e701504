#include "warptape/data/npz.h"

#include <algorithm>
#include <cstring>

#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/file_kind.h"
#include "warptape/core/files/file_shape.h"
#include "warptape/core/npy.h"
#include "warptape/core/suggest.h"
#include "warptape/data/bytes.h"
#include "warptape/data/formats/zip_parts.h"
#if WARPTAPE_HAS_ZLIB
#include <zlib.h>
#endif

namespace wt::data {
namespace {

Tensor tensor_of(const wt::detail::NpyBytes& file, const ParseLimits& limits) {
  const auto header = wt::detail::read_npy_header(file, limits);
  const size_t dims = header.shape.size();
  if (dims > size_t(kMaxDims))
    data_error(file.label, 8, str("the array has ", dims, " dimensions, the limit is ", kMaxDims));
  if (!wt::detail::strides_fit(header.dtype, header.shape))
    data_error(file.label, 8,
               str("the shape ", wt::detail::shape_text(header.shape), " is too large to address"));
  Shape stored;
  for (size_t i = 0; i < dims; ++i)
    stored.push_back(header.shape[header.fortran ? dims - 1 - i : i]);
  const CategoryScope scope(Category::dataset);
  Tensor t = empty(stored, {.dtype = header.dtype, .device = Device::cpu()});
  // Also for an array without bytes: its source still checks what follows the header.
  wt::detail::read_npy_data(file, header, t.impl()->data);
  if (!header.fortran || dims < 2) return t;
  std::vector<i64> order;
  for (size_t i = dims; i-- > 0;) order.push_back(i64(i));
  return t.permute(Dims(order));
}

}  // namespace

Tensor read_npy(const std::string& path, const ParseLimits& limits) {
  const InputFile file(path);
  return tensor_of({path, file.size(),
                    [&](u64 offset, void* dst, u64 bytes, std::string_view what) {
                      file.read(offset, dst, bytes, what);
                    }},
                   limits);
}

struct NpzFile::Member {
  u64 at = 0;                // of the local header
  u64 packed = 0, size = 0;  // bytes in the file, bytes of content
  u64 entry = 0;             // of its row in the directory
  u32 crc = 0;
  u16 flags = 0, method = 0;
  std::string file_name{};
};
struct NpzFile::Directory {
  std::vector<std::string> names{};
  std::vector<Member> members{};
  std::vector<size_t> by_name{};  // places in names and members
};

// The content of one member, in order, counted and summed up.
class NpzFile::Stream {
 public:
  Stream(const NpzFile& npz, const Member& m, std::string label)
      : file_(npz.file_), member_(m), label_(std::move(label)), at_(npz.content_start(m)) {
    left_ = m.packed;
#if WARPTAPE_HAS_ZLIB
    if (m.method == kDeflated && inflateInit2(&z_, -15) != Z_OK)
      throw OutOfMemory("zlib has no memory");
#else
    if (m.method == kDeflated)
      throw NotAvailable(str(label_,
                             " is deflated and this build has no zlib: ", why_without("zlib"),
                             "\n  Try np.savez instead of np.savez_compressed"));
#endif
  }
  ~Stream() {
#if WARPTAPE_HAS_ZLIB
    if (member_.method == kDeflated) inflateEnd(&z_);
#endif
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void read(u64 offset, void* dst, u64 bytes, std::string_view what) {
    WT_INTERNAL_ASSERT(offset == done_);
    if (bytes > member_.size - done_)
      data_error(label_, member_.size,
                 str(what, " needs ", bytes, " bytes from byte ", offset, ", the member has ",
                     member_.size));
    if (member_.method == kStored) {
      file_.read(at_, dst, bytes, what);
      at_ += bytes;
    } else {
      inflate_into(static_cast<u8*>(dst), bytes);
    }
    crc_ = crc32_of(crc_, dst, bytes);
    done_ += bytes;
  }

  // After the last byte: nothing may follow, and the sum must be right.
  void finish() {
    if (member_.method == kDeflated) check_end();
    if (crc_ != member_.crc)
      data_error(label_, done_, "the content does not have the CRC-32 that the directory names");
  }

 private:
#if WARPTAPE_HAS_ZLIB
  void refill() {
    if (z_.avail_in > 0 || left_ == 0) return;
    const u64 n = std::min<u64>(left_, sizeof buffer_);
    file_.read(at_, buffer_, n, "a deflated member");
    at_ += n;
    left_ -= n;
    z_.next_in = buffer_;
    z_.avail_in = uInt(n);
  }
  void inflate_into(u8* dst, u64 bytes) {
    u64 got = 0;
    while (got < bytes) {
      refill();
      const uInt room = uInt(std::min<u64>(bytes - got, u64{1} << 30));
      z_.next_out = dst + got;
      z_.avail_out = room;
      const int status = ended_ ? Z_STREAM_END : inflate(&z_, Z_NO_FLUSH);
      got += room - z_.avail_out;
      ended_ = status == Z_STREAM_END;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        data_error(label_, done_ + got, str("damaged deflate data: ", z_.msg ? z_.msg : "?"));
      if (got < bytes && (ended_ || (z_.avail_in == 0 && left_ == 0)))
        data_error(
            label_, done_ + got,
            str("the deflate data ends early, the directory names ", member_.size, " bytes"));
    }
  }
  void check_end() {
    u8 extra = 0;
    while (!ended_) {
      refill();
      const bool empty = z_.avail_in == 0;
      z_.next_out = &extra;
      z_.avail_out = 1;
      const int status = inflate(&z_, Z_NO_FLUSH);
      ended_ = status == Z_STREAM_END;
      if (z_.avail_out == 0)
        data_error(label_, done_,
                   str("inflates to more than the ", member_.size, " bytes that are declared"));
      if (!ended_ && (empty || status != Z_OK))
        data_error(label_, done_, "the deflate data does not end");
    }
    if (z_.avail_in > 0 || left_ > 0)
      data_error(label_, done_, str(z_.avail_in + left_, " bytes follow the deflate data"));
  }
  z_stream z_{};
  u8 buffer_[1 << 15];
  bool ended_ = false;
#else
  void inflate_into(u8*, u64) {}
  void check_end() {}
#endif

  const InputFile& file_;
  const Member& member_;
  std::string label_;
  u64 at_, left_ = 0, done_ = 0;
  u32 crc_ = 0;
};

NpzFile::~NpzFile() = default;
NpzFile::NpzFile(NpzFile&&) noexcept = default;
NpzFile& NpzFile::operator=(NpzFile&&) noexcept = default;
const std::vector<std::string>& NpzFile::names() const { return in_->names; }
NpzFile::NpzFile(const std::string& path, const ParseLimits& limits)
    : file_(path), limits_(limits), in_(new Directory) {
  read_directory();
}

void NpzFile::read_directory() {
  const std::string& path = file_.path();
  u8 magic[4] = {};
  file_.read(0, magic, 4, "the magic number");
  if (little<u32>(magic) != kLocalMagic && little<u32>(magic) != kEndMagic)
    data_error(path, 0, "not an .npz file: it does not start as a zip archive does");
  const auto [start, bytes, total] = find_zip_directory(file_);
  if (bytes > limits_.max_header || total > limits_.max_items)
    data_error(path, start,
               str("a zip directory of ", total, " members and ", bytes,
                   " bytes passes the limits of ", limits_.max_items, " and ", limits_.max_header));
  if (bytes < total * kEntrySize)
    data_error(path, start,
               str("the zip directory claims ", total, " members in ", bytes, " bytes"));
  std::vector<u8> directory(static_cast<size_t>(bytes));
  file_.read(start, directory.data(), bytes, "the zip directory");
  u64 at = 0;
  for (u64 i = 0; i < total; ++i) {
    Member m = parse_entry(directory, at, start);
    std::string name = m.file_name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    in_->names.push_back(std::move(name));
    in_->members.push_back(std::move(m));
  }
  if (at != bytes) data_error(path, start + at, "bytes after the last entry of the zip directory");
  sort_names();
  check_layout(start);
}

NpzFile::Member NpzFile::parse_entry(const std::vector<u8>& directory, u64& at, u64 base) const {
  const std::string& path = file_.path();
  const u64 entry = base + at;
  if (directory.size() - at < kEntrySize)
    data_error(path, entry, "an entry of the zip directory is cut short");
  const u8* p = directory.data() + at;
  if (little<u32>(p) != kEntryMagic) data_error(path, entry, "not an entry of a zip directory");
  const u64 name = little<u16>(p + 28), extra = little<u16>(p + 30), comment = little<u16>(p + 32);
  if (directory.size() - at - kEntrySize < name + extra + comment)
    data_error(path, entry, "an entry of the zip directory is cut short");
  Member m{.at = little<u32>(p + 42),
           .packed = little<u32>(p + 20),
           .size = little<u32>(p + 24),
           .entry = entry,
           .crc = little<u32>(p + 16),
           .flags = little<u16>(p + 8),
           .method = little<u16>(p + 10)};
  m.file_name.assign(reinterpret_cast<const char*>(p + kEntrySize), name);
  at += kEntrySize + name + extra + comment;
  const auto refuse = [&](const std::string& why) {
    data_error(path, entry, "member '" + printable(m.file_name) + "' " + why);
  };
  if (is_pytorch_member(m.file_name))
    data_error(path, 0, "this is " + pytorch_archive(file_, "an npz archive"));
  if ((m.size == 0xffffffff || m.packed == 0xffffffff || m.at == 0xffffffff) &&
      !widen_zip_entry(p + kEntrySize + name, extra, {&m.size, &m.packed, &m.at}))
    refuse("is zip64 and does not say how large it is");
  if (m.at > base || m.packed > base - m.at)
    refuse(str("of ", m.packed, " bytes at byte ", m.at, " reaches into the directory"));
  if (m.flags & kEncrypted) refuse("is encrypted");
  if (m.method != kStored && m.method != kDeflated)
    refuse(str("is packed by method ", m.method, "; stored (0) and deflated (8) are read"));
  if (little<u16>(p + 34) != 0) refuse("is in another part of the archive");
  if (m.method == kStored && m.packed != m.size)
    refuse(str("is stored, yet has ", m.packed, " bytes for ", m.size));
  if (m.size > limits_.max_bytes)
    refuse(str("has ", m.size, " bytes, the limit is ", limits_.max_bytes));
  if (m.size > (m.packed + 1) * kDeflateRatio)
    refuse(str("claims ", m.size, " bytes from ", m.packed, ", more than deflate can hold"));
  if (const u64 most = limits_.most_inflated(m.packed); m.method == kDeflated && m.size > most)
    refuse(str("of ", m.packed, " bytes claims ", m.size, " inflated, the limit is ", most,
               " (ParseLimits::max_inflated)"));
  if (kLocalSize + m.packed > base - m.at)
    refuse(str("of ", m.packed, " bytes at byte ", m.at, " reaches into the directory"));
  return m;
}

// One member after the other fills the file up to the directory: what lay between them would be
// seen by programs that read from the front, and by none that reads the directory.
void NpzFile::check_layout(u64 directory) const {
  std::vector<const Member*> by_place;
  for (const Member& m : in_->members) by_place.push_back(&m);
  std::sort(by_place.begin(), by_place.end(),
            [](const Member* a, const Member* b) { return a->at < b->at; });
  for (size_t i = 0; i < by_place.size(); ++i) {
    const Member& m = *by_place[i];
    const u64 next = i + 1 < by_place.size() ? by_place[i + 1]->at : directory;
    const std::string name = "member '" + printable(m.file_name) + "'";
    if (kLocalSize + m.file_name.size() + m.packed > next - m.at)
      data_error(file_.path(), m.entry, name + " overlaps the next one");
    const u64 end = content_start(m) + m.packed;
    if (end > next) data_error(file_.path(), m.entry, name + " overlaps the next one");
    if (end != next && !(m.flags & kDescribed && is_descriptor(m, end, next - end)))
      data_error(file_.path(), end, str(next - end, " bytes that belong to nothing follow ", name));
  }
  const u64 first = by_place.empty() ? directory : by_place[0]->at;
  if (first != 0) data_error(file_.path(), 0, str(first, " bytes before the first member"));
}

// What follows a member whose writer could not go back to its header: magic (or not), CRC-32, both
// sizes in 4 or 8 bytes.
bool NpzFile::is_descriptor(const Member& m, u64 at, u64 bytes) const {
  if (bytes != 12 && bytes != 16 && bytes != 20 && bytes != 24) return false;
  u8 p[24] = {};
  file_.read(at, p, bytes, "a zip member's descriptor");
  const u8* fields = p;
  if (bytes == 16 || bytes == 24) {
    if (little<u32>(p) != kDescriptorMagic) return false;
    fields += 4;
  }
  const bool wide = bytes >= 20;
  const u64 packed = wide ? little<u64>(fields + 4) : little<u32>(fields + 4);
  const u64 size = wide ? little<u64>(fields + 12) : little<u32>(fields + 8);
  return little<u32>(fields) == m.crc && packed == m.packed && size == m.size;
}

// Where a member's bytes begin: its local header has a length of its own.
u64 NpzFile::content_start(const Member& m) const {
  u8 p[kLocalSize] = {};
  file_.read(m.at, p, kLocalSize, "a zip member's header");
  const auto refuse = [&](const char* why) {
    data_error(file_.path(), m.at, "member '" + printable(m.file_name) + "' " + why);
  };
  if (little<u32>(p) != kLocalMagic) refuse("does not begin here");
  const u64 name = little<u16>(p + 26), extra = little<u16>(p + 28);
  std::string local(name, '\0');
  file_.read(m.at + kLocalSize, local.data(), name, "a zip member's name");
  if (local != m.file_name || little<u16>(p + 8) != m.method || little<u16>(p + 6) != m.flags)
    refuse("differs from its entry in the directory");
  const u64 start = m.at + kLocalSize + name + extra;
  if (start > file_.size() || m.packed > file_.size() - start) refuse("is cut short");
  return start;
}

void NpzFile::sort_names() {
  for (size_t i = 0; i < in_->names.size(); ++i) in_->by_name.push_back(i);
  std::ranges::stable_sort(in_->by_name, {},
                           [&](size_t i) -> const std::string& { return in_->names[i]; });
  for (size_t i = 1; i < in_->by_name.size(); ++i)
    if (const std::string& name = in_->names[in_->by_name[i]];
        name == in_->names[in_->by_name[i - 1]])
      data_error(file_.path(), in_->members[in_->by_name[i]].entry,
                 "the archive has '" + printable(name) + "' twice");
}

// The place in Directory::members, or -1.
i64 NpzFile::find(const std::string& name) const {
  const auto found = std::ranges::lower_bound(
      in_->by_name, name, {}, [&](size_t i) -> const std::string& { return in_->names[i]; });
  return found != in_->by_name.end() && in_->names[*found] == name ? i64(*found) : -1;
}

bool NpzFile::contains(const std::string& name) const { return find(name) >= 0; }

Tensor NpzFile::read(const std::string& name) const {
  const i64 found = find(name);
  if (found < 0)
    throw UsageError(str("[NpzFile] ", printable(file_.path(), 400), " has no array '",
                         printable(name), "'", did_you_mean(name, in_->names)));
  const Member& m = in_->members[size_t(found)];
  const std::string label =
      printable(file_.path(), 400) + ": member '" + printable(m.file_name) + "'";
  Stream stream(*this, m, label);
  Tensor t = tensor_of({label, m.size,
                        [&](u64 offset, void* dst, u64 bytes, std::string_view what) {
                          stream.read(offset, dst, bytes, what);
                        }},
                       limits_);
  stream.finish();
  return t;
}

}  // namespace wt::data
