#include "warptape/tools/wt/training/run_metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt::tools;

namespace {

const RunHeader kRun{"0.1.0",
                     "charlm",
                     "cpu",
                     18446744073709551615u,
                     {{"batch", wt::i64{64}},
                      {"lr", 3e-4},
                      {"graph", false},
                      {"data", std::string("a\"b")},
                      {"resume", std::monostate{}}}};

StepRecord step_record(wt::i64 step) {
  StepRecord r{step, double(step / 3), 1.0 / double(step + 2), 1e-3 / 3};
  if (step % 2) r.grad_norm = 0.1f, r.bytes = wt::u64{1} << 50;
  return r;
}

// The file after `last` steps with an evaluation before the first and after every third.
std::string run_to(const std::string& path, wt::i64 last) {
  auto out = MetricsWriter::create(path, kRun);
  out.log(EvalRecord{0, 0, 5.5, {}});
  for (wt::i64 s = 1; s <= last; ++s) {
    out.log(step_record(s));
    if (s % 3 == 0) out.log(EvalRecord{s, double(s / 3), 5.0 / double(s), 0.25});
  }
  return slurp(path);
}

}  // namespace

TEST_CASE("metrics: lines have the documented keys in their order") {
  const TempDir dir;
  auto out = MetricsWriter::create(dir / "m", kRun);
  out.log(StepRecord{12, 1, 0.1f, 3e-4, 2.5, 65536, 1e6, 4096, 12.5});
  out.log(StepRecord{13, 1, std::nan(""), 0});
  out.log(EvalRecord{13, 1, 1.5, 0.75});
  out.log(EvalRecord{14, 2, std::numeric_limits<double>::infinity(), {}});
  out.flush();
  CHECK(
      slurp(dir / "m") ==
      R"({"schema":1,"version":"0.1.0","recipe":"charlm","device":"cpu","seed":18446744073709551615,)"
      R"("options":{"batch":64,"lr":0.0003,"graph":false,"data":"a\"b","resume":null}})"
      "\n"
      R"({"step":12,"epoch":1,"loss":0.10000000149011612,"lr":0.0003,"grad_norm":2.5,"scale":65536,"items_per_second":1000000,"bytes":4096,"slowest_ms":12.5})"
      "\n"
      R"({"step":13,"epoch":1,"loss":"NaN","lr":0,"grad_norm":null,"scale":null,"items_per_second":null,"bytes":null,"slowest_ms":null})"
      "\n"
      R"({"step":13,"epoch":1,"eval_loss":1.5,"accuracy":0.75})"
      "\n"
      R"({"step":14,"epoch":2,"eval_loss":"Infinity","accuracy":null})"
      "\n");
}

TEST_CASE("metrics: what is written reads back exactly") {
  const TempDir dir;
  run_to(dir / "m", 7);
  const RunHistory h = read_metrics(dir / "m");
  CHECK(h.recipe == "charlm");
  CHECK(h.seed == "18446744073709551615");
  CHECK(h.options[1] == std::pair<std::string, std::string>{"lr", "0.0003"});
  CHECK(h.options[3].second == "a\"b");
  REQUIRE(h.steps.size() == 7);
  REQUIRE(h.evals.size() == 3);
  for (const StepRecord& r : h.steps) {
    const StepRecord want = step_record(r.step);
    CHECK(r.loss == want.loss);
    CHECK(r.lr == want.lr);
    CHECK(r.grad_norm == want.grad_norm);
    CHECK(r.bytes == want.bytes);
    CHECK(r.scale == std::nullopt);
  }
  CHECK(h.evals[0].accuracy == std::nullopt);
  CHECK(h.evals[2].eval_loss == 5.0 / 6);
}

