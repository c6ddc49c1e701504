#include "warptape/tools/wt/data/data_info.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "warptape/core/files/json.h"
#include "warptape/core/npy.h"
#include "warptape/core/safetensors.h"
#include "warptape/data/bytes.h"
#include "warptape/data/cifar.h"
#include "warptape/data/csv.h"
#include "warptape/data/idx.h"
#include "warptape/data/image.h"
#include "warptape/data/lmdb.h"
#include "warptape/data/mesh.h"
#include "warptape/data/npz.h"
#include "warptape/data/shard.h"
#include "warptape/data/tfrecord.h"
#include "warptape/data/tokens.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

DataPart part(std::string name, const Tensor& t) {
  return {std::move(name), dtype_name(t.dtype()), str(t.shape())};
}
std::string shape_text(const std::vector<i64>& sizes) {
  std::string s;
  for (const i64 n : sizes) s += (s.empty() ? "" : ", ") + (n < 0 ? "*" : str(n));
  return "[" + s + "]";
}

i64 bytes_on_disk(const std::string& path) {
  std::error_code why;
  if (!fs::is_directory(path, why)) return i64(fs::file_size(path, why));
  i64 total = 0;
  for (fs::recursive_directory_iterator at(path, why), end; !why && at != end; at.increment(why))
    if (std::error_code none; at->is_regular_file(none)) total += i64(at->file_size(none));
  return total;
}

// 1 + the largest label.
i64 classes_of(const Tensor& labels) {
  i64 most = -1;
  for (const u8 label : labels.to_vector<u8>()) most = std::max<i64>(most, label);
  return most + 1;
}

void add_idx(DataInfo& info, const std::string& path, const std::string& name) {
  const Shape shape = data::idx_shape(path);
  info.parts.push_back({name, "u8", str(shape)});
  info.packed = packing_of(path);
  if (shape.size() == 1)
    info.classes = std::max(info.classes, classes_of(data::read_idx(path)));
  else
    info.samples = std::max<i64>(info.samples, 0) + shape[0];
}

void idx_folder(DataInfo& info) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    if (const std::string path = present_file(info.path, name); !path.empty())
      add_idx(info, path, name);
}

void add_cifar(DataInfo& info, const std::string& path, const std::string& name, int labels) {
  info.packed = packing_of(path);
  info.classes = labels == 1 ? data::Cifar10::kClasses : data::Cifar100::kClasses;
  Tensor images;
  if (labels == 1)
    images = data::read_cifar10(path).images;
  else
    images = data::read_cifar100(path).images;
  info.parts.push_back(part(name, images));
  info.samples = std::max<i64>(info.samples, 0) + images.size(0);
}

void cifar_folder(DataInfo& info) {
  const CifarFiles f = cifar_files(info.path);
  info.format = f.labels == 1 ? "CIFAR-10 files" : "CIFAR-100 files";
  for (const auto& list : {f.train, f.test})
    for (const auto& [name, path] : list) add_cifar(info, path, name, f.labels);
}

void npz(DataInfo& info) {
  const data::NpzFile file(info.path);
  for (const std::string& name : file.names()) {
    const Tensor t = file.read(name);
    info.parts.push_back(part(name, t));
    const i64 rows = t.ndim() ? t.size(0) : -1;
    info.samples = info.parts.size() == 1 || info.samples == rows ? rows : -1;
  }
}

void npy(DataInfo& info) {
  const NpyFile file = NpyFile::open(info.path);
  info.parts.push_back({"", dtype_name(file.dtype()), shape_text(file.shape())});
  if (!file.shape().empty()) info.samples = file.shape()[0];
  if (file.fortran_order()) info.notes.push_back("in Fortran order");
}

void safetensors(DataInfo& info) {
  const SafetensorsFile file = SafetensorsFile::open(info.path);
  for (const TensorEntry& e : file.entries())
    info.parts.push_back({e.name, dtype_name(e.dtype), shape_text(e.shape)});
}

void tokens(DataInfo& info) {
  const data::TokenFile f = data::read_tokens(info.path);
  info.format = f.format == data::TokenFormat::llm_c ? "tokens, llm.c's" : "tokens, u16";
  if (f.format == data::TokenFormat::raw16)
    info.notes.push_back("u16 by its name alone: the content of such a file says nothing");
  info.packed = packing_of(info.path);
  info.samples = f.tokens.numel();
  i32 most = -1;
  for (const i32 t : f.tokens.to_vector<i32>()) most = std::max(most, t);
  info.classes = i64(most) + 1;
  info.parts.push_back({"tokens", "u16", str(f.tokens.shape())});
}

DataPart field_part(const data::ShardField& f) {
  if (f.kind == data::ShardKind::tensor) return {f.name, dtype_name(f.dtype), shape_text(f.shape)};
  return {f.name, f.kind == data::ShardKind::bytes ? "bytes" : "string", ""};
}

