// `wt tune` over planted variants: right, wrong, unsteady, throwing, and one that ended the
// process.
#include "warptape/tools/wt/measure/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt::tools;

namespace {

TuneVariant planted(const std::string& name, std::vector<double> values, double us = 0) {
  TuneVariant v{name, true, [values] { return values; }, {}};
  if (us > 0) v.time = [us] { return TuneTime{us, 0.1, 10 / us, "copy"}; };
  return v;
}
TuneVariant unsteady(const std::string& name, bool deterministic) {
  auto calls = std::make_shared<int>(0);
  return {name, deterministic, [calls] { return std::vector<double>{1, 2 + 1e-9 * ++*calls}; }, {}};
}
TuneVariant throwing(const std::string& name) {
  return {name, true, []() -> std::vector<double> { throw InternalError("planted"); }, {}};
}
TuneSubject subject(std::vector<TuneVariant> variants) {
  return {"1x2", 4096, 1e-5, {1, 2}, std::move(variants)};
}
TuneTask task(const std::string& contract, const std::string& size,
              std::vector<TuneVariant> variants) {
  return {contract, "f32", size, [variants] { return subject(variants); }};
}
TuneFile of_device() {
  TuneFile f;
  f.device = "planted", f.version = "0", f.date = "2026-01-01";
  return f;
}
std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
TuneVerdict verdict(const TuneFile& f, const std::string& variant) {
  for (const TuneRow& r : f.rows)
    if (r.variant == variant) return r.verdict;
  throw UsageError("no row of " + variant);
}
int count(const TuneFile& f, const std::string& variant) {
  return int(std::count_if(f.rows.begin(), f.rows.end(),
                           [&](const TuneRow& r) { return r.variant == variant; }));
}

}  // namespace

TEST_CASE("tuner: what is wrong, unsteady or throws is found, and what is right is timed") {
  const TempDir dir;
  const std::string path = dir / "tune.tsv";
  TuneFile file = of_device();
  const std::vector<TuneTask> tasks{
      task("planted_kernel", "small 0",
           {planted("naive", {1, 2}), planted("wrong", {1, 2.1}), planted("not_written", {1, NAN}),
            planted("short", {1}), unsteady("unsteady", true), unsteady("atomics", false),
            throwing("throwing")}),
      task(
          "planted_kernel", "host 0",
          {planted("naive", {1, 2}, 50), planted("wrong", {1, 2}, 1), planted("fast", {1, 2}, 20)}),
  };
  CHECK(tune(tasks, file, {.path = path}));
  CHECK(verdict(file, "naive") == TuneVerdict::right);
  CHECK(verdict(file, "atomics") == TuneVerdict::right);
  CHECK(verdict(file, "wrong") == TuneVerdict::wrong);
  CHECK(verdict(file, "not_written") == TuneVerdict::wrong);
  CHECK(verdict(file, "short") == TuneVerdict::wrong);
  CHECK(verdict(file, "unsteady") == TuneVerdict::unequal);
  CHECK(verdict(file, "throwing") == TuneVerdict::failed);
  CHECK(count(file, "wrong") == 1);  // not tried again, whatever it takes at another size

  const TuneFile read = TuneFile::parse(text_of(path), path);
  CHECK(read.complete);
  CHECK(read.text() == file.text());
  const std::string table = tune_table(read);
  CHECK(table.find("OFF: unequal") != table.npos);
  CHECK(table.find("fast") < table.find("50.0 us"));
  CHECK(table.find("50 %") != table.npos);
  CHECK(tune_page(read).find("width:50%") != std::string::npos);
}

TEST_CASE("tuner: a stopped run goes on where it was, past a variant that ended the process") {
  const TempDir dir;
  const std::string path = dir / "tune.tsv";
  TuneFile file = of_device();
  int made = 0;
  std::vector<TuneTask> tasks;
  for (int i = 0; i < 4; ++i)
    tasks.push_back({"k" + std::to_string(i), "f32", "small 0", [&made] {
                       ++made;
                       return subject({planted("naive", {1, 2}), planted("best", {1, 2})});
                     }});
  int asked = 0;
  CHECK(!tune(tasks, file, {.path = path, .stopped = [&] { return ++asked > 2; }}));
  CHECK(made == 2);
  TuneFile read = TuneFile::parse(text_of(path), path);
  CHECK(!read.complete);

  // The device is lost while k2's "best" runs: the process ends, and leaves a note.
  tasks[2].make = [] {
    TuneVariant lost{"best", true, []() -> std::vector<double> { throw DeviceError("lost"); }, {}};
    return subject({planted("naive", {1, 2}), lost});
  };
  CHECK_THROWS_AS(tune(tasks, read, {.path = path}), DeviceError);
  CHECK(std::filesystem::exists(path + ".trying"));
  read = TuneFile::parse(text_of(path), path);
  CHECK(count(read, "best") == 2);
  made = 0;
  CHECK(tune(tasks, read, {.path = path}));
  CHECK(made == 1);  // k3; k0 and k1 were done
  CHECK(!std::filesystem::exists(path + ".trying"));
  CHECK(count(read, "naive") == 4);
  CHECK(count(read, "best") == 4);
  for (const TuneRow& r : read.rows)
    CHECK((r.verdict == TuneVerdict::failed) == (r.contract == "k2" && r.variant == "best"));
}