TEST_CASE("metrics: resumed at any step and cut at any byte, the file ends as if uninterrupted",
          "[wall][checkpoint]") {
  const TempDir dir;
  const std::string whole = run_to(dir / "whole", 9);
  for (std::size_t cut = 0; cut <= whole.size(); cut += 7) {
    // A crash at byte `cut`; the newest checkpoint is of the last step whose records are all there.
    const std::string there = whole.substr(0, cut);
    const wt::i64 checkpoint = [&] {
      wt::i64 s = 0;
      for (wt::i64 k = 1; k <= 9; ++k) {
        const std::string next = "{\"step\":" + std::to_string(k + 1) + ",";
        const auto at = k < 9 ? whole.find(next) : whole.size();
        if (at <= cut) s = k;
      }
      return s - s % 2;  // a checkpoint every other step
    }();
    CAPTURE(cut, checkpoint);
    spit(dir / "m", there);
    {
      auto out = MetricsWriter::resume(dir / "m", kRun, checkpoint);
      if (checkpoint == 0 && slurp(dir / "m").find("eval_loss") == std::string::npos) {
        out.log(EvalRecord{0, 0, 5.5, {}});
      }
      for (wt::i64 s = checkpoint + 1; s <= 9; ++s) {
        out.log(step_record(s));
        if (s % 3 == 0) out.log(EvalRecord{s, double(s / 3), 5.0 / double(s), 0.25});
      }
    }
    REQUIRE(slurp(dir / "m") == whole);
  }
}

TEST_CASE("metrics: resume says how many records it drops, unreadable ones included") {
  const TempDir dir;
  spit(dir / "m", run_to(dir / "x", 5) + "{\"step\":6,\xff\n{\"torn");
  const auto out = MetricsWriter::resume(dir / "m", kRun, 3);
  CHECK(out.records_dropped() == 3);  // steps 4 and 5 and the damaged line
  CHECK(slurp(dir / "m") == run_to(dir / "y", 3));
}

TEST_CASE("metrics: damage before the checkpoint is an error with its byte") {
  const TempDir dir;
  std::string text = run_to(dir / "x", 5);
  const std::size_t at = text.find("{\"step\":2");
  text[at + 3] = '"';
  spit(dir / "m", text);
  for (const bool resume : {false, true}) {
    try {
      resume ? (void)MetricsWriter::resume(dir / "m", kRun, 4) : (void)read_metrics(dir / "m");
      FAIL("must throw");
    } catch (const wt::DataError& e) {
      CAPTURE(e.what());
      const std::string what = e.what();
      const auto byte = std::stoul(what.substr(what.find("at byte ") + 8));
      CHECK((byte >= at && byte < at + 12));
    }
  }
  CHECK(slurp(dir / "m") == text);  // and nothing is cut off
  for (const char* foreign :
       {"{\"a\":1}\n", "{\"schema\":2}\n", "hello\n", "{\"schema\":1}\n{\"step\":-1}\n",
        "{\"schema\":1}\n{\"step\":1,\"step\":2}\n", "{\"schema\":1}\n{}\n"}) {
    CAPTURE(foreign);
    spit(dir / "f", foreign);
    CHECK_THROWS_AS(read_metrics(dir / "f"), wt::DataError);
  }
}

TEST_CASE("metrics: another run's history is never overwritten") {
  const TempDir dir;
  const std::string before = run_to(dir / "m", 2);
  CHECK_THROWS_AS(MetricsWriter::create(dir / "m", kRun), wt::CheckpointError);
  CHECK(slurp(dir / "m") == before);
  CHECK_THROWS_AS(MetricsWriter::create(dir / "no/m", kRun), wt::CheckpointError);
}

TEST_CASE(
    "metrics: a full disk is a CheckpointError that leaves whole lines, at every system call") {
  const TempDir dir;
  bool reached = true;
  for (int nth = 1; reached; ++nth) {
    CAPTURE(nth);
    const std::string path = dir / std::to_string(nth);
    {
      const FaultyFiles faults(nth, ENOSPC, true);
      try {
        auto out = MetricsWriter::create(path, kRun);
        out.log(step_record(1));
        out.flush();
      } catch (const wt::CheckpointError& e) {
        CHECK(std::string(e.what()).find("No space left") != std::string::npos);
      }
      reached = faults.reached();
    }
    const std::string text = slurp(path);
    CHECK((text.empty() || text.back() == '\n'));
  }
}