void shards(DataInfo& info) {
  const data::Shards s(info.path);
  info.samples = s.size();
  for (const data::ShardField& f : s.fields()) info.parts.push_back(field_part(f));
  info.notes.push_back(str(s.files().size(), s.files().size() == 1 ? " file, " : " files, ",
                           s.mapped() == i64(s.files().size())
                               ? "verified: they are mapped"
                               : "not verified as they are: they are read (wt data verify)"));
}

void lmdb(DataInfo& info) {
  const data::LmdbReader reader(info.path);
  info.samples = reader.size();
  for (const auto& [name, entries] : reader.databases())
    info.parts.push_back({name, "", str(entries, " entries")});
  if (!reader.databases().empty()) {
    info.samples = -1;
    info.notes.push_back("named databases");
    return;
  }
  try {
    const data::LmdbRecords records(info.path);
    info.samples = records.size();
    for (const data::ShardField& f : records.fields()) info.parts.push_back(field_part(f));
  } catch (const DataError&) {
    info.notes.push_back("entries of another program, read as bytes");
  }
}

void tfrecord(DataInfo& info) {
  std::vector<std::string> files{info.path};
  if (fs::is_directory(info.path)) {
    files.clear();
    for (const auto& e : fs::directory_iterator(info.path)) files.push_back(e.path().string());
    std::sort(files.begin(), files.end());
  }
  info.samples = 0;
  for (const std::string& path : files) {
    if (info.packed.empty()) info.packed = packing_of(path);
    data::TfRecordReader reader(path);
    std::string record;
    for (; reader.next(record); ++info.samples) {
      if (info.samples > 0) continue;
      try {
        for (const auto& [name, value] : data::parse_tf_example(record, path)) {
          static constexpr const char* kTypes[] = {"none", "bytes", "f32", "i64"};
          const auto size = [](const auto& v) {
            if constexpr (requires { v.size(); }) return i64(v.size());
            return i64{0};
          };
          info.parts.push_back(
              {name, kTypes[value.index()], shape_text({std::visit(size, value)})});
        }
      } catch (const DataError&) {
        info.notes.push_back("records that are no tf.Example");
      }
    }
  }
  if (!info.parts.empty()) info.notes.push_back("features and lengths of the first record");
}

void image(DataInfo& info) {
  info.format = image_format_of(raw_head(info.path, 12));
  info.parts.push_back(part("", data::read_image(info.path)));
}

void image_folder(DataInfo& info) {
  const ImageFiles all = image_files(info.path);
  info.samples = i64(all.files.size());
  if (!all.classes.empty()) info.classes = i64(all.classes.size());
  std::map<std::string, i64> formats;
  std::vector<i64> in_class(all.classes.size() + 1);
  for (const auto& [path, label] : all.files) {
    ++formats[std::string(image_format_of(raw_head(path, 12)))];
    ++in_class[size_t(label + 1)];
  }
  std::string text;
  for (const auto& [format, n] : formats) text += (text.empty() ? "" : ", ") + str(n, " ", format);
  info.notes.push_back(text);
  if (all.others) info.notes.push_back(str(all.others, " other files"));
  if (in_class[0]) info.parts.push_back({"(no class)", "", str(in_class[0], " images")});
  for (size_t c = 0; c < all.classes.size(); ++c)
    info.parts.push_back({all.classes[c], "", str(in_class[c + 1], " images")});
}

void mesh(DataInfo& info) {
  const std::vector<u8> head = data::read_first_bytes(info.path, 16);
  const std::string_view first = data::text_of(head);
  info.packed = packing_of(info.path);
  data::Mesh m;
  if (first.starts_with("ply"))
    m = data::read_ply(info.path);
  else if (begins_as_off(first))
    m = data::read_off(info.path);
  else
    m = data::read_mesh(info.path);
  info.parts = {part("vertices", m.vertices), part("faces", m.faces)};
  if (m.degenerate) info.notes.push_back(str(m.degenerate, " faces of no area"));
}

// The fields of one line, without quotes.
std::vector<std::string> csv_names(std::string_view line, char separator) {
  std::vector<std::string> names{""};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == separator && !quoted)
      names.emplace_back();
    else
      names.back() += c;
  }
  return names;
}

bool is_number(const std::string& word) {
  char* end = nullptr;
  (void)std::strtod(word.c_str(), &end);
  return end != word.c_str() && *end == '\0';
}

