#include "warptape/core/files/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "warptape/core/safetensors.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"

namespace {

unsigned mode_of(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Runs `body` in a child process and returns its wait status.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {}
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("AtomicFile replaces a file only when it is committed") {
  const TempDir dir;
  const std::string path = dir / "out.txt";
  wt::write_file_atomically(path, "old");
  {
    wt::AtomicFile file(path);
    file.write("new");
    CHECK(dir.count(".tmp-") == 1);
    CHECK(slurp(path) == "old");
  }
  CHECK(slurp(path) == "old");
  CHECK(dir.count() == 1);
  wt::AtomicFile file(path, {.expected_bytes = 100});
  file.write("new");
  CHECK_THROWS_AS(wt::AtomicFile(path), wt::CheckpointError);  // two writers of one name
  file.commit();
  CHECK(slurp(path) == "new");  // what was reserved and not used is cut off
  CHECK(dir.count() == 1);
}

TEST_CASE("AtomicFile keeps the old file's mode and gives a new one 0666 & ~umask") {
  const TempDir dir;
  const mode_t before = ::umask(027);
  wt::write_file_atomically(dir / "new", "x");
  CHECK(mode_of(dir / "new") == 0640);
  ::chmod((dir / "new").c_str(), 0666);
  wt::write_file_atomically(dir / "new", "y");
  CHECK(mode_of(dir / "new") == 0666);
  ::umask(before);
}

TEST_CASE("AtomicFile writes through a symbolic link and refuses what is no file") {
  const TempDir dir;
  spit(dir / "real", "old");
  REQUIRE(::symlink((dir / "real").c_str(), (dir / "link").c_str()) == 0);
  wt::write_file_atomically(dir / "link", "new");
  CHECK(slurp(dir / "real") == "new");
  struct stat info;
  REQUIRE(::lstat((dir / "link").c_str(), &info) == 0);
  CHECK(S_ISLNK(info.st_mode));
  CHECK_THROWS_AS(wt::write_file_atomically(dir.path, "x"), wt::CheckpointError);
  CHECK_THROWS_AS(wt::write_file_atomically("/dev/full", "x"), wt::CheckpointError);
  CHECK_THROWS_AS(wt::write_file_atomically(dir / "no/such/x", "x"), wt::CheckpointError);
}

TEST_CASE("A verify callback that throws keeps the old file") {
  const TempDir dir;
  spit(dir / "f", "old");
  wt::AtomicFileOptions options;
  options.verify = [](const std::string& temp) {
    CHECK(slurp(temp) == "new");
    throw wt::DataError("bit 3 is odd");
  };
  try {
    wt::write_file_atomically(dir / "f", "new", options);
    FAIL("must throw");
  } catch (const wt::CheckpointError& e) {
    CHECK(mentions(e.what(), "bit 3 is odd"));
    CHECK(mentions(e.what(), "cannot be written"));
  }
  CHECK(slurp(dir / "f") == "old");
  CHECK(dir.count() == 1);
}

TEST_CASE(
    "When the Nth system call of a write fails, the old or the new file is there, for all N") {
  const TempDir dir;
  const std::string path = dir / "f", old_text(3000, 'o'), new_text(5000, 'n');
  for (const int error : {ENOSPC, EIO, EINTR, EDQUOT, EROFS}) {
    int failures = 0;
    for (int nth = 1;; ++nth) {
      CAPTURE(error, nth);
      spit(path, old_text);
      bool threw = false, reached = false;
      {
        const FaultyFiles faults(nth, error);
        try {
          wt::write_file_atomically(path, new_text);
        } catch (const wt::CheckpointError& e) {
          threw = true;
          CHECK(mentions(e.what(), "cannot be written"));
        }
        reached = faults.reached();
      }
      const std::string content = slurp(path);
      if (!threw) CHECK(content == new_text);
      if (content != old_text) CHECK(content == new_text);
      CHECK(dir.count() == 1);  // no temporary file stays
      failures += threw;
      if (!reached) break;
    }
    // open, fchmod, fallocate, write, fsync, close, rename, open, fsync of the folder; EINTR is
    // harmless for three of them.
    CHECK(failures == (error == EINTR ? 6 : 9));
  }
}

TEST_CASE("Short writes are continued") {
  const TempDir dir;
  const FaultyFiles faults(-1, EIO, true);
  wt::write_file_atomically(dir / "f", "abcdefgh");
  CHECK(slurp(dir / "f") == "abcdefgh");
  CHECK(faults.calls() > 8);
}

TEST_CASE("A process that ends at the Nth system call leaves the old or the new file") {
  const TempDir dir;
  const std::string path = dir / "f";
  bool finished = false;
  for (int nth = 1; !finished; ++nth) {
    CAPTURE(nth);
    spit(path, "old");
    const int status = in_child([&] {
      const FaultyFiles faults(nth, 0);
      wt::write_file_atomically(path, "new!");
      return 42;
    });
    REQUIRE(WIFEXITED(status));
    finished = WEXITSTATUS(status) == 42;
    const std::string content = slurp(path);
    CHECK((content == "old" || content == "new!"));
    if (finished) CHECK(content == "new!");
  }
  const wt::DirectoryLock lock(dir.path);
  CHECK(lock.stale_files_removed() > 0);
  CHECK(dir.count(".tmp-") == 0);
}

TEST_CASE("A file-size limit is an error, not a SIGXFSZ") {
  const TempDir dir;
  spit(dir / "f", "old");
  const int status = in_child([&] {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      wt::AtomicFile file(dir / "f");  // nothing reserved: the write itself meets the limit
      file.write(std::string(10000, 'x'));
      file.commit();
    } catch (const wt::CheckpointError& e) {
      return mentions(e.what(), "File too large") ? 42 : 43;
    }
    return 44;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
  CHECK(slurp(dir / "f") == "old");
  CHECK(dir.count() == 1);
}

TEST_CASE("A size that the disk cannot hold is refused before anything is written") {
  const TempDir dir;
  spit(dir / "f", "old");
  try {
    wt::AtomicFile file(dir / "f", {.expected_bytes = wt::u64{1} << 60});
    FAIL("must throw");
  } catch (const wt::CheckpointError& e) {
    CHECK(mentions(e.what(), "1152921504606846976 bytes"));
  }
  CHECK(slurp(dir / "f") == "old");
  CHECK(dir.count() == 1);
}

// WT_KILLS: how many kills must have left a temporary file. tools/kill_harness.sh reads the line
// that begins with "kills:".
TEST_CASE("SIGKILLs inside the checkpoint writer: the file is always whole and never older") {
  const TempDir dir;
  const std::string path = dir / "ckpt.safetensors";
  std::vector<float> data(100'000);
  const auto write = [&](float generation) {
    std::fill(data.begin(), data.end(), generation);
    const wt::SafetensorsItem item{"w", wt::DType::f32, {100'000}, data.data()};
    wt::write_safetensors(path, {&item, 1}, {.checksums = true});
  };
  write(0);
  const char* const asked = std::getenv("WT_KILLS");
  const int wanted = asked ? std::atoi(asked) : 40;
  std::mt19937 random(7);
  std::vector<float> back(data.size());
  int kills = 0, within = 0, unreadable = 0, torn = 0, stay = 0;
  float newest = 0;
  for (; within < wanted && kills < 50 * wanted + 500; ++kills) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (float generation = newest + 1;; ++generation) write(generation);
    }
    ::usleep(500 + random() % 6000);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const int orphans = dir.count(".tmp-");
    within += orphans > 0;
    try {
      auto file = wt::SafetensorsFile::open(path);
      file.read(file.entries().at(0), back.data());
      const bool uniform =
          std::all_of(back.begin(), back.end(), [&](float x) { return x == back[0]; });
      if (!uniform || back[0] < newest) ++torn;
      newest = back[0];
    } catch (const wt::Error&) {
      ++unreadable;
    }
    const wt::DirectoryLock lock(dir.path);  // as the next start does
    if (lock.stale_files_removed() != orphans) ++stay;
  }
  std::printf(
      "kills: %d, of which %d left a temporary file; %d checkpoints unreadable, %d torn or "
      "older, %d temporary files stayed after the next start; %.0f checkpoints written\n",
      kills, within, unreadable, torn, stay + dir.count(".tmp-"), double(newest));
  CHECK(within == wanted);
  CHECK(unreadable == 0);
  CHECK(torn == 0);
  CHECK(stay == 0);
  CHECK(dir.count(".tmp-") == 0);
  CHECK(newest > 0);  // the writer did get somewhere
}

TEST_CASE("Only our own stale temporary files are removed") {
  const TempDir dir;
  for (const char* name : {"a.tmp-12", "a.tmp-", "a.tmp-12x", ".tmp-12", "a", "a.tmp-99"}) {
    spit(dir / name, "x");
  }
  struct timespec times[2] = {{}, {}};
  times[1].tv_sec = 4'000'000'000;  // written in the future: somebody is at it
  REQUIRE(::utimensat(AT_FDCWD, (dir / "a.tmp-99").c_str(), times, 0) == 0);
  CHECK(wt::remove_stale_temp_files(dir.path, 3e9) == 1);
  CHECK(dir.count() == 5);
  CHECK(wt::remove_stale_temp_files(dir / "absent", 3e9) == 0);
}

TEST_CASE("A second process is refused a locked folder and told who has it") {
  const TempDir dir;
  const std::string run = dir / "runs/a";
  {
    const wt::DirectoryLock lock(run);
    try {
      const wt::DirectoryLock second(run);
      FAIL("must throw");
    } catch (const wt::CheckpointError& e) {
      CHECK(mentions(e.what(), "in use by process " + std::to_string(::getpid()) + " on "));
      CHECK(mentions(e.what(), ", started 20"));
    }
  }
  const wt::DirectoryLock again(run);
  spit(dir / "plain", "");
  CHECK_THROWS_AS(wt::DirectoryLock(dir / "plain/x"), wt::CheckpointError);
}

TEST_CASE("A LOCK that leads to another file leaves that file as it is") {
  const TempDir dir;
  const std::string lock = dir / "LOCK";
  const auto refusal = [&] {
    try {
      const wt::DirectoryLock held(dir.path);
      return std::string();
    } catch (const wt::CheckpointError& e) {
      return std::string(e.what());
    }
  };
  spit(dir / "mine", "precious");
  std::filesystem::create_symlink("mine", lock);
  CHECK(mentions(refusal(), lock + " cannot be written: it is a symbolic link"));
  CHECK(slurp(dir / "mine") == "precious");
  std::filesystem::remove(lock);
  std::filesystem::create_symlink("absent", lock);
  CHECK(mentions(refusal(), "it is a symbolic link"));
  CHECK_FALSE(std::filesystem::exists(dir / "absent"));
  std::filesystem::remove(lock);
  REQUIRE(::mkfifo(lock.c_str(), 0600) == 0);
  CHECK(mentions(refusal(), "it is no regular file"));
  std::filesystem::remove(lock);
  CHECK(refusal().empty());
}

TEST_CASE("unlink_live_temp_files removes what is being written, as a signal handler needs it") {
  const TempDir dir;
  wt::AtomicFile file(dir / "f");
  CHECK(dir.count(".tmp-") == 1);
  wt::unlink_live_temp_files();
  CHECK(dir.count() == 0);
  CHECK_THROWS_AS(file.commit(), wt::CheckpointError);
}
