// wt data verify: every check sum of packs and record files, and the stamp by which packs are
// mapped from then on.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/data/lmdb.h"
#include "warptape/data/shard.h"
#include "warptape/data/tfrecord.h"
#include "warptape/tools/wt/data/byte_progress.h"
#include "warptape/tools/wt/data/data_kind.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
  std::vector<std::string> paths;
  bool json = false;
};

struct Verified {
  std::string format;
  data::ShardCheck check;
  double seconds = 0;
};

u64 size_of(const std::string& file) {
  std::error_code ignored;
  const auto n = fs::file_size(file, ignored);
  return ignored ? 0 : u64(n);
}

std::vector<std::string> files_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {path};
  std::vector<std::string> files;
  for (fs::directory_iterator at(path, ignored), end; !ignored && at != end; at.increment(ignored))
    if (!at->path().filename().string().starts_with(".")) files.push_back(at->path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// Of one file; after damage nothing further of it can be read.
void verify_tfrecord(const std::string& path, ByteProgress& progress, data::ShardCheck& check) {
  ++check.files;
  i64 records = 0;
  u64 offset = 0;
  try {
    data::TfRecordReader reader(path);
    const bool packed = !packing_of(path).empty();
    for (std::string record; reader.next(record); ++records) {
      if (!packed) progress.add(reader.offset() - offset);
      offset = reader.offset();
    }
    if (packed) progress.add(size_of(path));
    check.bytes += size_of(path);
  } catch (const DataError& e) {
    check.damage.push_back({path, offset, records, e.what()});
  }
  check.records += records;
}

// Of an LmdbWriter's database every record has a check sum; of another one what can be found out is
// that all entries are there, in order.
void verify_lmdb(const std::string& path, ByteProgress& progress, Verified& v) {
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? path + "/data.mdb" : path;
  v.check.files = 1;
  v.check.bytes = size_of(file);
  bool ours = true;
  try {
    data::LmdbReader reader(path);
    std::vector<std::string> names{""};
    for (const auto& [name, n] : reader.databases()) names.push_back(name);
    ours = names.size() == 1 && reader.get("fields").has_value();
    if (!ours) v.format = "LMDB, without check sums";
    for (const std::string& name : names) {
      if (ours) break;
      data::LmdbReader each(path, {.database = name});
      for (std::string key, value; each.next(key, value); ++v.check.records)
        progress.add(key.size() + value.size());
    }
  } catch (const DataError& e) {
    v.check.damage.push_back({file, 0, -1, e.what()});
  }
  if (!ours || !v.check.damage.empty()) return;
  try {
    const data::LmdbRecords all(path);
    for (i64 i = 0; i < all.size(); ++i, ++v.check.records) try {
        (void)all.get(i);
        progress.add(v.check.bytes / u64(all.size()));
      } catch (const DataError& e) {
        v.check.damage.push_back({file, 0, i, e.what()});
        if (v.check.damage.size() > 10) break;  // or every answer of a reader that is gone
      }
  } catch (const DataError& e) {
    v.check.damage.push_back({file, 0, -1, e.what()});
  }
}

Verified verify(const std::string& path, const RunSignals& signals) {
  const DataKind kind = data_kind_of(path);
  Verified v{kind_name(kind), {}, 0};
  u64 total = 0;
  for (const std::string& file : files_of(path)) total += size_of(file);
  ByteProgress progress("verify", total, signals);
  if (kind == DataKind::shards) {
    v.check = data::verify_shards(path, [&](u64 more) { progress.add(more); });
  } else if (kind == DataKind::tfrecord) {
    for (const std::string& file : files_of(path)) verify_tfrecord(file, progress, v.check);
  } else if (kind == DataKind::lmdb) {
    verify_lmdb(path, progress, v);
  } else {
    throw UsageError(
        str(printable_path(path), " is ", kind_name(kind),
            ", which has no check sums; shards, TFRecord and LMDB packs have\n  Try wt data pack ",
            printable_path(path), " --out PACK"));
  }
  progress.close();
  v.seconds = progress.seconds();
  return v;
}

void print_json(const std::string& path, const Verified& v) {
  const data::ShardCheck& c = v.check;
  JsonObject j;
  j.add("path", path).add("format", v.format).add("files", c.files).add("records", c.records);
  j.add("bytes", c.bytes).add("seconds", v.seconds).add("damaged", i64(c.damage.size()));
  if (c.damage.empty()) {
    j.add_null("first");
  } else {
    const data::ShardDamage& d = c.damage[0];
    JsonObject first;
    first.add("file", d.file).add("offset", d.offset).add("record", d.record).add("what", d.what);
    j.add_raw("first", first.str());
  }
  c.stamp.empty() ? j.add_null("stamp") : j.add("stamp", c.stamp);
  std::printf("%s\n", j.str().c_str());
}

void print_text(const std::string& path, const Verified& v) {
  const data::ShardCheck& c = v.check;
  if (c.damage.empty())
    std::printf("%s: whole: %s, %lld file%s, %lld records, %s in %.2f s\n",
                printable_path(path).c_str(), v.format.c_str(), static_cast<long long>(c.files),
                c.files == 1 ? "" : "s", static_cast<long long>(c.records),
                bytes_text(i64(c.bytes)).c_str(), v.seconds);
  if (!c.stamp.empty()) std::printf("  stamped in %s: it is mapped\n", c.stamp.c_str());
  if (!c.no_stamp.empty()) std::printf("  no stamp: %s\n", printable_lines(c.no_stamp).c_str());
}

void print_damage(const data::ShardCheck& c) {
  constexpr size_t kMost = 10;
  for (size_t i = 0; i < std::min(c.damage.size(), kMost); ++i) {
    const data::ShardDamage& d = c.damage[i];
    const std::string at = d.record < 0 ? ""
                                        : str(printable_path(d.file), ": record ", d.record,
                                              " at byte ", d.offset, ": ");
    std::fprintf(stderr, "wt: damaged: %s%s\n", at.c_str(), printable_lines(d.what).c_str());
  }
  if (c.damage.size() > kMost) std::fprintf(stderr, "wt: and %zu more\n", c.damage.size() - kMost);
}

int verify_all(const VerifyOptions& o) {
  const RunSignals signals;
  int code = 0;
  for (const std::string& path : o.paths) try {
      const Verified v = verify(path, signals);
      o.json ? print_json(path, v) : print_text(path, v);
      std::fflush(stdout);
      print_damage(v.check);
      if (!v.check.damage.empty() && code == 0) code = kExitData;
    } catch (const Interrupted&) {
      end_progress_line();
      std::fprintf(stderr, "wt: interrupted; no stamp was left\n");
      return signals.exit_code();
    } catch (const Error& e) {
      end_progress_line();
      std::fprintf(stderr, "wt: %s\n", printable_lines(e.what()).c_str());
      if (code == 0) code = exit_code_of(e);
    }
  return code;
}

}  // namespace

void add_data_verify(Command data, int& code) {
  const Command c =
      data.add_subcommand("verify", "check every record; whole packs are mapped then");
  auto o = std::make_shared<VerifyOptions>();
  c.add_option("paths", o->paths, "packs or their files, TFRecord files or folders of them, LMDB")
      .required();
  c.add_flag("--json", o->json, "an object a path");
  c.callback([o, &code] { code = verify_all(*o); });
}

}  // namespace wt::tools
