// Everything that the tools and the library write into a run's folder, with the Nth system call
// failing, for every N until none fails: a clear error, the old file or the whole new one, nothing
// temporary, and the next try works.
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>

#include "warptape/core/factories.h"
#include "warptape/core/npy.h"
#include "warptape/core/plot.h"
#include "warptape/core/safetensors.h"
#include "warptape/data/npz.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/measure/race_output.h"
#include "warptape/tools/wt/reports/run_output.h"

using namespace wt::tools;
using wt::i64;

namespace {

struct Writer {
  const char* what;
  // Writes version 1 or 2 of everything into a folder.
  std::function<void(const std::string& folder, int version)> write;
};

RunHeader header() { return {.version = "0", .recipe = "r", .device = "cpu", .options = {}}; }

void write_metrics(const std::string& folder, int version) {
  MetricsWriter m = MetricsWriter::resume(folder + "/metrics.jsonl", header(), 1);
  m.log(StepRecord{2, 0, double(version), 0});
  m.flush();
}

const std::vector<Writer>& writers() {
  static const std::vector<Writer> all{
      {"safetensors",
       [](const std::string& folder, int version) {
         const std::vector<float> data(1000, float(version));
         const wt::SafetensorsItem item{"x", wt::DType::f32, {1000}, data.data()};
         wt::write_safetensors(folder + "/f", {&item, 1}, {.checksums = true});
       }},
      {"checkpoint",
       [](const std::string& folder, int version) {
         wt::nn::save_tensors(folder + "/f",
                              {{"a", wt::full({100}, version)}, {"b", wt::full({3}, version)}},
                              {{"version", std::to_string(version)}});
       }},
      {"npz",
       [](const std::string& folder, int version) {
         wt::data::write_npz(folder + "/f", {{"a", wt::full({10}, version)}});
       }},
      {"npy", [](const std::string& folder,
                 int version) { wt::data::write_npy(folder + "/f", wt::full({10}, version)); }},
      {"plot",
       [](const std::string& folder, int version) {
         wt::plot({{"a", std::vector<double>{0, double(version)}}}).svg(folder + "/f");
       }},
      {"report",
       [](const std::string& folder, int version) {
         static const std::string metrics = [] {
           static const TempDir dir;
           MetricsWriter::create(dir / "m", header());
           return dir / "m";
         }();
         write_report(folder + "/f", metrics, {.title = std::to_string(version)});
       }},
      {"metrics", write_metrics},
  };
  return all;
}

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = slurp(entry.path().string());
  return files;
}

// The first record of metrics stays, whatever becomes of the second.
bool old_new_or_cut(const std::string& now, const std::string& before, const std::string& after) {
  return now == before || now == after ||
         (after.starts_with(now) && before.starts_with(now) && now.ends_with('\n'));
}

}  // namespace

TEST_CASE("write faults: at every failing system call of every writer, old or new, never neither") {
  for (const Writer& w : writers()) {
    const bool log = std::strcmp(w.what, "metrics") == 0;
    const TempDir wanted_old, wanted_new;
    w.write(wanted_old.path, 1), w.write(wanted_new.path, 2);
    const auto before = files_in(wanted_old.path), after = files_in(wanted_new.path);
    REQUIRE(before != after);
    for (const int error : {ENOSPC, EIO, EDQUOT, EROFS}) {
      int failures = 0;
      for (int nth = 1;; ++nth) {
        CAPTURE(w.what, error, nth);
        const TempDir dir;
        w.write(dir.path, 1);
        bool reached = false;
        std::string text;
        {
          const FaultyFiles faults(nth, error);
          try {
            w.write(dir.path, 2);
          } catch (const wt::CheckpointError& e) {
            text = e.what();
          }
          reached = faults.reached();
        }
        if (!text.empty()) {
          ++failures;
          CHECK(text.find(dir.path) != std::string::npos);
          CHECK(text.find("cannot be written") != std::string::npos);
          CHECK(text.find(std::strerror(error)) != std::string::npos);
        }
        const auto now = files_in(dir.path);
        REQUIRE(now.size() == 1);  // nothing temporary
        const std::string& content = now.begin()->second;
        const std::string &old = before.begin()->second, &fresh = after.begin()->second;
        if (log)
          CHECK(old_new_or_cut(content, old, fresh));
        else
          CHECK((content == old || content == fresh));
        if (text.empty()) CHECK(content == fresh);
        w.write(dir.path, 2);
        CHECK(files_in(dir.path) == after);
        if (!reached) break;
      }
      CAPTURE(w.what);
      CHECK(failures >= (log ? 3 : 6));
    }
  }
}

