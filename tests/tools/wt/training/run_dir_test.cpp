#include "warptape/tools/wt/training/run_dir.h"

#include <sys/stat.h>

#include "warptape/core/safetensors.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"

using wt::tools::RunDirectory;

namespace {

void save(RunDirectory& run, wt::i64 step, int keep = 2) {
  const double value = double(step);
  const wt::SafetensorsItem item{"step", wt::DType::f64, {}, &value};
  wt::write_safetensors(run.checkpoint_path(step), {&item, 1}, {.checksums = true});
  run.published(step, keep);
}

std::vector<wt::i64> steps(const RunDirectory& run) {
  std::vector<wt::i64> out;
  for (const auto& c : run.checkpoints()) out.push_back(c.step);
  return out;
}

}  // namespace

TEST_CASE("run folder: the newest checkpoints stay, at least two") {
  const TempDir dir;
  RunDirectory run(dir / "runs/a");
  CHECK_FALSE(run.newest_valid());
  for (wt::i64 step : {100, 200, 300, 1'000'000}) save(run, step, 0);
  CHECK(steps(run) == std::vector<wt::i64>{1'000'000, 300});
  save(run, 1'000'100, 3);
  CHECK(steps(run) == std::vector<wt::i64>{1'000'100, 1'000'000, 300});
  CHECK(run.newest_valid()->checkpoint.step == 1'000'100);
  CHECK(run.newest_valid()->rejected.empty());
  CHECK(slurp(dir / "runs/a/ckpt/latest") == "step-1000100.safetensors\n");
}

TEST_CASE("run folder: a damaged checkpoint is rejected with the reason and an older one taken") {
  const TempDir dir;
  RunDirectory run(dir / "a");
  save(run, 10), save(run, 20), save(run, 30, 3);
  std::string bytes = slurp(run.checkpoint_path(30));
  bytes.back() ^= 1;
  spit(run.checkpoint_path(30), bytes);
  const auto found = run.newest_valid();
  REQUIRE(found);
  CHECK(found->checkpoint.step == 20);
  REQUIRE(found->rejected.size() == 1);
  CHECK(found->rejected[0].find("step-000030.safetensors") != std::string::npos);
  CHECK(found->rejected[0].find("tensor 'step' is damaged") != std::string::npos);
  spit(run.checkpoint_path(20), "x"), spit(run.checkpoint_path(10), "");
  try {
    (void)run.newest_valid();
    FAIL("must throw");
  } catch (const wt::DataError& e) {
    CHECK(std::string(e.what()).find("no checkpoint can be read") != std::string::npos);
    CHECK(std::string(e.what()).find("truncated download?") != std::string::npos);
  }
}

TEST_CASE("run folder: `latest` counts before the number, and need not be there or make sense") {
  const TempDir dir;
  RunDirectory run(dir / "a");
  save(run, 10), save(run, 20);
  run.published(10);  // as after going back by hand
  CHECK(run.newest_valid()->checkpoint.step == 10);
  for (const char* text :
       {"", "../../etc/passwd\n", "step-000030.safetensors\n", "step-10.safetensors"}) {
    spit(dir / "a/ckpt/latest", text);
    CHECK(run.newest_valid()->checkpoint.step == 20);
  }
}

TEST_CASE("run folder: what is not ours is neither loaded nor removed") {
  const TempDir dir;
  {
    RunDirectory run(dir / "a");
    for (const char* name :
         {"step-1.safetensors", "step-000001.safetensors.bak", "step--00001.safetensors",
          "best.safetensors", "step-000040.safetensors.tmp-123"}) {
      spit(dir / "a/ckpt" + ("/" + std::string(name)), "x");
    }
    CHECK(run.checkpoints().empty());
    save(run, 10), save(run, 20), save(run, 30);
    CHECK(steps(run) == std::vector<wt::i64>{30, 20});
  }
  RunDirectory again(dir / "a");  // removes the killed writer's file
  int names = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "a/ckpt")) {
    ++names;
    CHECK(entry.path().string().find(".tmp-") == std::string::npos);
  }
  CHECK(names == 4 + 2 + 1);
}

TEST_CASE("run folder: two runs never share one") {
  const TempDir dir;
  RunDirectory run(dir / "a");
  CHECK_THROWS_AS(RunDirectory(dir / "a"), wt::CheckpointError);
  spit(dir / "plain", "");
  CHECK_THROWS_AS(RunDirectory(dir / "plain"), wt::CheckpointError);
  std::filesystem::create_directory(dir / "b");
  spit(dir / "b/ckpt", "");  // a file where the folder should be
  RunDirectory b(dir / "b");
  const double x = 1;
  const wt::SafetensorsItem item{"x", wt::DType::f64, {}, &x};
  CHECK_THROWS_AS(wt::write_safetensors(b.checkpoint_path(1), {&item, 1}), wt::CheckpointError);
}

TEST_CASE("run folder: at every failing system call of save and publish, a checkpoint is valid",
          "[wall][checkpoint]") {
  const TempDir dir;
  bool reached = true;
  for (int nth = 1; reached; ++nth) {
    CAPTURE(nth);
    RunDirectory run(dir / std::to_string(nth));
    save(run, 10), save(run, 20);
    {
      const FaultyFiles faults(nth, EIO);
      try {
        save(run, 30);
      } catch (const wt::CheckpointError&) {}
      reached = faults.reached();
    }
    const auto found = run.newest_valid();
    REQUIRE(found);
    CHECK(found->rejected.empty());
    CHECK((found->checkpoint.step == 20 || found->checkpoint.step == 30));
    CHECK(run.checkpoints().size() >= 2);
  }
}

TEST_CASE("run folder: a pipe or a folder as `latest` is passed over, and nobody waits") {
  const TempDir dir;
  RunDirectory run(dir / "a");
  save(run, 10), save(run, 20);
  const std::string latest = dir / "a/ckpt/latest";
  std::filesystem::remove(latest);
  REQUIRE(::mkfifo(latest.c_str(), 0600) == 0);
  CHECK(run.newest_valid()->checkpoint.step == 20);
  std::filesystem::remove(latest);
  std::filesystem::create_directory(latest);
  CHECK(run.newest_valid()->checkpoint.step == 20);
  std::filesystem::remove(latest);
  CHECK(run.newest_valid()->checkpoint.step == 20);
}
