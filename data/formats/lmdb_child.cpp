#include "warptape/data/formats/lmdb_child.h"

#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/files/hold_write_signals.h"
#include "warptape/core/input_file.h"

#if WARPTAPE_HAS_LMDB
#include <fcntl.h>
#include <lmdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace wt::data {
namespace {

// --- What a file must be before a child is let near it ---

// Of LMDB 0.9's meta pages on a machine with 64-bit addresses: where a number lies in one.
constexpr u64 kLmdbMagicAt = 16, kLmdbVersionAt = 20, kLmdbPageSizeAt = 40, kLmdbLastPageAt = 136,
              kLmdbMeta = 152;
constexpr u32 kLmdbMagic = 0xBEEFC0DE;
constexpr u64 kLmdbOneMagicAt = 24;  // of LMDB 1.0, whose pages have eight bytes more before it

template <class T>
T meta_number(const char* page, u64 at) {
  T v;
  std::memcpy(&v, page + at, sizeof v);
  return v;
}

// LMDB does not compare its last page with the file's size: beyond it is SIGBUS.
void check_lmdb_meta(const InputFile& file, u64 at, u32 page_size) {
  char meta[kLmdbMeta];
  file.read(at, meta, sizeof meta, "a meta page");
  const std::string& path = file.path();
  const u32 magic = meta_number<u32>(meta, kLmdbMagicAt);
  if (magic != kLmdbMagic && meta_number<u32>(meta, kLmdbOneMagicAt) == kLmdbMagic)
    data_error(path, at + kLmdbOneMagicAt,
               str("a file of LMDB 1.0 (format ", meta_number<u32>(meta, kLmdbOneMagicAt + 4),
                   "); those of 0.9 are read\n  Try mdb_dump of LMDB 1.0, and mdb_load of 0.9"));
  if (magic != kLmdbMagic)
    data_error(path, at + kLmdbMagicAt, str("no LMDB file: its magic is ", magic));
  if (const u32 version = meta_number<u32>(meta, kLmdbVersionAt); version != 1)
    data_error(path, at + kLmdbVersionAt, str("version ", version, ", only 1 is read"));
  if (const u32 n = meta_number<u32>(meta, kLmdbPageSizeAt);
      n != page_size || n < 512 || n > (1u << 16) || (n & (n - 1)) != 0)
    data_error(path, at + kLmdbPageSizeAt,
               str("pages of ", n, " bytes: damaged, or of a machine with 32-bit addresses"));
  const u64 last = meta_number<u64>(meta, kLmdbLastPageAt);
  if (last < 1 || last >= file.size() / page_size)
    data_error(path, at + kLmdbLastPageAt,
               str("page ", last, " is the last one, the file has ", file.size() / page_size,
                   " (truncated download?)"));
}

u64 check_lmdb_file(const std::string& path) {
  const InputFile file(path);
  u32 page_size = 0;
  file.read(kLmdbPageSizeAt, &page_size, sizeof page_size, "a meta page");
  check_lmdb_meta(file, 0, page_size);
  check_lmdb_meta(file, page_size, page_size);
  return file.size();
}

// --- The child. It has one thread, throws nothing and ends with _exit ---

enum : int { kLmdbLost = 3 };  // exit code: the other side has gone

struct LmdbRequest {
  detail::LmdbAsk what{};
  u64 bytes = 0;
};
struct LmdbResponse {
  detail::LmdbAnswer what{};
  u64 key = 0, value = 0;
};

class LmdbServer {
 public:
  LmdbServer(int in, int out, const char* path, u64 bytes)
      : in_(in), out_(out), path_(path), bytes_(bytes) {}

  [[noreturn]] void serve() {
    for (LmdbRequest r;;) {
      take(&r, sizeof r);
      char* const with = static_cast<char*>(std::malloc(r.bytes + 1));
      if (!with) ::_exit(kLmdbLost);
      take(with, r.bytes);
      with[r.bytes] = '\0';
      answer(r.what, with, r.bytes);
      std::free(with);
    }
  }

