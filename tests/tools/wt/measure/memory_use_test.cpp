// What `wt memory` predicts, measures and advises. The command itself: wt_memory_test.sh.
#include "warptape/tools/wt/measure/memory_use.h"

#include <algorithm>
#include <numeric>

#include "warptape/core/memory_limit.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/measure/memory_remedies.h"
#include "warptape/tools/wt/measure/memory_view.h"
#include "warptape/tools/wt/number_text.h"

using namespace wt;
using namespace wt::tools;

namespace {

TrainOptions tiny(const std::string& recipe) {
  TrainOptions o;
  o.recipe = recipe;
  o.device = "cpu";
  o.batch = 8;
  o.set = recipe == "charlm"
              ? std::vector<std::string>{"layers=2", "heads=2", "channels=32", "context=32"}
          : recipe == "optimizer-race" ? std::vector<std::string>{}
                                       : std::vector<std::string>{"width=8"};
  return o;
}

i64 sum_of(const memory::ByCategory& c) { return std::accumulate(c.begin(), c.end(), i64{0}); }

void check_adds_up(const MemoryUse& u) {
  CHECK(sum_of(u.peak.by_category) == u.peak.bytes);
  i64 held = 0;
  for (const memory::Holder& h : u.holders) held += h.bytes;
  CHECK(held == u.peak.bytes);
  i64 highest = 0;
  for (const memory::Level& l : u.timeline) {
    CHECK(sum_of(l.by_category) == l.bytes);
    highest = std::max(highest, l.bytes);
  }
  CHECK(highest == u.peak.bytes);
}

}  // namespace

TEST_CASE("memory of every recipe is predicted and measured, to the byte by category") {
  for (const std::string recipe : {"charlm", "fashion", "cifar", "optimizer-race"}) {
    for (MemoryJob& job : memory_jobs(tiny(recipe), false)) {
      CAPTURE(recipe, job.label);
      const LeakGuard guard;
      const MemoryUse predicted = predicted_use(job), measured = measured_use(job);
      check_adds_up(predicted);
      check_adds_up(measured);
      CHECK(predicted.batch == 8);
      CAPTURE(predicted.peak.bytes, measured.peak.bytes);
      CHECK(double(predicted.peak.bytes) >= 0.97 * double(measured.peak.bytes));
      CHECK(double(predicted.peak.bytes) <= 1.03 * double(measured.peak.bytes));
      CHECK(predicted_peak(job) == predicted.peak.bytes);
    }
  }
}

TEST_CASE("memory with the data: the dataset is a category, and adds up") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 16);
  TrainOptions o = tiny("fashion");
  o.data = dir.path;
  const MemoryJob job = memory_jobs(o, true).front();
  const MemoryUse predicted = predicted_use(job), measured = measured_use(job);
  check_adds_up(predicted);
  check_adds_up(measured);
  CHECK(predicted.peak.by_category[size_t(Category::dataset)] >= 80 * 784);
  CAPTURE(predicted.peak.bytes, measured.peak.bytes);
  CHECK(double(predicted.peak.bytes) >= 0.97 * double(measured.peak.bytes));
  CHECK(double(predicted.peak.bytes) <= 1.03 * double(measured.peak.bytes));
}

TEST_CASE("memory as JSON has the keys of the design, and its categories are those of the peak") {
  const TrainOptions o = tiny("charlm");
  MemoryUse u;
  u.batch = 8;
  u.peak.bytes = 30;
  u.peak.by_category[size_t(Category::parameter)] = 10;
  u.peak.by_category[size_t(Category::activation)] = 20;
  MemoryUse m = u;
  m.peak.bytes = m.peak.by_category[size_t(Category::activation)] = 7;
  m.peak.by_category[size_t(Category::parameter)] = 0;
  m.spared.rules[int(memory::SavingRule::reuse)] = {12, 3};
  CHECK(memory_json(o, u, nullptr) ==
        R"({"recipe":"charlm","device":"cpu","precision":"f32","batch":8,"predicted_bytes":30,)"
        R"("measured_bytes":null,"spared":{"bit_mask":0,"recompute":0,"invert":0,"offload":0,)"
        R"("reuse":0},"categories":{"parameter":10,"activation":20}})");
  CHECK(memory_json(o, u, &m) ==
        R"({"recipe":"charlm","device":"cpu","precision":"f32","batch":8,"predicted_bytes":30,)"
        R"("measured_bytes":7,"spared":{"bit_mask":0,"recompute":0,"invert":0,"offload":0,)"
        R"("reuse":12},"categories":{"activation":7}})");
}

