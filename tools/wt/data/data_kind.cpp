#include "warptape/tools/wt/data/data_kind.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"
#include "warptape/data/image.h"
#include "warptape/data/tfrecord_parts.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHead = 4096;
constexpr u64 kCifar10 = 1 + 3072, kCifar100 = 2 + 3072;
constexpr const char* kKnown =
    "known are IDX (MNIST), CIFAR-10 and CIFAR-100 (binary), npy, npz, safetensors, token files "
    "(.bin), shards, TFRecord, LMDB, JPEG, PNG, WebP, PPM, folders of images, OBJ, OFF, PLY, XYZ, "
    "CSV and text in UTF-8";

u32 number32(std::string_view head, size_t at) {
  return at + 4 <= head.size() ? data::little<u32>(reinterpret_cast<const u8*>(&head[at])) : 0;
}

bool ends_with(const std::string& path, std::initializer_list<const char*> endings) {
  std::string name = fs::path(path).filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return char(tolower(c)); });
  for (const char* packed : {".gz", ".xz"})
    if (name.ends_with(packed)) name.resize(name.size() - 3);
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* e) { return name.ends_with(e); });
}

bool is_idx(std::string_view h) {
  return h.size() >= 8 && h[0] == 0 && h[1] == 0 && u8(h[2]) >= 8 && u8(h[2]) <= 14 && h[3] >= 1 &&
         h[3] <= 8;
}
bool is_tfrecord(const std::string& path) {
  bool zlib = false;
  try {
    zlib = data::is_zlib_tfrecord(path);
    return data::begins_with_tfrecord(data::text_of(data::read_first_bytes(path, 12, zlib)));
  } catch (const DataError&) {
    return false;  // two bytes of another file that zlib's begin with
  } catch (const NotAvailable&) {
    if (!zlib) throw;
    return false;  // the same bytes, and no zlib to tell
  }
}
bool is_safetensors(std::string_view h) {
  return h.size() >= 9 && number32(h, 4) == 0 && number32(h, 0) >= 2 && h[8] == '{';
}
bool is_text(std::string_view h, bool whole) {
  if (h.empty() || h.find('\0') != h.npos) return false;
  if (whole) return is_utf8(h);
  for (int cut = 0; cut < 4; ++cut)  // within a character
    if (is_utf8(h.substr(0, h.size() - size_t(cut)))) return true;
  return false;
}

// Whether every record of so many bytes begins with labels below the numbers of classes.
bool is_cifar(const std::string& path, u64 record, std::initializer_list<int> classes) {
  data::Content file(path);
  if (const auto size = file.size(); size && (*size == 0 || *size % record != 0)) return false;
  std::vector<u8> bytes(record);
  for (u64 n = 0;; ++n) {
    const u64 got = file.read(bytes.data(), record);
    if (got == 0) return n > 0;
    if (got != record) return false;
    size_t at = 0;
    for (const int c : classes)
      if (bytes[at++] >= c) return false;
  }
}

std::string first_of(const std::vector<u8>& head) {
  std::string s;
  for (size_t i = 0; i < std::min<size_t>(head.size(), 8); ++i)
    s += str(i ? " " : "", int(head[i]));
  return s;
}

DataKind file_kind(const std::string& path) {
  const std::string raw = raw_head(path, 32);
  for (const size_t magic_at : {16, 24})  // of LMDB 0.9 and 1.0
    if (number32(raw, magic_at) == 0xBEEFC0DE) return DataKind::lmdb;
  const std::vector<u8> bytes = data::read_first_bytes(path, kHead);
  const std::string_view head = data::text_of(bytes);
  if (head.starts_with("\x93NUMPY")) return DataKind::npy;
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06")) return DataKind::npz;
  if (head.starts_with(std::string_view("\x89WTS\r\n\x1a\n", 8))) return DataKind::shards;
  if (!image_format_of(head).empty()) return DataKind::image;
  if (is_tfrecord(path)) return DataKind::tfrecord;
  if (is_idx(head)) return DataKind::idx;
  if (number32(head, 0) == 20240520) return DataKind::tokens;  // llm.c
  if (is_safetensors(head)) return DataKind::safetensors;
  if (head.starts_with("ply\n") || head.starts_with("ply\r") || begins_as_off(head))
    return DataKind::mesh;
  if (is_text(head, bytes.size() < kHead)) {
    if (ends_with(path, {".obj", ".off", ".xyz"})) return DataKind::mesh;
    return ends_with(path, {".csv", ".tsv"}) ? DataKind::csv : DataKind::text;
  }
  if (is_cifar(path, kCifar10, {10})) return DataKind::cifar10;
  if (is_cifar(path, kCifar100, {20, 100})) return DataKind::cifar100;
  if (ends_with(path, {".bin"}) && !bytes.empty()) return DataKind::tokens;
  data_error(path, 0,
             bytes.empty()
                 ? "the file is empty"
                 : str("nothing that is known: it begins with ", first_of(bytes), "; ", kKnown));
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code why;
  std::vector<fs::path> all;
  for (fs::directory_iterator at(folder, why), end; !why && at != end; at.increment(why))
    if (!at->path().filename().string().starts_with(".")) all.push_back(at->path());
  if (why)
    throw DataError(str(printable_path(folder.string()), ": cannot be listed: ", why.message()));
  std::sort(all.begin(), all.end());
  return all;
}