 private:
  void take(void* to, u64 n) {
    for (char* at = static_cast<char*>(to); n > 0;) {
      const ssize_t got = ::read(in_, at, n);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) ::_exit(kLmdbLost);
      at += got;
      n -= u64(got);
    }
  }
  // A value outside of what is mapped gives EFAULT here, where a copy would end in a signal.
  void give(const void* from, u64 n) {
    for (const char* at = static_cast<const char*>(from); n > 0;) {
      const ssize_t sent = ::write(out_, at, n);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EFAULT) ::raise(SIGBUS);
      if (sent <= 0) ::_exit(kLmdbLost);
      at += sent;
      n -= u64(sent);
    }
  }
  void found(const MDB_val& key, const MDB_val& value) {
    for (const MDB_val& v : {key, value})
      if (!inside(v)) return error("an entry that lies outside of the file");
    const LmdbResponse r{detail::LmdbAnswer::found, key.mv_size, value.mv_size};
    give(&r, sizeof r);
    give(key.mv_data, key.mv_size);
    give(value.mv_data, value.mv_size);
  }
  void none() {
    const LmdbResponse r{detail::LmdbAnswer::none, 0, 0};
    give(&r, sizeof r);
  }
  void error(const char* what) {
    const LmdbResponse r{detail::LmdbAnswer::error, 0, std::strlen(what)};
    give(&r, sizeof r);
    give(what, r.value);
  }
  // What is told of a file must be of the file: an entry's sizes are not checked by LMDB.
  bool inside(const MDB_val& v) const {
    const char* const at = static_cast<const char*>(v.mv_data);
    return v.mv_size == 0 || !map_ ||
           (at >= map_ && v.mv_size <= bytes_ && u64(at - map_) <= bytes_ - v.mv_size);
  }

  void answer(detail::LmdbAsk what, const char* with, u64 n) {
    using Ask = detail::LmdbAsk;
    int rc = 0;
    MDB_val key{n, const_cast<char*>(with)}, value{0, nullptr};
    switch (what) {
      case Ask::open:
        return open(n ? with : nullptr);
      case Ask::databases:
        return databases();
      case Ask::first:
      case Ask::next:
        rc = mdb_cursor_get(cursor_, &key, &value, what == Ask::first ? MDB_FIRST : MDB_NEXT);
        break;
      case Ask::get:
        rc = mdb_get(txn_, dbi_, &key, &value);
        key = {0, nullptr};
    }
    if (rc == MDB_NOTFOUND) return none();
    if (rc != 0) return error(mdb_strerror(rc));
    found(key, value);
  }

  void open(const char* name) {
    int rc = mdb_env_create(&env_);
    if (rc == 0) rc = mdb_env_set_mapsize(env_, bytes_);  // what the file says may be anything
    if (rc == 0) rc = mdb_env_set_maxdbs(env_, 128);
    if (rc == 0)
      rc = mdb_env_open(env_, path_, MDB_RDONLY | MDB_NOSUBDIR | MDB_NOLOCK | MDB_NORDAHEAD, 0);
    find_map();
    if (rc == 0) rc = mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn_);
    if (rc == 0) rc = mdb_dbi_open(txn_, name, 0, &dbi_);
    if (rc == MDB_NOTFOUND) return none();
    unsigned flags = 0;
    MDB_stat stat{};
    if (rc == 0) rc = mdb_dbi_flags(txn_, dbi_, &flags);
    if (rc == 0) rc = mdb_stat(txn_, dbi_, &stat);
    if (rc != 0) return error(mdb_strerror(rc));
    if (flags & ~unsigned(MDB_CREATE))
      return error("a database with duplicate, integer or reversed keys, which are not read");
    if ((rc = mdb_cursor_open(txn_, dbi_, &cursor_)) != 0) return error(mdb_strerror(rc));
    u64 entries = stat.ms_entries;
    answer_number(entries);
  }
  void answer_number(u64 v) {
    const LmdbResponse r{detail::LmdbAnswer::found, 0, sizeof v};
    give(&r, sizeof r);
    give(&v, sizeof v);
  }

  // Those named in the unnamed database, one an answer: the next one after that.
  void databases() {
    MDB_dbi main = 0;
    if (!names_) {
      int rc = mdb_dbi_open(txn_, nullptr, 0, &main);
      if (rc == 0) rc = mdb_cursor_open(txn_, main, &names_);
      if (rc != 0) return error(mdb_strerror(rc));
    }
    for (MDB_val key{}, value{};;) {
      const int rc = mdb_cursor_get(names_, &key, &value, MDB_NEXT);
      if (rc == MDB_NOTFOUND) return none();
      if (rc != 0) return error(mdb_strerror(rc));
      char name[512];
      if (key.mv_size >= sizeof name || !inside(key) || !inside(value)) continue;
      if (value.mv_size != 48) continue;  // of a database's record
      std::memcpy(name, key.mv_data, key.mv_size);
      name[key.mv_size] = '\0';
      MDB_dbi found_one = 0;
      MDB_stat stat{};
      if (mdb_dbi_open(txn_, name, 0, &found_one) != 0) continue;
      if (mdb_stat(txn_, found_one, &stat) != 0) continue;
      const u64 entries = stat.ms_entries;
      const LmdbResponse r{detail::LmdbAnswer::found, key.mv_size, sizeof entries};
      give(&r, sizeof r);
      give(name, key.mv_size);
      return give(&entries, sizeof entries);
    }
  }

  // Where the file was mapped, by its inode; LMDB does not say.
  void find_map() {
    struct stat info;
    std::FILE* const maps = std::fopen("/proc/self/maps", "re");
    if (!maps) return;
    char line[8192];
    if (::stat(path_, &info) == 0)
      while (std::fgets(line, sizeof line, maps)) {
        unsigned long begin = 0, inode = 0;
        if (std::sscanf(line, "%lx-%*x %*s %*s %*s %lu", &begin, &inode) == 2 && inode != 0 &&
            inode == info.st_ino)
          map_ = reinterpret_cast<const char*>(begin);
        if (map_) break;
      }
    std::fclose(maps);
  }

  int in_, out_;
  const char* path_;
  u64 bytes_;
  const char* map_ = nullptr;
  MDB_env* env_ = nullptr;
  MDB_txn* txn_ = nullptr;
  MDB_dbi dbi_ = 0;
  MDB_cursor *cursor_ = nullptr, *names_ = nullptr;
};

