// wt train --zero on several ranks: its state is in parts, and all of them make it together.
#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tests/tools/wt/training/tiny_run.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;
using namespace wt::tools;

namespace {

// AdamW, whose state is as large as two models, and an average of the weights.
TrainOptions tiny_text(const TempDir& dir, const std::string& out, int ranks, int zero) {
  TrainOptions o = wt_test::tiny_run(dir, out, "0");
  o.ema = 0.5;
  o.threads = 1;
  o.ranks = ranks;
  o.zero = zero;
  return o;
}

std::string newest(const TrainOptions& o) {
  const std::string step = std::to_string(o.steps);
  return o.out + "/ckpt/step-" + std::string(6 - step.size(), '0') + step + ".safetensors";
}
std::string best_of(const TrainOptions& o) { return o.out + "/ckpt/best.safetensors"; }

int train_quietly(const TrainOptions& o, std::string* said = nullptr) {
  const CapturedOutput output;
  const auto tell = [&] {
    if (said) *said = output.text();
  };
  try {
    const int code = train(o);
    tell();
    return code;
  } catch (...) {
    tell();
    throw;
  }
}

// Of all tensors of a checkpoint but the random state's.
double largest_difference(const std::string& a, const std::string& b) {
  const nn::LoadedTensors x = nn::load_tensors(a), y = nn::load_tensors(b);
  REQUIRE(x.tensors.size() == y.tensors.size());
  double d = 0;
  for (const nn::NamedTensor& t : x.tensors) {
    const Tensor* other = y.find(t.name);
    REQUIRE(other);
    const std::vector<double> v = t.tensor.to_vector<double>(), w = other->to_vector<double>();
    REQUIRE(v.size() == w.size());
    for (size_t i = 0; i < v.size(); ++i) d = std::max(d, std::abs(v[i] - w[i]));
  }
  return d;
}

// SIGTERM at the n-th write of what is run meanwhile: in the middle of a training.
class TermAtWrite {
 public:
  explicit TermAtWrite(int n) : real_(detail::file_ops()) {
    left() = n;
    real() = real_.write;
    detail::file_ops().write = [](int fd, const void* data, u64 bytes) -> long {
      if (--left() == 0) std::raise(SIGTERM);
      return real()(fd, data, bytes);
    };
  }
  ~TermAtWrite() { detail::file_ops() = real_; }
  TermAtWrite(const TermAtWrite&) = delete;

 private:
  static int& left() {
    static int n = 0;
    return n;
  }
  static decltype(detail::FileOps::write)& real() {
    static decltype(detail::FileOps::write) f = nullptr;
    return f;
  }
  const detail::FileOps real_;
};

}  // namespace

TEST_CASE("wt train --zero: the checkpoints, the best one too, of ranks that keep all") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  const TrainOptions whole = tiny_text(dir, "whole", 2, 0);
  REQUIRE(train_quietly(whole) == 0);
  for (const int zero : {1, 2}) {
    CAPTURE(zero);
    const TrainOptions o = tiny_text(dir, str("zero", zero), 2, zero);
    REQUIRE(train_quietly(o) == 0);
    // The norm's partial sums are made in other groups: its clip factor differs in a last place.
    CHECK(largest_difference(newest(o), newest(whole)) < 1e-5);
    CHECK(largest_difference(best_of(o), best_of(whole)) < 1e-5);
    CHECK(integer_of(nn::load_tensors(best_of(o)).tensors, "train.step") ==
          integer_of(nn::load_tensors(best_of(whole)).tensors, "train.step"));
  }
}

TEST_CASE("wt train --zero: after SIGTERM it goes on with other numbers of ranks and stages") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  TrainOptions o = tiny_text(dir, "run", 0, 0);
  o.steps = 100;
  o.eval_every = o.save_every = 1000;
  o.ema = 0;
  TrainOptions whole = o;
  whole.out = dir / "whole";
  REQUIRE(train_quietly(whole) == 0);
  o.resume = true;
  struct Part {
    int ranks, zero;
  };
  for (const auto& [ranks, zero] : {Part{4, 2}, Part{3, 1}, Part{1, 0}, Part{2, 2}}) {
    CAPTURE(ranks, zero);
    o.ranks = ranks, o.zero = zero;
    std::string said;
    {
      const TermAtWrite term(12);
      CHECK(train_quietly(o, &said) == 143);
    }
    CHECK(mentions(said, "the checkpoint is written, go on with --resume auto"));
  }
  REQUIRE(train_quietly(o) == 0);
  CHECK(integer_of(nn::load_tensors(newest(o)).tensors, "train.step") == 100);
  // 100 steps of sums in another order.
  CHECK(largest_difference(newest(o), newest(whole)) < 1e-2);
}

TEST_CASE("wt train --zero: a write that fails ends the run or is said, and no rank waits") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  const TrainOptions whole = tiny_text(dir, "whole", 2, 2);
  REQUIRE(train_quietly(whole) == 0);
  const bool warns = GENERATE(false, true);
  int ended = 0, went_on = 0;
  const int stride = wt_test::whole_walk() ? 19 : 47;  // of the hundreds of calls
  for (int nth = 1;; nth += stride) {
    CAPTURE(nth, warns);
    TrainOptions o = tiny_text(dir, "cut", 2, 2);
    o.deadline = 60;
    if (warns) o.on_write_error = "warn";
    std::filesystem::remove_all(o.out);
    std::string said;
    bool reached = false;
    {
      const FaultyFiles faults(nth, ENOSPC);
      try {
        train_quietly(o, &said);
        went_on += said.find("training goes on") != std::string::npos;
      } catch (const CheckpointError&) {
        ++ended;
      }
      reached = faults.reached();
    }
    if (!reached) break;
    o.resume = true;
    REQUIRE(train_quietly(o) == 0);
    REQUIRE(largest_difference(newest(o), newest(whole)) == 0);
  }
  CHECK(ended > (warns ? 0 : 160 / stride));
  CHECK((went_on > 40 / stride) == warns);
}

TEST_CASE("wt train --zero: what all ranks throw alike leaves a checkpoint") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  TrainOptions o = tiny_text(dir, "run", 2, 2);
  o.lr = 1e30;  // the second step's loss is not finite
  o.schedule = "constant";
  o.warmup = 0;
  o.clip = 0;
  o.save_every = o.eval_every = 100;
  std::string said;
  CHECK_THROWS_AS(train_quietly(o, &said), NumericError);
  CHECK(mentions(said, "its checkpoint and the report are written"));
  o.resume = true;
  CHECK_THROWS_AS(train_quietly(o, &said), NumericError);
  CHECK(mentions(said, "going on at step"));
}
