// wt train on several ranks, threads here: tests/dist/mpi/mpi_train_test.sh has processes.
#include "warptape/tools/wt/training/ranks.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;
using namespace wt::tools;

namespace {

struct Run {
  int code;
  std::string text;
  // Of the summary, the last line.
  double number(const std::string& key) const {
    const size_t at = text.rfind("\"" + key + "\":");
    REQUIRE(at != text.npos);
    return std::stod(text.substr(at + key.size() + 3));
  }
};

Run run(const TrainOptions& o) {
  const CapturedOutput output;
  const int code = train(o);
  return {code, output.text()};
}

TrainOptions tiny_fashion(const std::string& folder) {
  TrainOptions o;
  o.recipe = "fashion";
  o.set = {"model=mlp"};
  o.data = folder;
  o.batch = 10;  // of 64: the last batch of an epoch has 4
  o.steps = 14;
  o.optimizer = "sgd";
  o.threads = 1;
  o.quiet = true;
  return o;
}

i64 lines_of(const std::string& path) {
  std::ifstream file(path);
  i64 n = 0;
  for (std::string line; std::getline(file, line);) ++n;
  return n;
}

}  // namespace

TEST_CASE("wt train: any number of ranks trains the same, and writes one run") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 17);
  TrainOptions o = tiny_fashion(dir.path);
  const Run alone = run(o);
  CHECK(alone.number("ranks") == 1);
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    o.ranks = ranks;
    o.out = dir / str("run", ranks);
    o.micro_batches = ranks == 3 ? 2 : 1;
    const Run shared = run(o);
    CHECK(shared.code == 0);
    CHECK(shared.number("ranks") == ranks);
    CHECK(shared.number("steps") == 14);
    CHECK(shared.number("epochs") == alone.number("epochs"));
    // Sums in another order: some units in the last place of f32 a step.
    CHECK(shared.number("train_loss") == Approx(alone.number("train_loss")).epsilon(1e-5));
    CHECK(shared.number("eval_loss") == Approx(alone.number("eval_loss")).epsilon(1e-5));
    CHECK(shared.number("accuracy") == alone.number("accuracy"));
    // One line a step, and the header and evaluations once.
    CHECK(std::filesystem::exists(o.out + "/report.html"));
    CHECK(shared.text.find("\"recipe\"") == shared.text.rfind("\"recipe\""));
  }
}

TEST_CASE("wt train: a run goes on with another number of ranks") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 16);
  TrainOptions o = tiny_fashion(dir.path);
  o.steps = 150;
  const Run whole = run(o);
  o.out = dir / "run";
  o.resume = true;
  o.log_every = 1;
  o.ranks = 4;
  std::thread interrupts([&] {
    while (lines_of(o.out + "/metrics.jsonl") < 5) std::this_thread::yield();
    std::raise(SIGTERM);
  });
  const Run first = run(o);
  interrupts.join();
  CHECK(first.code == 143);
  const double done = first.number("steps");
  CHECK(done < 150);
  o.ranks = 3;
  const Run second = run(o);
  CHECK(second.code == 0);
  CHECK(second.text.find(str("going on at step ", i64(done), " of 150")) != std::string::npos);
  CHECK(second.number("steps") == 150);
  CHECK(second.number("eval_loss") == Approx(whole.number("eval_loss")).epsilon(1e-3));
}

TEST_CASE("wt train: what one rank throws ends all of them with its words") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 16);
  TrainOptions o = tiny_fashion(dir.path);
  o.ranks = 11;
  const CapturedOutput quiet;
  CHECK(
      mentions(message_of([&] { train(o); }), "a batch of 10 has no sample for each of 11 ranks"));
  o.ranks = 2;
  o.data = "/no/such/folder";
  CHECK(mentions(message_of([&] { train(o); }), "/no/such/folder"));
}