TEST_CASE("tuner: whoever ends the process from outside puts no variant down") {
  const TempDir dir;
  const std::string path = dir / "tune.tsv";
  const auto try_twice = [&](const std::string& fault) {
    TuneFile file = of_device();
    // What is there as the process ends in the midst of "best".
    std::ofstream(path + ".trying") << "k\tf32\tsmall 0\tbest\t\n";
    if (!fault.empty()) blame_noted(path, fault);
    CHECK(tune({task("k", "small 0", {planted("naive", {1, 2}), planted("best", {1, 2})})}, file,
               {.path = path}));
    CHECK(!std::filesystem::exists(path + ".trying"));
    CHECK(verdict(file, "naive") == TuneVerdict::right);
    CHECK(count(file, "best") == 1);
    return verdict(file, "best");
  };
  CHECK(try_twice("") == TuneVerdict::right);
  CHECK(try_twice(kTuneEnded) == TuneVerdict::failed);
  CHECK(try_twice(kTuneHung) == TuneVerdict::failed);
}

TEST_CASE("tuner: two variants of one task that end the process are both put down") {
  const TempDir dir;
  const std::string path = dir / "tune.tsv";
  const auto lost = [](const std::string& name) {
    return TuneVariant{name, true, []() -> std::vector<double> { throw DeviceError("lost"); }, {}};
  };
  const std::vector<TuneTask> tasks{
      task("k", "small 0", {planted("naive", {1, 2}), lost("a"), lost("b")}),
      {"k", "f32", "real 0", []() -> TuneSubject { throw DeviceError("operands"); }},
      {"k", "f32", "real 1", []() -> TuneSubject { throw OutOfMemory("operands"); }},
      task("k", "real 2", {planted("naive", {1, 2}), planted("good", {1, 2})})};
  int died = 0;
  for (bool all = false; !all && died < 9;) {
    TuneFile file =
        std::filesystem::exists(path) ? TuneFile::parse(text_of(path), path) : of_device();
    try {
      all = tune(tasks, file, {.path = path});
    } catch (const DeviceError&) {
      ++died;
    }
  }
  CHECK(died == 3);
  const TuneFile file = TuneFile::parse(text_of(path), path);
  CHECK(verdict(file, "a") == TuneVerdict::failed);
  CHECK(verdict(file, "b") == TuneVerdict::failed);
  CHECK(verdict(file, "-") == TuneVerdict::failed);  // the operands of real 0
  CHECK(count(file, "naive") == 2);
  CHECK(verdict(file, "good") == TuneVerdict::right);
}

TEST_CASE("tuner: at full size the plainest that runs says what is right; long ones run once") {
  const TempDir dir;
  auto calls = std::make_shared<int>(0);
  const TuneVariant slow{"slow",
                         true,
                         [calls] {
                           ++*calls;
                           std::this_thread::sleep_for(std::chrono::milliseconds(350));
                           return std::vector<double>{1, 2};
                         },
                         {}};
  TuneFile file = of_device();
  const TuneTask full{
      "k", "f32", "real 0", [=] {
        TuneSubject s = subject({throwing("naive"), slow, planted("wrong", {1, 3})});
        s.want.clear();
        s.first_is_right = true;
        return s;
      }};
  CHECK(tune({full}, file, {.path = dir / "tune.tsv"}));
  CHECK(*calls == 1);
  CHECK(verdict(file, "naive") == TuneVerdict::failed);
  CHECK(verdict(file, "slow") == TuneVerdict::right);
  CHECK(verdict(file, "wrong") == TuneVerdict::wrong);
}

TEST_CASE("tuner: a file that cannot be written, or is none, is an error and stays as it was") {
  const TempDir dir;
  TuneFile file = of_device();
  const std::vector<TuneTask> tasks{task("k", "small 0", {planted("naive", {1, 2})})};
  CHECK_THROWS_AS(tune(tasks, file, {.path = dir / "no/tune.tsv"}), CheckpointError);

  TuneFile good = of_device();
  good.rows.push_back({"k", "f32", "small 0", "tab\there", "naive", 64});
  const std::string text = good.text();
  CHECK(TuneFile::parse(text, "t").rows[0].shape == "tab here");
  for (size_t cut = 0; cut < text.size(); ++cut)
    CHECK_THROWS_AS(TuneFile::parse(text.substr(0, cut), "t"), DataError);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string t = text;
    return t.replace(t.find(from), from.size(), to);
  };
  CHECK_THROWS_AS(TuneFile::parse(with("tune 1", "tune 2"), "t"), DataError);
  CHECK_THROWS_AS(TuneFile::parse(with("right", "rigth"), "t"), DataError);
  CHECK_THROWS_AS(TuneFile::parse(with("end\t1", "end\t2"), "t"), DataError);
  CHECK_THROWS_AS(TuneFile::parse(with("\t64\t", "\t-64\t"), "t"), DataError);
  CHECK_THROWS_AS(TuneFile::parse(text + "more\n", "t"), DataError);
}

TEST_CASE("tuner: the order names contracts that there are, each once") {
  std::vector<std::string> names = tune_order();
  for (const std::string& name : names) {
    CAPTURE(name);
    int found = 0;
    for (const ContractInfo& c : all_contracts()) found += name == c.name;
    CHECK(found == 1);
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}