// What a child may not: write, dump its memory, hold descriptors of its parent, or more memory than
// the file and its answers need.
void confine_reader(int in, int out, u64 file_bytes) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGPIPE})
    ::signal(signal, SIG_DFL);
  for (const int signal : {SIGINT, SIGUSR1}) ::signal(signal, SIG_IGN);  // the parent's business
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nowhere = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(nowhere, fd);  // assertions of LMDB
  // The two pipes become 3 and 4: everything else is closed.
  const int high = ::fcntl(out, F_DUPFD, 5);
  ::dup2(in, 3);
  ::dup2(high, 4);
  ::close_range(5, ~0u, 0);
  unsigned long pages = 0;
  if (std::FILE* const f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%lu", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  const auto limit = [](auto what, u64 n) {
    const rlimit l{n, n};
    ::setrlimit(what, &l);
  };
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  if (pages) limit(RLIMIT_AS, u64(pages) * u64(::sysconf(_SC_PAGESIZE)) + file_bytes + (1u << 28));
}

double lmdb_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

detail::LmdbChild::LmdbChild(const std::string& file, double timeout, u64 most_bytes)
    : file_(file), timeout_(timeout), most_bytes_(most_bytes) {
  file_bytes_ = check_lmdb_file(file);
  int asked[2], answered[2];
  if (::pipe2(asked, O_CLOEXEC) != 0)
    throw OutOfMemory(str("[LmdbReader] no pipe: ", std::strerror(errno)));
  if (::pipe2(answered, O_CLOEXEC) != 0) {
    const int why = errno;
    for (const int fd : asked) ::close(fd);
    throw OutOfMemory(str("[LmdbReader] no pipe: ", std::strerror(why)));
  }
  child_ = ::fork();
  if (child_ == 0) {
    confine_reader(asked[0], answered[1], file_bytes_);
    LmdbServer(3, 4, file_.c_str(), file_bytes_).serve();
  }
  const int why = errno;
  ::close(asked[0]);
  ::close(answered[1]);
  to_ = asked[1];
  from_ = answered[0];
  if (child_ < 0) {
    close_pipes();
    throw OutOfMemory(str("[LmdbReader] no process: ", std::strerror(why)));
  }
}