TEST_CASE("memory: what rules have spared, and those that have not") {
  memory::SavedByRule spared;
  spared.rules[int(memory::SavingRule::reuse)] = {3 << 20, 5};
  spared.rules[int(memory::SavingRule::bit_mask)] = {1 << 19, 2};
  CHECK(spared_table(spared) ==
        "spared in a step, by rule\n"
        "      0.50 MiB      2 tensors  bit_mask\n"
        "      3.00 MiB      5 tensors  reuse\n"
        "nothing by recompute, invert, offload\n");
}

TEST_CASE("remedies are enough, the cheapest first") {
  const LeakGuard guard;
  TrainOptions o = tiny("charlm");
  o.batch = 64;
  const i64 all = predicted_peak(memory_jobs(o, false).front());
  const auto what = remedies(o, all * 6 / 10);
  REQUIRE(what.size() == 3);
  CHECK(what[0].change == "--micro-batches 2");
  CHECK(what[1].change == "--set checkpoint=true");
  CHECK(what[2].change.starts_with("--batch "));
  for (const Remedy& r : what) CHECK(r.peak <= all * 6 / 10);
  // Each does what it says, with the change applied.
  TrainOptions parts = o;
  parts.micro_batches = 2;
  CHECK(predicted_peak(memory_jobs(parts, false).front()) == what[0].peak);
  TrainOptions checkpointed = o;
  checkpointed.set.push_back("checkpoint=true");
  CHECK(predicted_peak(memory_jobs(checkpointed, false).front()) == what[1].peak);
  TrainOptions smaller = o;
  smaller.batch = bytes_of_text(what[2].change.substr(8), "--batch");
  CHECK(predicted_peak(memory_jobs(smaller, false).front()) == what[2].peak);
  ++smaller.batch;
  CHECK(predicted_peak(memory_jobs(smaller, false).front()) > all * 6 / 10);
  CHECK(remedies(o, 1000).empty());
}

TEST_CASE("a device beside the host: activations in host memory are predicted, and are a remedy") {
  TrainOptions o = tiny("charlm");
  o.device = "simt";
  const i64 all = predicted_peak(memory_jobs(o, false).front());
  TrainOptions off = o;
  off.offload = true;
  const MemoryJob job = memory_jobs(off, false).front();
  const MemoryUse predicted = predicted_use(job);
  CHECK(double(predicted.peak.bytes) < 0.9 * double(all));
  (void)measured_use(job);  // makes what is made once, a mailbox
  {
    const LeakGuard guard;
    const MemoryUse measured = measured_use(job);
    CAPTURE(predicted.peak.bytes, measured.peak.bytes);
    CHECK(double(predicted.peak.bytes) >= 0.97 * double(measured.peak.bytes));
    CHECK(double(predicted.peak.bytes) <= 1.03 * double(measured.peak.bytes));
  }
  const auto named = [](const std::vector<Remedy>& all, const std::string& change) {
    return std::find_if(all.begin(), all.end(),
                        [&](const Remedy& r) { return r.change == change; }) -
           all.begin();
  };
  const auto what = remedies(o, predicted.peak.bytes);
  const auto at = named(what, "--offload"), parts = named(what, "--micro-batches 2");
  REQUIRE(at < std::ssize(what));
  CHECK(what[size_t(at)].peak == predicted.peak.bytes);
  CHECK((parts == std::ssize(what) || parts < at));  // parts of a batch cost less
  CHECK(named(remedies(o, predicted.peak.bytes - 1), "--offload") >=
        std::ssize(remedies(o, predicted.peak.bytes - 1)));
  // It is no change of the numbers.
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 60);
  o.data = dir / "text";
  o.steps = 2;
  o.quiet = true;
  const auto loss = [&] {
    const CapturedOutput out;
    CHECK(train(o) == 0);
    const std::string text = out.text();
    const size_t from = text.find("\"train_loss\":");
    return text.substr(from, text.find(",\"accuracy\"") - from);
  };
  const std::string plain = loss();
  o.offload = true;
  CHECK(loss() == plain);
  // The cpu's activations are in the host's memory.
  o.device = "cpu";
  CHECK(mentions(message_of([&] { train(o); }), "--offload keeps in host memory what"));
  o.offload = false;
  for (const Remedy& r : remedies(o, all)) CHECK(r.change != "--offload");
}

