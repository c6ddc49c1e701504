// Step times: quantiles, and what a slow step coincided with. Durations are given, none measured.
#include "warptape/tools/wt/training/step_times.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/philox.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::tools;

namespace {

StepTime step_of(i64 step, double total) { return {.step = step, .total = total}; }

}  // namespace

TEST_CASE("step times: quantiles are those of the sorted times, to within 1 %") {
  StepTimes times;
  CHECK(times.quantile(0.5) == 0);
  CHECK(!times.worst());
  CHECK(times.text() == "no step");
  std::vector<double> all;
  for (i64 i = 0; i < 5000; ++i) {
    const double t = std::exp(double(mix64(u64(i)) % 10000) / 1000 - 7);  // 0.9 ms to 20 s
    all.push_back(t);
    times.add(step_of(i + 1, t));
  }
  std::sort(all.begin(), all.end());
  for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
    const auto at = size_t(std::max(1.0, std::ceil(q * 5000)) - 1);
    CAPTURE(q);
    CHECK(std::abs(times.quantile(q) / all[at] - 1) < 0.01);
  }
  CHECK(times.worst()->time.total == all.back());
}

TEST_CASE("step times: one step, none, too short and too long ones stay what they are") {
  StepTimes times;
  times.add(step_of(1, 0.0123));
  CHECK(times.quantile(0.5) == 0.0123);  // no class is wider than what was measured
  CHECK(times.quantile(0.99) == 0.0123);
  CHECK(!times.worst_later());
  StepTimes ends;
  ends.add(step_of(1, 0));
  ends.add(step_of(2, 1e7));
  CHECK(ends.quantile(0.01) >= 0);
  CHECK(ends.worst()->time.total == 1e7);
}

TEST_CASE("step times: what the slowest step coincided with") {
  struct Case {
    StepTime time;
    i64 turn;
    StepCause cause;
  };
  // The median is 10 ms.
  const Case cases[] = {
      {{.step = 50, .total = 0.1, .evaluation = 0.09}, 50, StepCause::evaluation},
      {{.step = 50, .total = 0.1, .checkpoint = 0.05}, 50, StepCause::checkpoint},
      {{.step = 50, .total = 0.1, .data = 0.08}, 50, StepCause::data_wait},
      {{.step = 50, .total = 0.1, .recording = 0.06, .skipped = true}, 50, StepCause::recording},
      // The largest part that explains it, if several do.
      {{.step = 50, .total = 0.2, .evaluation = 0.1, .checkpoint = 0.11},
       50,
       StepCause::checkpoint},
      // A part that is less than half of it explains nothing.
      {{.step = 50, .total = 0.1, .data = 0.02, .evaluation = 0.03}, 50, StepCause::unknown},
      {{.step = 50, .total = 0.1, .data = 0.02, .skipped = true}, 50, StepCause::skipped},
      {{.step = 3, .total = 0.1}, 3, StepCause::first_steps},
      {{.step = 4, .total = 0.1}, 4, StepCause::unknown},
      // Of a run that goes on: it is the first of this start.
      {{.step = 1001, .total = 0.1}, 1, StepCause::first_steps},
      {{.step = 1, .total = 0.1, .data = 0.09}, 1, StepCause::data_wait},
      {{.step = 60, .total = 0.01}, 60, StepCause::unknown},
  };
  for (const Case& c : cases) {
    CAPTURE(c.time.step, c.turn);
    CHECK(cause_of(c.time, 0.01, c.turn) == c.cause);
  }
}

TEST_CASE("step times: the first steps hide no later one, and the text says both") {
  StepTimes times;
  for (i64 s = 1; s <= 100; ++s) times.add(step_of(s, s == 1 ? 0.25 : 0.01));
  times.add({.step = 101, .total = 0.06, .evaluation = 0.05});
  CHECK(times.worst()->time.step == 1);
  CHECK(times.worst()->cause == StepCause::first_steps);
  CHECK(times.worst_later()->time.step == 101);
  CHECK(times.worst_later()->cause == StepCause::evaluation);
  const std::string text = times.text();
  CAPTURE(text);
  CHECK(text.find("slowest 250 ms (step 1: one of the first steps), then 60 ms (step 101: an "
                  "evaluation)") != text.npos);
}

TEST_CASE("step times: the longest since it was last asked for") {
  StepTimes times;
  CHECK(!times.take_longest());
  times.add(step_of(1, 0.3));
  times.add(step_of(2, 0.1));
  CHECK(times.take_longest() == 0.3);
  CHECK(!times.take_longest());
  times.add(step_of(3, 0.2));
  CHECK(times.take_longest() == 0.2);
}

TEST_CASE("step times: the part that waits for data, without the first steps and what is no step") {
  StepTimes times;
  for (i64 i = 1; i <= 3; ++i) times.add({.step = i, .total = 10, .data = 9});
  CHECK(!times.data_share());
  times.add({.step = 4, .total = 1, .data = 0.5});
  CHECK(times.data_share() == 0.5);
  times.add({.step = 5, .total = 10, .evaluation = 4, .checkpoint = 3, .recording = 2});
  CHECK(times.data_share() == 0.25);
  times.add({.step = 6, .total = 2, .data = 2, .evaluation = 1});  // never more than all
  CHECK(times.data_share() == 2.5 / 4);
}

TEST_CASE("step times: more than 20 % of waiting comes with advice") {
  CHECK(data_wait_text(0.2, 0, 2, true) == "waiting for data: 20 % of the steps' time");
  CHECK(data_wait_text(0.004, 0, 2, false) == "waiting for data: 0 % of the steps' time");
  CHECK(data_wait_text(0.21, 0, 2, false) ==
        "waiting for data: 21 % of the steps' time; try --workers 2 (there are 0)");
  CHECK(data_wait_text(0.5, 2, 2, true).find("try --resident on") != std::string::npos);
  CHECK(data_wait_text(0.5, 2, 2, false).find("no more cores") != std::string::npos);
}