void detail::LmdbChild::close_pipes() {
  for (int* const fd : {&to_, &from_})
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
}

int detail::LmdbChild::end_child(bool kill) {
  close_pipes();
  int status = 0;
  const pid_t child = std::exchange(child_, -1);
  if (child <= 0) return 0;
  if (kill) ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

detail::LmdbChild::~LmdbChild() { end_child(true); }

void detail::LmdbChild::fail(const std::string& what) { data_error(file_, 0, what); }

void detail::LmdbChild::died() {
  const int status = end_child(false);
  if (WIFSIGNALED(status))
    fail(str("the process that read it died with SIG", ::sigabbrev_np(WTERMSIG(status)),
             ": the file is damaged or truncated"));
  fail(str("the process that read it ended with code ", WEXITSTATUS(status),
           ": the file is damaged or truncated"));
}

void detail::LmdbChild::receive(void* to, u64 n) {
  const double end = lmdb_seconds() + timeout_;
  for (char* at = static_cast<char*>(to); n > 0;) {
    pollfd p{from_, POLLIN, 0};
    const double left = end - lmdb_seconds();
    const int ready = left > 0 ? ::poll(&p, 1, int(left * 1000) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      end_child(true);
      fail(str("the process that reads it did not answer in ", timeout_,
               " seconds and was ended: the file is damaged, or LmdbOptions::timeout too short"));
    }
    const ssize_t got = ::read(from_, at, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) died();
    at += got;
    n -= u64(got);
  }
}

std::string detail::LmdbChild::receive_text(u64 n) {
  if (n > file_bytes_ || n > most_bytes_)
    fail(str("an entry of ", n, " bytes in a file of ", file_bytes_, ", at most ", most_bytes_,
             " (ParseLimits::max_bytes)"));
  std::string text(n, '\0');
  receive(text.data(), n);
  return text;
}

bool detail::LmdbChild::ask(LmdbAsk what, std::string_view with, std::string& key,
                            std::string& value) {
  if (child_ < 0) fail("the process that read it is gone: see the first error");
  LmdbRequest request{};
  request.what = what;
  request.bytes = with.size();
  std::string message(reinterpret_cast<const char*>(&request), sizeof request);
  message += with;
  bool gone = false;
  {
    const wt::detail::HoldWriteSignals hold;
    for (size_t sent = 0; sent < message.size() && !gone;) {
      const ssize_t n = ::write(to_, message.data() + sent, message.size() - sent);
      if (n < 0 && errno == EINTR) continue;
      gone = n <= 0;
      if (!gone) sent += size_t(n);
    }
  }
  if (gone) died();
  LmdbResponse r;
  receive(&r, sizeof r);
  if (r.what == LmdbAnswer::none) return false;
  key = receive_text(r.key);
  value = receive_text(r.value);
  if (r.what == LmdbAnswer::error) fail(std::exchange(value, {}));
  return true;
}

}  // namespace wt::data

#else

namespace wt::data::detail {

LmdbChild::LmdbChild(const std::string& file, double, u64) : file_(file) {
  throw NotAvailable(
      str(printable_path(file),
          " is an LMDB database and this build has no liblmdb: ", why_without("lmdb")));
}
LmdbChild::~LmdbChild() = default;
bool LmdbChild::ask(LmdbAsk, std::string_view, std::string&, std::string&) { return false; }

}  // namespace wt::data::detail
#endif
