#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/hold_write_signals.h"
#include "warptape/data/formats/lmdb_parts.h"
#include "warptape/data/lmdb.h"

#if WARPTAPE_HAS_LMDB
#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace wt::data {
namespace {

namespace fs = std::filesystem;

constexpr u64 kLmdbBatchBytes = u64{8} << 20;  // of one transaction, which is kept to be done again
constexpr u64 kSmallestLmdbMap = u64{1} << 16;

}  // namespace

struct LmdbWriter::Impl {
  std::string path, partial, record{};
  std::vector<ShardField> fields;
  std::unique_ptr<DirectoryLock> lock{};
  MDB_env* env = nullptr;
  u64 map_bytes = 0, bytes = 0, pending_bytes = 0;
  std::vector<std::pair<std::string, std::string>> pending{};  // keys and values
  i64 records = 0;
  bool done = false, failed = false;

  ~Impl() {
    if (env) mdb_env_close(env);
    std::error_code ignored;
    if (lock) fs::remove_all(partial, ignored);
  }
  [[noreturn]] void cannot_write(const std::string& why) const {
    throw CheckpointError(str("[LmdbWriter] ", printable_path(path), ": ", why));
  }
  void check(int rc, const char* doing) const {
    if (rc != 0) cannot_write(str(doing, ": ", mdb_strerror(rc)));
  }
  void open() {
    std::error_code ignored;
    fs::remove(partial + "/data.mdb", ignored);  // of a process that was killed
    check(mdb_env_create(&env), "creating the environment");
    check(mdb_env_set_mapsize(env, map_bytes), "setting the map's size");
    check(mdb_env_open(env, (partial + "/data.mdb").c_str(),
                       MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_NOMEMINIT, 0666),
          "creating data.mdb");
  }
  // 0, or the error of the first call that failed; nothing is written then.
  int try_pending() const {
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    int rc = mdb_txn_begin(env, nullptr, 0, &txn);
    if (rc != 0) return rc;
    rc = mdb_dbi_open(txn, nullptr, 0, &dbi);
    for (size_t i = 0; rc == 0 && i < pending.size(); ++i) {
      MDB_val key{pending[i].first.size(), const_cast<char*>(pending[i].first.data())};
      MDB_val value{pending[i].second.size(), const_cast<char*>(pending[i].second.data())};
      rc = mdb_put(txn, dbi, &key, &value, MDB_APPEND);
    }
    if (rc == 0) return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
  }
  // A map that is full is made twice as large, and the transaction is done again.
  void flush() {
    const wt::detail::HoldWriteSignals hold;
    int rc = try_pending();
    while (rc == MDB_MAP_FULL && map_bytes < (u64{1} << 46)) {
      map_bytes *= 2;
      check(mdb_env_set_mapsize(env, map_bytes), "enlarging the map");
      rc = try_pending();
    }
    check(rc, "writing");
    pending.clear();
    pending_bytes = 0;
  }
  void put(std::string key, std::string value) {
    const u32 crc = detail::lmdb_crc(key, value);
    detail::append_le(value, crc);
    pending_bytes += key.size() + value.size() + 16;
    pending.emplace_back(std::move(key), std::move(value));
    if (pending_bytes >= kLmdbBatchBytes) flush();
  }
  void publish() {
    check(mdb_env_sync(env, 1), "synchronising");
    mdb_env_close(env);
    env = nullptr;
    fs::remove(partial + "/LOCK");
    if (const int folder = ::open(partial.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        folder >= 0) {
      ::fsync(folder);
      ::close(folder);
    }
    if (::rename(partial.c_str(), path.c_str()) != 0)
      cannot_write(str("cannot be given its name: ", std::strerror(errno)));
    lock.reset();
  }
  void require_usable() const {
    if (done || failed)
      throw UsageError(str("[LmdbWriter] ", printable_path(path),
                           done ? " is finished" : " could not be written: see the first error"));
  }
};

LmdbWriter::LmdbWriter(const std::string& path, std::vector<ShardField> fields,
                       const LmdbWriterOptions& o)
    : impl_(std::make_unique<Impl>()) {
  Impl& w = *impl_;
  w.path = path;
  while (w.path.size() > 1 && w.path.back() == '/') w.path.pop_back();
  if (w.path.empty()) throw UsageError("[LmdbWriter] needs a path");
  detail::check_shard_fields("LmdbWriter", fields);
  if (o.map_bytes < kSmallestLmdbMap || o.map_bytes > (u64{1} << 46))
    throw UsageError(str("[LmdbWriter] a map of ", o.map_bytes, " bytes, expected ",
                         kSmallestLmdbMap, " to ", u64{1} << 46));
  w.fields = std::move(fields);
  w.map_bytes = (o.map_bytes + 4095) / 4096 * 4096;
  std::error_code error;
  if (fs::exists(w.path, error) && !(fs::is_directory(w.path) && fs::is_empty(w.path)))
    throw UsageError(str("[LmdbWriter] ", printable_path(w.path),
                         " is there already\n  Try another name, or remove it first"));
  w.partial = w.path + ".partial";
  w.lock = std::make_unique<DirectoryLock>(w.partial);
  w.open();
}

void LmdbWriter::add(const ShardRecord& values) {
  Impl& w = *impl_;
  w.require_usable();
  if (w.records >= detail::kMostLmdbRecords)
    throw UsageError(str("[LmdbWriter] more than ", detail::kMostLmdbRecords, " records"));
  detail::shard_record_bytes("LmdbWriter", w.fields, values, w.record);
  if (w.record.size() >= (u64{1} << 32) - 64)
    throw UsageError(str("[LmdbWriter] a record of ", w.record.size(), " bytes: LMDB has 4 GiB"));
  w.failed = true;
  w.put(detail::lmdb_key(w.records), w.record);
  ++w.records;
  w.bytes += w.record.size();
  w.failed = false;
}

void LmdbWriter::finish() {
  Impl& w = *impl_;
  w.require_usable();
  w.failed = true;
  std::string schema;
  detail::append_le(schema, u64(w.records));
  w.put(detail::kLmdbFields, schema + detail::shard_schema(w.fields));
  w.flush();
  w.publish();
  w.failed = false;
  w.done = true;
}

i64 LmdbWriter::records() const { return impl_->records; }
u64 LmdbWriter::bytes() const { return impl_->bytes; }
u64 LmdbWriter::map_bytes() const { return impl_->map_bytes; }

}  // namespace wt::data

#else

namespace wt::data {
struct LmdbWriter::Impl {};
LmdbWriter::LmdbWriter(const std::string&, std::vector<ShardField>, const LmdbWriterOptions&) {
  throw NotAvailable(str("[LmdbWriter] this build has no liblmdb: ", why_without("lmdb")));
}
void LmdbWriter::add(const ShardRecord&) {}
void LmdbWriter::finish() {}
i64 LmdbWriter::records() const { return 0; }
u64 LmdbWriter::bytes() const { return 0; }
u64 LmdbWriter::map_bytes() const { return 0; }
}  // namespace wt::data
#endif

namespace wt::data {
LmdbWriter::~LmdbWriter() = default;
}  // namespace wt::data
