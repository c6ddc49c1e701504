// wt data pack: data sets as typed records with check sums. What is under the name that was asked
// for is the old pack or the new one, whole, however the command ends.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/data/lmdb.h"
#include "warptape/data/shard.h"
#include "warptape/tools/wt/data/byte_progress.h"
#include "warptape/tools/wt/data/pack_source.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

struct PackCommand {
  std::vector<std::string> sources;
  std::string out, to = "shards", shard_bytes = "256MiB";
  PackOptions how;
  bool force = false, json = false;
};

// A folder of shards and nothing else, which --force may replace.
bool is_pack(const std::string& path) {
  std::error_code why;
  if (!fs::is_directory(path, why)) return false;
  for (fs::directory_iterator at(path, why), end; !why && at != end; at.increment(why)) {
    const fs::path name = at->path().filename();
    if (name.extension() != ".wtshard" && name != "VERIFIED" && name != "data.mdb" &&
        name != "lock.mdb")
      return false;
  }
  return !why;
}

// Gives the new pack the old one's name in one step, and removes the old one.
void replace(const std::string& fresh, const std::string& out) {
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, out.c_str(), RENAME_EXCHANGE) != 0)
    throw CheckpointError(str(printable_path(out), " cannot be replaced: ", std::strerror(errno),
                              "; the new pack is ", printable_path(fresh)));
  std::error_code why;
  fs::remove_all(fresh, why);
}

std::vector<PackSource> open_sources(const PackCommand& o) {
  std::vector<PackSource> all;
  for (const std::string& path : o.sources) {
    all.push_back(open_source(path, o.how));
    if (all.back().fields == all[0].fields) continue;
    const auto text = [](const PackSource& s) {
      std::string list;
      for (const data::ShardField& f : s.fields) list += (list.empty() ? "" : ", ") + f.describe();
      return list;
    };
    throw UsageError(str(printable_path(path), " has the fields ", text(all.back()), "; ",
                         printable_path(o.sources[0]), " has ", text(all[0]),
                         ": one pack has one kind of record"));
  }
  return all;
}

struct Packed {
  i64 records = 0, files = 0;
  u64 bytes = 0;
  double seconds = 0;
};

template <class Writer>
Packed pack_with(Writer& writer, const std::vector<PackSource>& sources,
                 const RunSignals& signals) {
  u64 total = 0;
  for (const PackSource& s : sources) total += s.bytes;
  ByteProgress progress("pack", total, signals);
  for (const PackSource& s : sources)
    for (i64 i = 0; i < s.records; ++i) {
      const u64 before = writer.bytes();
      writer.add(s.record(i));
      progress.add(writer.bytes() - before);
    }
  writer.finish();
  progress.close();
  return {writer.records(), 1, writer.bytes(), progress.seconds()};
}

Packed pack_to(const std::string& out, const PackCommand& o, const std::vector<PackSource>& sources,
               const RunSignals& signals) {
  if (o.to == "lmdb") {
    data::LmdbWriter writer(out, sources[0].fields);
    return pack_with(writer, sources, signals);
  }
  data::ShardWriter writer(out, sources[0].fields,
                           {.max_file_bytes = u64(bytes_of_text(o.shard_bytes, "--shard-bytes"))});
  Packed p = pack_with(writer, sources, signals);
  p.files = i64(data::Shards(out).files().size());
  return p;
}

int pack(const PackCommand& o) {
  const NoGrad no_grad;
  std::string out = o.out;
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  std::error_code ignored;
  const bool there = fs::exists(fs::symlink_status(out, ignored)) &&
                     !(fs::is_directory(out, ignored) && fs::is_empty(out, ignored));
  if (there && !o.force)
    throw UsageError(str("--out ", printable_path(out), " is there already\n  Try --force, which ",
                         "replaces it once the new pack is whole"));
  if (there && !is_pack(out))
    throw UsageError(
        str("--out ", printable_path(out), " is there and no pack: --force replaces packs alone"));
  (void)bytes_of_text(o.shard_bytes, "--shard-bytes");  // before anything is read
  const RunSignals signals;
  const std::vector<PackSource> sources = open_sources(o);
  const std::string fresh = there ? out + ".new" : out;
  Packed p;
  try {
    if (there) fs::remove_all(fresh, ignored);  // of a process that was killed
    p = pack_to(fresh, o, sources, signals);
    if (there) replace(fresh, out);
  } catch (const Interrupted&) {
    end_progress_line();
    std::fprintf(stderr, "wt: interrupted; %s\n",
                 there ? "the old pack is as it was" : "nothing was written");
    return signals.exit_code();
  }
  if (o.json) {
    JsonObject j;
    j.add("out", out).add("format", o.to).add("records", p.records).add("files", p.files);
    j.add("bytes", p.bytes).add("seconds", p.seconds);
    std::printf("%s\n", j.str().c_str());
  } else {
    std::printf("%s: %lld records, %s in %lld file%s, %.2f s\n", printable_path(out).c_str(),
                static_cast<long long>(p.records), bytes_text(i64(p.bytes)).c_str(),
                static_cast<long long>(p.files), p.files == 1 ? "" : "s", p.seconds);
  }
  return 0;
}

}  // namespace

void add_data_pack(Command data, int& code) {
  const Command c = data.add_subcommand("pack", "data sets as typed records with check sums");
  auto o = std::make_shared<PackCommand>();
  c.add_option("sources", o->sources,
               "IDX, CIFAR, folders of images, npz, npy, tokens, text, TFRecord, packs; several "
               "with the same fields make one pack")
      .required();
  c.add_option("--out", o->out, "the pack's folder").required();
  c.add_option("--to", o->to, "what is written").check(one_of({"shards", "lmdb"})).show_default();
  c.add_option("--shard-bytes", o->shard_bytes, "size of a file, at most").show_default();
  c.add_option("--split", o->how.split, "of MNIST's and CIFAR's folders")
      .check(one_of({"train", "test", "all"}))
      .show_default();
  c.add_option("--block", o->how.block, "tokens of a record").check(at_least(1)).show_default();
  c.add_flag("--raw", o->how.raw,
             "TFRecord: records as their bytes; LMDB: keys and values of any database");
  c.add_option("--database", o->how.database, "a named one of LMDB, with --raw");
  c.add_flag("--force", o->force, "replace a pack that is there");
  c.add_flag("--json", o->json, "the result as an object");
  c.callback([o, &code] { code = pack(*o); });
}

}  // namespace wt::tools