TEST_CASE("a training that is out of memory says what is enough, and that is enough") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 60);
  TrainOptions o = tiny("charlm");
  o.data = dir / "text";
  o.batch = 64;
  o.steps = 2;
  o.quiet = true;
  const i64 all = predicted_peak(memory_jobs(o, true).front());
  o.memory_limit = memory::stats(Device::cpu()).live + all * 7 / 10;
  const CapturedOutput quiet;
  const std::string text = message_of([&] { train(o); });
  CHECK(mentions(text, "asked for "));
  CHECK(mentions(text, " on cpu, and the limit is "));
  CHECK(mentions(text, "held: "));
  CHECK(mentions(text, "\n  the largest that graphs keep for a backward:\n    "));
  CHECK(mentions(text, " <- recipe_charlm.cpp:"));
  CHECK(mentions(
      text, "Nothing was changed: parameters, buffers and optimizer state are as before step 1"));
  CHECK(mentions(text, "Try --micro-batches 2 (predicted peak "));
  CHECK(mentions(text, "--set checkpoint=true (predicted peak "));
  CHECK(mentions(text, "--batch "));
  o.micro_batches = 2;
  CHECK(train(o) == 0);
  o.micro_batches = 1;
  o.set.push_back("checkpoint=true");
  CHECK(train(o) == 0);
  o.memory_limit = memory::stats(Device::cpu()).live + all / 100;
  CHECK(mentions(message_of([&] { train(o); }),
                 "Try a smaller model: a batch of one sample is predicted"));
}

TEST_CASE("a checkpointed recipe learns the same, to the last bit") {
  TrainOptions o = tiny("charlm");
  o.set.push_back("dropout=0.1");
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 60);
  o.data = dir / "text";
  o.steps = 3;
  o.quiet = true;
  const auto loss = [&] {
    const CapturedOutput out;
    CHECK(train(o) == 0);
    const std::string text = out.text();
    const size_t at = text.find("\"train_loss\":");
    return text.substr(at, text.find(",\"accuracy\"") - at);
  };
  const std::string plain = loss();
  o.set.push_back("checkpoint=true");
  CHECK(loss() == plain);
  CHECK(plain.size() > 30);
}

TEST_CASE("numbers of bytes are read with their units") {
  CHECK(bytes_of_text("4096", "--fit") == 4096);
  CHECK(bytes_of_text("16GiB", "--fit") == i64{16} << 30);
  CHECK(bytes_of_text("1.5 MB", "--fit") == 1'500'000);
  CHECK(bytes_of_text("2KiB", "--fit") == 2048);
  for (const char* bad : {"", "GiB", "0", "-1", "1e400", "12 GB more", "nan", "inf", "9e18", "0.5"})
    CHECK(
        mentions(message_of([&] { (void)bytes_of_text(bad, "--fit"); }), "is no number of bytes"));
}

TEST_CASE("the timeline as characters: what stays below, what comes and goes above") {
  std::vector<memory::Level> levels(4);
  for (size_t i = 0; i < 4; ++i) {
    levels[i].by_category[size_t(Category::parameter)] = 2 << 20;
    levels[i].by_category[size_t(Category::activation)] = i64(i * 2) << 20;
    levels[i].bytes = i64(2 + 2 * i) << 20;
  }
  CHECK(draw_timeline(levels, 4, 4) ==
        "      8.00 |   a\n"
        "      6.00 |  aa\n"
        "           | aaa\n"
        "      2.00 |pppp\n"
        "       MiB +----\n"
        "            p parameter a activation; to the right: allocations and releases\n");
}