TEST_CASE("write faults: a first file that cannot be written leaves nothing") {
  for (const Writer& w : writers()) {
    if (std::strcmp(w.what, "metrics") == 0) continue;  // grows in place
    for (int nth = 1;; ++nth) {
      CAPTURE(w.what, nth);
      const TempDir dir;
      bool reached = false, failed = false;
      {
        const FaultyFiles faults(nth, ENOSPC);
        try {
          w.write(dir.path, 1);
        } catch (const wt::CheckpointError&) {
          failed = true;
        }
        reached = faults.reached();
      }
      // It is there, whole, when only the folder could not be synchronised.
      CHECK(dir.count(".tmp-") == 0);
      if (!failed) CHECK(dir.count() == 1);
      if (!reached) break;
    }
  }
}

TEST_CASE("write faults: a run that cannot write something has all that it had, and goes on") {
  const wt::nn::Metadata metadata{{"recipe", "r"}};
  const auto state = [](int step) {
    return std::vector<wt::nn::NamedTensor>{{"x", wt::full({50}, step)}};
  };
  // Step 1 is saved and logged; at every failing call of step 2's output it must still be there.
  const auto step = [&](RunOutput& out, i64 n) {
    out.log(StepRecord{n, 0, 1.0 / double(n), 1e-3}, 5.0);
    out.log(EvalRecord{n, 0, 2, 0.5});
    out.save(n, state(int(n)), 2);
    out.save_best(state(int(n)));
    out.write_report({.summary = {{"step", std::to_string(n)}}});
  };
  int failures = 0;
  for (int nth = 1;; ++nth) {
    CAPTURE(nth);
    const TempDir dir;
    bool reached = false;
    {
      RunOutput out(dir.path, metadata);
      out.begin(header(), {});
      step(out, 1);
      const FaultyFiles faults(nth, ENOSPC);
      try {
        step(out, 2);
      } catch (const wt::CheckpointError& e) {
        ++failures;
        CHECK(std::string(e.what()).find(dir.path) != std::string::npos);
      }
      reached = faults.reached();
    }
    int temporary = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path))
      temporary += entry.path().filename().string().find(".tmp-") != std::string::npos;
    CHECK(temporary == 0);
    CHECK(slurp(dir / "report.html").ends_with("</html>\n"));
    const RunHistory history = read_metrics(dir / "metrics.jsonl");
    CHECK(history.steps.size() >= 1);
    RunOutput again(dir.path, metadata);
    const auto found = again.resume();
    REQUIRE(found);
    const double value = found->find("x")->to_vector<float>().at(0);
    CHECK((value == 1 || value == 2));
    again.begin(header(), i64(value));
    step(again, i64(value) + 1);
    CHECK(read_metrics(dir / "metrics.jsonl").steps.size() == std::size_t(value) + 1);
    if (!reached) break;
  }
  CHECK(failures > 30);
}

TEST_CASE("write faults: a race's files are the old or the new ones each") {
  Race race;
  race.recipe = "synthetic", race.steps = 1, race.seeds = 1;
  race.racers = {{"sgd", "sgd", 0.1}};
  const TempDir dir;
  write_race(dir.path, race);
  const auto before = files_in(dir.path);
  race.steps = 2;
  race.runs.push_back({.racer = 0, .seed = 1, .train = {{1, 1}}, .evals = {{0, 1, 0}}, .steps = 1});
  int failures = 0;
  std::map<std::string, std::string> after;
  {
    const TempDir other;
    write_race(other.path, race);
    after = files_in(other.path);
  }
  for (int nth = 1;; ++nth) {
    CAPTURE(nth);
    for (const auto& [name, text] : before) spit(dir / name, text);
    const FaultyFiles faults(nth, EIO);
    try {
      write_race(dir.path, race);
    } catch (const wt::CheckpointError&) {
      ++failures;
    }
    for (const auto& [name, text] : files_in(dir.path)) {
      CAPTURE(name);
      REQUIRE(before.count(name) == 1);
      CHECK((text == before.at(name) || text == after.at(name)));
    }
    if (!faults.reached()) break;
  }
  CHECK(failures > 18);
}