// Numbers, and words where a column has any; every field is read as a word first.
void csv(DataInfo& info) {
  const std::vector<u8> bytes = data::read_text(info.path);
  const std::string_view all = data::text_of(bytes);
  const std::string_view line = all.substr(0, all.find_first_of("\r\n"));
  data::CsvOptions o{.separator = ','};
  for (const char c : {';', '\t'})
    if (std::count(line.begin(), line.end(), c) > std::count(line.begin(), line.end(), o.separator))
      o.separator = c;
  const std::vector<std::string> names = csv_names(line, o.separator);
  for (size_t i = 0; i < names.size(); ++i) o.categories.emplace_back(i64(i));
  info.packed = packing_of(info.path);
  try {
    const data::CsvTable t = data::read_csv(info.path, o);
    info.samples = t.rows();
    for (size_t i = 0; i < t.names.size(); ++i) {
      const std::vector<std::string>& words = t.categories[i];
      const bool numbers = std::all_of(words.begin(), words.end(), is_number);
      info.parts.push_back(
          {t.names[i], numbers ? "number" : "words", str(words.size(), " different")});
    }
  } catch (const DataError& e) {  // an empty field, say: read_csv() has options for some of it
    for (const std::string& name : names) info.parts.push_back({name, "", ""});
    info.notes.push_back(e.what());
  }
}

void text(DataInfo& info) {
  const std::vector<u8> bytes = data::read_text(info.path);
  const std::string_view all = data::text_of(bytes);
  if (!is_utf8(all))
    throw DataError(str(printable_path(info.path),
                        ": neither UTF-8 nor another "
                        "format that is known"));
  info.packed = packing_of(info.path);
  info.samples = std::count(all.begin(), all.end(), '\n') + (!all.empty() && all.back() != '\n');
  info.notes.push_back(str(all.size(), " bytes of text"));
}

void fill(DataInfo& info, DataKind kind) {
  switch (kind) {
    case DataKind::idx:
      return add_idx(info, info.path, "");
    case DataKind::idx_folder:
      return idx_folder(info);
    case DataKind::cifar10:
      return add_cifar(info, info.path, "images", 1);
    case DataKind::cifar100:
      return add_cifar(info, info.path, "images", 2);
    case DataKind::cifar_folder:
      return cifar_folder(info);
    case DataKind::npy:
      return npy(info);
    case DataKind::npz:
      return npz(info);
    case DataKind::safetensors:
      return safetensors(info);
    case DataKind::tokens:
      return tokens(info);
    case DataKind::shards:
      return shards(info);
    case DataKind::tfrecord:
      return tfrecord(info);
    case DataKind::lmdb:
      return lmdb(info);
    case DataKind::image:
      return image(info);
    case DataKind::image_folder:
      return image_folder(info);
    case DataKind::mesh:
      return mesh(info);
    case DataKind::csv:
      return csv(info);
    case DataKind::text:
      return text(info);
  }
}

}  // namespace

DataInfo data_info(const std::string& path) {
  const DataKind kind = data_kind_of(path);
  DataInfo info{.path = path, .format = kind_name(kind), .bytes = bytes_on_disk(path)};
  fill(info, kind);
  return info;
}

std::string DataInfo::json() const {
  JsonObject j;
  j.add("path", path).add("format", format).add("packed", packed).add("bytes", bytes);
  samples < 0 ? j.add_null("samples") : j.add("samples", samples);
  classes < 0 ? j.add_null("classes") : j.add("classes", classes);
  std::string list;
  for (const DataPart& p : parts)
    list += (list.empty() ? "" : ",") +
            JsonObject().add("name", p.name).add("dtype", p.dtype).add("shape", p.shape).str();
  j.add_raw("parts", "[" + list + "]");
  list.clear();
  for (const std::string& n : notes) list += (list.empty() ? "" : ",") + json_quote(n);
  return j.add_raw("notes", "[" + list + "]").str();
}

std::string DataInfo::text() const {
  std::string s = printable_path(path) + ": " + format;
  if (!packed.empty()) s += ", " + packed;
  s += ", " + (bytes < 1024 ? str(bytes, " bytes") : bytes_text(bytes));
  if (samples >= 0)
    s += str(", ", samples,
             format.starts_with("tokens") ? " tokens"
             : format == "text"           ? " lines"
                                          : " samples");
  if (classes >= 0)
    s += str(", ", classes, format.starts_with("tokens") ? " at most different" : " classes");
  s += "\n";
  size_t name = 0, dtype = 0;
  for (const DataPart& p : parts) {
    name = std::max(name, printable(p.name).size());
    dtype = std::max(dtype, p.dtype.size());
  }
  constexpr size_t kMostParts = 40;  // of a long list the beginning
  for (size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
    std::string line = "  " + printable(parts[i].name);
    line.resize(2 + name + (name ? 2 : 0), ' ');
    line += parts[i].dtype;
    line.resize(2 + name + (name ? 2 : 0) + dtype + (dtype ? 2 : 0), ' ');
    s += line + parts[i].shape + "\n";
  }
  if (parts.size() > kMostParts)
    s += str("  and ", parts.size() - kMostParts, " more (--json has all)\n");
  for (const std::string& n : notes) s += "  " + n + "\n";
  return s;
}

}  // namespace wt::tools
