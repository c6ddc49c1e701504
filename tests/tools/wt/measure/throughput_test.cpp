// Throughput over batch sizes: the knee, which batches are measured, and what is said of them.
#include "warptape/tools/wt/measure/throughput.h"

#include <cmath>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tools/wt/measure/memory_use.h"

using namespace wt;
using namespace wt::tools;

namespace {

struct KneeCase {
  const char* what;
  std::vector<double> rates;
  size_t at, best;
  bool rising = false;
};

Throughput curve(const std::vector<double>& rates) {
  Throughput t{.recipe = "fashion",
               .settings = "model=<mlp>",
               .device = "cpu",
               .precision = "f32",
               .item = "images",
               .ended = "the largest that was asked for"};
  i64 batch = 1;
  for (const double r : rates)
    t.points.push_back({batch, double(batch) / r, 0.01, batch << 20}), batch *= 2;
  return t;
}

}  // namespace

TEST_CASE("knee: a table of curves") {
  const KneeCase cases[] = {
      {"it levels off", {100, 190, 350, 600, 850, 960, 990, 1000}, 5, 7},
      {"it rises to the end", {100, 200, 400, 800, 1600}, 4, 4, true},
      {"it rises, and then by less than 5 %", {100, 500, 930, 950}, 2, 3},
      {"it falls behind its best", {100, 800, 1000, 700, 500}, 2, 2},
      {"it falls from the start", {1000, 800, 600}, 0, 0},
      {"it is flat", {100, 100, 100}, 0, 0},
      {"it is flat with noise", {98, 103, 97, 101}, 0, 1},
      {"one lucky small batch", {100, 950, 500, 800, 1000}, 4, 4, true},
      {"one lucky large batch", {100, 500, 990, 1000, 980, 1050}, 2, 5, true},
      {"a dip on the level part costs a doubling", {100, 950, 980, 880, 960, 1000}, 4, 5},
      {"one point", {5}, 0, 0},
      {"some were not measured", {NAN, 0, 100, INFINITY, 95}, 2, 2},
  };
  for (const KneeCase& c : cases) {
    CAPTURE(c.what);
    const std::optional<Knee> k = find_knee(c.rates);
    REQUIRE(k);
    CHECK(k->at == c.at);
    CHECK(k->best == c.best);
    CHECK(k->still_rising == c.rising);
  }
  CHECK(!find_knee({}));
  CHECK(!find_knee(std::vector<double>{0, NAN, -1}));
}

TEST_CASE("knee: the share decides how early it is, and must be one") {
  const std::vector<double> rates{100, 300, 600, 850, 960, 1000};
  CHECK(find_knee(rates, 0.5)->at == 2);
  CHECK(find_knee(rates, 0.8)->at == 3);
  CHECK(find_knee(rates, 0.96)->at == 4);
  CHECK(find_knee(rates, 1)->at == 5);
  for (const double bad : {0.0, -1.0, 1.01, double(NAN)})
    CHECK(mentions(message_of([&] { (void)find_knee(rates, bad); }), "share must be above 0"));
}

TEST_CASE("sweep: doublings up to the largest, which is measured too") {
  std::vector<i64> seen;
  const auto rising = [&](i64 batch, std::string&) -> std::optional<ThroughputPoint> {
    seen.push_back(batch);
    return ThroughputPoint{batch, 1};
  };
  BatchSweep s = sweep_batches(48, rising);
  CHECK(seen == std::vector<i64>{1, 2, 4, 8, 16, 32, 48});
  CHECK(s.points.size() == 7);
  CHECK(s.ended == "the largest that was asked for");
  seen.clear();
  CHECK(sweep_batches(1, rising).points.size() == 1);
  seen.clear();
  CHECK(sweep_batches(0, rising).ended == "the largest that is tried");
  CHECK(seen.back() == i64{1} << 20);
}

TEST_CASE("sweep: it ends with memory, and without --max-batch where nothing is gained") {
  BatchSweep s = sweep_batches(0, [&](i64 batch, std::string& ended) {
    std::optional<ThroughputPoint> p;
    if (batch > 4)
      ended = "full";
    else
      p = {batch, 1};
    return p;
  });
  CHECK(s.points.size() == 3);
  CHECK(s.ended == "full");
  // The rate stays at 8 from a batch of 8 on: three more doublings are seen.
  const auto level = [](i64 batch, std::string&) {
    return std::optional(ThroughputPoint{batch, std::max(1.0, double(batch) / 8)});
  };
  s = sweep_batches(0, level);
  CHECK(s.points.back().batch == 64);
  CHECK(s.ended == "3 doublings gained less than 2 %");
  CHECK(sweep_batches(1024, level).points.back().batch == 1024);  // as it was asked
}

TEST_CASE("throughput: table, JSON and page say the same and mark the knee") {
  const Throughput t = curve({100, 500, 930, 950});
  const std::string text = throughput_text(t);
  CAPTURE(text);
  CHECK(text.find("  <- knee") != text.npos);
  CHECK(text.find("<- knee") == text.rfind("<- knee"));
  CHECK(text.find("knee: batch 4, the smallest from which on rates stay within 90 % of the best "
                  "one (97.89 % of it)") != text.npos);
  CHECK(text.find("|" + std::string(40, '#') + "| 100.00 %") != text.npos);
  const std::string json = throughput_json(t);
  CHECK(json.find(R"("knee":4,"best":8,"share":0.9,"still_rising":false)") != json.npos);
  CHECK(json.find(R"({"batch":2,"ms":4,"samples_per_second":500)") != json.npos);
  const std::string page = throughput_page(t);
  CHECK(page.find("4, the knee") != page.npos);
  CHECK(page.find("model=&lt;mlp&gt;") != page.npos);
  CHECK(page.find("model=<mlp>") == page.npos);
  CHECK(throughput_text(curve({100, 200})).find("the knee may lie beyond it") != text.npos);
}

TEST_CASE("throughput: a recipe is measured, within its memory limit", "[recipe]") {
  ThroughputOptions o;
  o.train.recipe = "fashion";
  o.train.set = {"model=mlp"};
  o.train.device = "cpu";
  o.train.threads = 1;
  o.max_batch = 4;
  o.seconds = 0.001;
  const Throughput t = measure_throughput(o);
  REQUIRE(t.points.size() == 3);
  for (const ThroughputPoint& p : t.points) CHECK(p.seconds > 0);
  CHECK(t.points[2].peak_bytes > 784 * 4 * 128);
  CHECK(t.knee());
  MemoryJob two = memory_jobs(o.train, false).front();
  two.options.batch = 2;
  o.train.memory_limit = predicted_peak(two);
  o.max_batch = 1 << 20;
  const Throughput limited = measure_throughput(o);
  CHECK(limited.points.size() < 20);
  CHECK(limited.points.size() >= 2);
  CHECK(mentions(limited.ended, "is predicted to take"));
  o.train.memory_limit = 1000;
  CHECK_THROWS_AS(measure_throughput(o), OutOfMemory);
  o.train.recipe = "optimizer-race";
  CHECK_THROWS_AS(measure_throughput(o), UsageError);
}
