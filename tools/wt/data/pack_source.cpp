#include "warptape/tools/wt/data/pack_source.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/data/bytes.h"
#include "warptape/data/cifar.h"
#include "warptape/data/idx.h"
#include "warptape/data/lmdb.h"
#include "warptape/data/npz.h"
#include "warptape/data/tfrecord.h"
#include "warptape/data/tokens.h"
#include "warptape/tools/wt/data/data_kind.h"

namespace wt::tools {
namespace {

using data::ShardField;
using data::ShardKind;

Tensor integer(i64 v) { return tensor(v, {.dtype = DType::i64, .device = Device::cpu()}); }

const ShardField kLabel{.name = "y", .dtype = DType::i64};

// Rows of tensors [N, ...]; u8 labels become i64.
PackSource rows_of(std::string what, std::vector<std::pair<std::string, Tensor>> columns) {
  PackSource s{.what = std::move(what)};
  s.records = columns[0].second.size(0);
  for (auto& [name, t] : columns) {
    if (name == "y" || name == "coarse") t = t.to(DType::i64);
    t = t.contiguous();
    ShardField f{.name = name, .dtype = t.dtype()};
    for (int d = 1; d < t.ndim(); ++d) f.shape.push_back(t.size(d));
    s.fields.push_back(f);
    s.bytes += u64(t.numel() * item_size(t.dtype()));
  }
  s.record = [columns = std::move(columns)](i64 i) {
    data::ShardRecord r;
    for (const auto& column : columns) r.emplace_back(column.second[i]);
    return r;
  };
  return s;
}

Tensor joined_rows(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : cat(parts, 0);
}

std::string labels_of(const std::string& images) {
  std::string path = images;
  if (const size_t at = path.rfind("images-idx3"); at != path.npos)
    path.replace(at, 11, "labels-idx1");
  std::error_code ignored;
  return path != images && std::filesystem::is_regular_file(path, ignored) ? path : "";
}

PackSource idx(const std::vector<std::string>& files) {
  std::vector<Tensor> images, labels;
  for (const std::string& path : files) {
    Tensor t = data::read_idx(path);
    if (t.ndim() == 3) t = unsqueeze(t, 1);
    images.push_back(t);
    const std::string of = labels_of(path);
    if (of.empty()) continue;
    labels.push_back(data::read_idx(of));
    if (labels.back().ndim() != 1 || labels.back().size(0) != t.size(0))
      throw DataError(str(printable_path(of), ": expected ", t.size(0), " labels, got shape ",
                          labels.back().shape()));
  }
  if (!labels.empty() && labels.size() != images.size())
    throw DataError("some files of images have labels and others have none");
  std::vector<std::pair<std::string, Tensor>> columns{{"x", joined_rows(images)}};
  if (!labels.empty()) columns.emplace_back("y", joined_rows(labels));
  return rows_of("IDX", std::move(columns));
}

PackSource idx_folder(const std::string& path, const PackOptions& o) {
  std::vector<std::string> files;
  for (const char* half : {"train", "t10k"}) {
    if (o.split != "all" && (o.split == "train") != (std::string(half) == "train")) continue;
    const std::string file = present_file(path, str(half, "-images-idx3-ubyte"));
    if (file.empty())
      throw DataError(str(printable_path(path), ": has no ", half, "-images-idx3-ubyte"));
    files.push_back(file);
  }
  return idx(files);
}

PackSource cifar(const std::vector<std::string>& files, int labels) {
  std::vector<Tensor> images, y, coarse;
  for (const std::string& path : files)
    if (labels == 1) {
      const data::CifarFile f = data::read_cifar10(path);
      images.push_back(f.images);
      y.push_back(f.labels);
    } else {
      const data::Cifar100File f = data::read_cifar100(path);
      images.push_back(f.images);
      y.push_back(f.fine);
      coarse.push_back(f.coarse);
    }
  std::vector<std::pair<std::string, Tensor>> columns{{"x", joined_rows(images)},
                                                      {"y", joined_rows(y)}};
  if (labels == 2) columns.emplace_back("coarse", joined_rows(coarse));
  return rows_of(labels == 1 ? "CIFAR-10" : "CIFAR-100", std::move(columns));
}

PackSource cifar_folder(const std::string& path, const PackOptions& o) {
  const CifarFiles f = cifar_files(path);
  std::vector<std::string> files;
  for (const auto& [name, file] : f.train)
    if (o.split != "test") files.push_back(file);
  for (const auto& [name, file] : f.test)
    if (o.split != "train") files.push_back(file);
  if (files.empty())
    throw DataError(str(printable_path(path), ": has no files of --split ", o.split));
  return cifar(files, f.labels);
}

PackSource npz(const std::string& path) {
  const data::NpzFile file(path);
  std::vector<std::pair<std::string, Tensor>> columns;
  for (const std::string& name : file.names()) {
    columns.emplace_back(name, file.read(name));
    const Tensor &t = columns.back().second, &first = columns[0].second;
    if (t.ndim() == 0 || t.size(0) != first.size(0))
      throw UsageError(str(printable_path(path), ": array '", printable(name), "' ", t.shape(),
                           " has not as many rows as '", printable(columns[0].first), "' ",
                           first.shape(), ": a record is a row of each"));
  }
  if (columns.empty()) throw UsageError(printable_path(path) + ": an archive without arrays");
  return rows_of("npz", std::move(columns));
}

PackSource npy(const std::string& path) {
  const Tensor t = data::read_npy(path);
  if (t.ndim() == 0) throw UsageError(printable_path(path) + ": one number, no rows to pack");
  return rows_of("npy", {{"x", t}});
}

PackSource image_folder(const std::string& path) {
  auto all = std::make_shared<ImageFiles>(image_files(path));
  if (!all->classes.empty() && all->files[0].second != all->files.back().second)
    for (const auto& [file, label] : all->files)
      if (label < 0)
        throw UsageError(str(printable_path(file),
                             " lies beside folders, whose names are the "
                             "classes: it has none"));
  PackSource s{.what = "folder of images"};
  s.fields = {{.name = "image", .kind = ShardKind::bytes},
              kLabel,
              {.name = "name", .kind = ShardKind::string}};
  s.records = i64(all->files.size());
  for (const auto& [file, label] : all->files) {
    std::error_code ignored;
    s.bytes += u64(std::filesystem::file_size(file, ignored));
    if (!is_utf8(file.substr(path.size())))
      throw UsageError(printable_path(file) + ": its name is not UTF-8");
  }
  s.record = [all, path](i64 i) -> data::ShardRecord {
    const auto& [file, label] = all->files[size_t(i)];
    const InputFile in(file);
    std::string bytes(in.size(), '\0');
    in.read(0, bytes.data(), bytes.size(), "the image");
    if (image_format_of(bytes).empty())
      throw DataError(printable_path(file) + ": is no image any more");
    std::string name = file.substr(path.size());
    name.erase(0, name.find_first_not_of('/'));
    return {std::move(bytes), integer(label), std::move(name)};
  };
  return s;
}

PackSource tokens(const std::string& path, const PackOptions& o) {
  const Tensor all = data::read_tokens(path).tokens;
  const i64 n = all.numel(), block = o.block;
  PackSource s{.what = "tokens"};
  s.fields = {{.name = "tokens", .dtype = DType::i32, .shape = {-1}}};
  s.records = (n + block - 1) / block;
  s.bytes = u64(n) * 4;
  s.record = [all, n, block](i64 i) -> data::ShardRecord {
    return {all.narrow(0, i * block, std::min(block, n - i * block))};
  };
  return s;
}

PackSource text(const std::string& path) {
  auto bytes = std::make_shared<std::vector<u8>>(data::read_text(path));
  auto ends = std::make_shared<std::vector<size_t>>();
  const std::string_view all = data::text_of(*bytes);
  if (!is_utf8(all)) throw DataError(printable_path(path) + ": text that is not UTF-8");
  for (size_t at = all.find('\n'); at != all.npos; at = all.find('\n', at + 1)) ends->push_back(at);
  if (!all.empty() && all.back() != '\n') ends->push_back(all.size());
  PackSource s{.what = "text"};
  s.fields = {{.name = "text", .kind = ShardKind::string}};
  s.records = i64(ends->size());
  s.bytes = all.size();
  s.record = [bytes, ends, all](i64 i) -> data::ShardRecord {
    const size_t from = i == 0 ? 0 : (*ends)[size_t(i) - 1] + 1;
    std::string_view line = all.substr(from, (*ends)[size_t(i)] - from);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return {std::string(line)};
  };
  return s;
}

// --- TFRecord: the fields are what all examples have in common ---

struct FeatureKind {
  std::string name;
  size_t type = 0;  // of the variant; 0: it had no values so far
  i64 length = -2;  // -2: not seen yet, -1: it differs
};

i64 length_of(const data::TfFeature& f) {
  return std::visit(
      [](const auto& v) {
        if constexpr (requires { v.size(); }) return i64(v.size());
        return i64{0};
      },
      f);
}

[[noreturn]] void other_example(const std::string& path, i64 i, const std::string& what) {
  throw DataError(str(printable_path(path), ": record ", i, " is unlike those before it: ", what,
                      "\n  Try --raw, which packs each record's bytes"));
}

std::vector<FeatureKind> features_of(const data::TfRecords& set, const std::string& path) {
  std::vector<FeatureKind> kinds;
  for (i64 i = 0; i < set.size(); ++i) {
    const data::TfExample example = set.get(i);
    if (i == 0)
      for (const auto& feature : example) kinds.push_back({.name = feature.first});
    if (example.size() != kinds.size())
      other_example(path, i, str(example.size(), " features, not ", kinds.size()));
    for (FeatureKind& k : kinds) {
      const data::TfFeature* f = data::find_feature(example, k.name);
      if (!f) other_example(path, i, str("it has no feature '", printable(k.name), "'"));
      if (k.type == 0) k.type = f->index();
      if (f->index() != 0 && f->index() != k.type)
        other_example(path, i, str("feature '", printable(k.name), "' is of another type"));
      const i64 n = length_of(*f);
      k.length = k.length == -2 || k.length == n ? n : -1;
    }
  }
  return kinds;
}

data::ShardValue value_of(const data::TfFeature& f, const FeatureKind& k) {
  if (const auto* bytes = std::get_if<std::vector<std::string>>(&f)) return (*bytes)[0];
  if (f.index() == 0) return zeros({0}, {.dtype = k.type == 3 ? DType::i64 : DType::f32});
  Tensor t;
  if (const auto* floats = std::get_if<std::vector<float>>(&f)) t = tensor(*floats);
  if (const auto* integers = std::get_if<std::vector<i64>>(&f)) t = tensor(*integers);
  return k.length == 1 ? t.reshape({}) : t;
}

// Each record as it is, whatever it holds.
PackSource raw_tfrecord(std::shared_ptr<data::TfRecords> set) {
  PackSource s{.what = "TFRecord"};
  s.fields = {{.name = "record", .kind = ShardKind::bytes}};
  s.records = set->size();
  s.record = [set](i64 i) -> data::ShardRecord { return {set->bytes(i)}; };
  return s;
}

PackSource tfrecord(const std::string& path, const PackOptions& o) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  auto set = std::make_shared<data::TfRecords>(folder ? path + "/*" : path);
  PackSource s = raw_tfrecord(set);
  for (const std::string& file : set->files())
    s.bytes += u64(std::filesystem::file_size(file, ignored));
  if (o.raw) return s;
  auto kinds = std::make_shared<std::vector<FeatureKind>>(features_of(*set, path));
  s.fields.clear();
  for (const FeatureKind& k : *kinds) {
    ShardField f{.name = k.name};
    if (k.type == 1 && k.length != 1)
      throw UsageError(str(printable_path(path), ": feature '", printable(k.name),
                           "' is a list of bytes, not of one value in each record\n  Try --raw, ",
                           "which packs each record's bytes"));
    if (k.type == 1) f.kind = ShardKind::bytes;
    if (k.type == 3) f.dtype = DType::i64;
    if (k.type != 1 && k.length != 1) f.shape = {k.length};
    s.fields.push_back(f);
  }
  s.record = [set, kinds](i64 i) {
    const data::TfExample example = set->get(i);
    data::ShardRecord r;
    for (const FeatureKind& k : *kinds)
      r.push_back(value_of(*data::find_feature(example, k.name), k));
    return r;
  };
  return s;
}

PackSource shards(const std::string& path) {
  const data::Shards set(path);
  return {.what = "shards",
          .fields = set.fields(),
          .records = set.size(),
          .bytes = set.bytes(),
          .record = [set](i64 i) { return set.get(i); }};
}

PackSource lmdb(const std::string& path) {
  const data::LmdbRecords set(path);
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  return {.what = "LMDB",
          .fields = set.fields(),
          .records = set.size(),
          .bytes = u64(std::filesystem::file_size(folder ? path + "/data.mdb" : path, ignored)),
          .record = [set](i64 i) { return set.get(i); }};
}

// Entries of another program's database, in the order of their keys.
PackSource raw_lmdb(const std::string& path, const std::string& database) {
  auto reader = std::make_shared<data::LmdbReader>(path, data::LmdbOptions{.database = database});
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  return {.what = "LMDB",
          .fields = {{.name = "key", .kind = ShardKind::bytes},
                     {.name = "value", .kind = ShardKind::bytes}},
          .records = reader->size(),
          .bytes = u64(std::filesystem::file_size(folder ? path + "/data.mdb" : path, ignored)),
          .record = [reader](i64) -> data::ShardRecord {
            std::string key, value;
            if (!reader->next(key, value)) throw DataError("the database has fewer entries");
            return {std::move(key), std::move(value)};
          }};
}

}  // namespace

PackSource open_source(const std::string& path, const PackOptions& o) {
  const NoGrad no_grad;
  const DataKind kind = data_kind_of(path);
  switch (kind) {
    case DataKind::idx:
      return idx({path});
    case DataKind::idx_folder:
      return idx_folder(path, o);
    case DataKind::cifar10:
      return cifar({path}, 1);
    case DataKind::cifar100:
      return cifar({path}, 2);
    case DataKind::cifar_folder:
      return cifar_folder(path, o);
    case DataKind::npy:
      return npy(path);
    case DataKind::npz:
      return npz(path);
    case DataKind::tokens:
      return tokens(path, o);
    case DataKind::shards:
      return shards(path);
    case DataKind::lmdb:
      return o.raw ? raw_lmdb(path, o.database) : lmdb(path);
    case DataKind::tfrecord:
      return tfrecord(path, o);
    case DataKind::image_folder:
      return image_folder(path);
    case DataKind::text:
      return text(path);
    default:
      break;
  }
  throw UsageError(str(printable_path(path), " is ", kind_name(kind),
                       ", which cannot be packed; IDX, CIFAR, folders of images, npz, npy, tokens, "
                       "text, TFRecord, shards and LMDB can"));
}

}  // namespace wt::tools