DataKind folder_kind(const std::string& path) {
  const std::vector<fs::path> all = sorted_entries(path);
  std::error_code ignored;
  for (const fs::path& p : all) {
    if (p.extension() == ".wtshard") return DataKind::shards;
    if (p.filename() == "data.mdb") return DataKind::lmdb;
  }
  for (const char* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"})
    if (!present_file(path, name).empty()) return DataKind::idx_folder;
  if (cifar_files(path).labels) return DataKind::cifar_folder;
  if (!image_files(path).files.empty()) return DataKind::image_folder;
  bool records = false;
  for (const fs::path& p : all)
    if (fs::is_regular_file(p, ignored)) {
      if (!is_tfrecord(p.string()))
        throw DataError(str(printable_path(path), ": a folder in which nothing is known, ",
                            printable(p.filename().string()), " for example; ", kKnown,
                            "\n  Try its files one by one"));
      records = true;
    }
  if (records) return DataKind::tfrecord;
  throw DataError(str(printable_path(path), ": a folder without files; ", kKnown));
}

}  // namespace

const char* kind_name(DataKind kind) {
  static constexpr const char* kNames[] = {
      "IDX",   "IDX files",        "CIFAR-10", "CIFAR-100", "CIFAR files", "npy",
      "npz",   "safetensors",      "tokens",   "shards",    "TFRecord",    "LMDB",
      "image", "folder of images", "mesh",     "CSV",       "text"};
  return kNames[int(kind)];
}

DataKind data_kind_of(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? folder_kind(path) : file_kind(path);
}

bool begins_as_off(std::string_view head) {
  for (const std::string_view has : {"ST", "C", "N"})
    if (head.starts_with(has)) head.remove_prefix(has.size());
  return head.starts_with("OFF") && head.size() > 3 &&
         (std::isspace(u8(head[3])) || std::isdigit(u8(head[3])));
}

std::string_view image_format_of(std::string_view head) {
  const auto format = data::image_format(head);
  // Text may begin with P5, too.
  if (format == data::ImageFormat::pnm &&
      (head.size() < 3 || !(std::isspace(u8(head[2])) || head[2] == '#')))
    return "";
  return format ? data::image_format_name(*format) : "";
}

std::string raw_head(const std::string& path, u64 n) {
  const InputFile file(path);
  std::string head(std::min(n, file.size()), '\0');
  file.read(0, head.data(), head.size(), "its beginning");
  return head;
}

std::string packing_of(const std::string& path) {
  const std::string head = raw_head(path, 6);
  if (head.starts_with("\x1f\x8b")) return "gzip";
  if (data::is_zlib_tfrecord(path) && is_tfrecord(path)) return "zlib";
  return head == std::string_view(
                     "\xfd"
                     "7zXZ\0",
                     6)
             ? "xz"
             : "";
}

std::string present_file(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  std::string dotted = name;  // "train-images.idx3-ubyte" is seen in the wild
  if (const size_t at = dotted.find("-idx"); at != dotted.npos) dotted[at] = '.';
  for (const std::string& n : {name, dotted})
    for (const char* packed : {"", ".gz", ".xz"})
      if (const fs::path file = fs::path(folder) / (n + packed); fs::is_regular_file(file, ignored))
        return file.string();
  return "";
}

CifarFiles cifar_files(const std::string& folder) {
  const auto add = [](std::vector<std::pair<std::string, std::string>>& to, const std::string& in,
                      const std::string& name) {
    if (std::string path = present_file(in, name + ".bin"); !path.empty())
      to.emplace_back(name, std::move(path));
  };
  for (const char* inside : {"", "/cifar-10-batches-bin", "/cifar-100-binary"}) {
    const std::string in = folder + inside;
    CifarFiles f{.labels = 1};
    for (int i = 1; i <= 5; ++i) add(f.train, in, str("data_batch_", i));
    add(f.test, in, "test_batch");
    if (!f.train.empty()) return f;
    f = {.labels = 2};
    add(f.train, in, "train");
    add(f.test, in, "test");
    if (!f.train.empty() && !f.test.empty()) return f;
  }
  return {};
}

ImageFiles image_files(const std::string& folder) {
  ImageFiles all;
  std::error_code ignored;
  const auto add = [&](const fs::path& file, i64 label) {
    if (!fs::is_regular_file(file, ignored)) return;
    if (image_format_of(raw_head(file.string(), 12)).empty())
      ++all.others;
    else
      all.files.emplace_back(file.string(), label);
  };
  for (const fs::path& p : sorted_entries(folder)) {
    if (!fs::is_directory(p, ignored)) {
      add(p, -1);
      continue;
    }
    const size_t before = all.files.size();
    for (const fs::path& file : sorted_entries(p)) add(file, i64(all.classes.size()));
    if (all.files.size() > before) all.classes.push_back(p.filename().string());
  }
  return all;
}

}  // namespace wt::tools