TEST_CASE("metrics: what a full disk kept back is written when there is room again, in its place") {
  const TempDir dir;
  const std::string whole = run_to(dir / "whole", 3);
  auto out = MetricsWriter::create(dir / "m", kRun);
  out.log(EvalRecord{0, 0, 5.5, {}});
  out.log(step_record(1));
  {
    const FaultyFiles faults(2, ENOSPC, true);  // after a byte of it
    CHECK_THROWS_AS(out.log(step_record(2)), wt::CheckpointError);
  }
  CHECK(read_metrics(dir / "m").steps.size() == 1);
  {
    const FaultyFiles faults(1, ENOSPC);
    CHECK_THROWS_AS(out.flush(), wt::CheckpointError);  // so no checkpoint is ahead of its history
  }
  out.log(step_record(3));
  out.log(EvalRecord{3, 1, 5.0 / 3, 0.25});
  CHECK(slurp(dir / "m") == whole);
}

TEST_CASE("metrics: resumed at a step whose evaluation was not done with, it is dropped alone") {
  const TempDir dir;
  spit(dir / "m", run_to(dir / "x", 5));
  auto out = MetricsWriter::resume(dir / "m", kRun, 3, false);
  CHECK(out.records_dropped() == 3);
  CHECK(read_metrics(dir / "m").steps.back().step == 3);
  out.log(EvalRecord{3, 1, 5.0 / 3, 0.25});
  CHECK(slurp(dir / "m") == run_to(dir / "y", 3));
}

TEST_CASE("metrics: counts are integers, whatever the file says") {
  const TempDir dir;
  const auto with = [&](const std::string& bytes) {
    spit(dir / "m",
         "{\"schema\":1}\n{\"step\":1,\"epoch\":0,\"loss\":1,\"bytes\":" + bytes + "}\n");
    return read_metrics(dir / "m").steps.at(0).bytes;
  };
  CHECK(with("9007199254740993") == 9007199254740993u);  // 2^53 + 1
  CHECK(with("18446744073709551615") == 18446744073709551615u);
  CHECK_FALSE(with("null"));
  for (const char* bad : {"1e300", "-1", "1.5", "\"NaN\"", "18446744073709551616", "true"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(with(bad), wt::DataError);
  }
}

TEST_CASE("metrics: what is no regular file is refused, and nobody waits for a pipe") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "m").c_str(), 0600) == 0);
  const auto refusal = [&](const std::string& path) {
    return message_of([&] { (void)MetricsWriter::create(path, kRun); });
  };
  CHECK(mentions(refusal(dir / "m"),
                 "CheckpointError: " + dir / "m" + " cannot be written: it is no regular file"));
  CHECK(mentions(message_of([&] { (void)MetricsWriter::resume(dir / "m", kRun, 1); }),
                 "it is no regular file"));
  CHECK(mentions(message_of([&] { (void)read_metrics(dir / "m"); }), "it is not a regular file"));
  const int reader = ::open((dir / "m").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  CHECK(mentions(refusal(dir / "m"), "it is no regular file"));
  ::close(reader);
  CHECK(mentions(refusal("/dev/null"), "it is no regular file"));
}

TEST_CASE("metrics: a link is refused, and what it leads to stays") {
  const TempDir dir;
  spit(dir / "other", "mine\n");
  std::filesystem::create_symlink(dir / "other", dir / "m");
  CHECK(mentions(message_of([&] { (void)MetricsWriter::resume(dir / "m", kRun, 1); }),
                 dir / "m" + " cannot be written: it leads to another file"));
  CHECK(slurp(dir / "other") == "mine\n");
}
