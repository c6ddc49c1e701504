// Schedules of pipelines, without a model: what each stage does, in which order, and how it fits.
#include "warptape/dist/pipeline_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::dist;
using Kind = PipelineAction::Kind;

namespace {

constexpr PipelineSchedule kBoth[] = {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b};

std::string text_of(const std::vector<PipelineAction>& actions) {
  std::string s;
  for (const PipelineAction& a : actions) {
    if (!s.empty()) s += ' ';
    constexpr const char* kShort[] = {"rf", "F", "sf", "rb", "B", "sb"};
    s += kShort[int(a.kind)] + std::to_string(a.micro_batch);
  }
  return s;
}

// Where an action stands in the list; fails when it is not there exactly once.
i64 place_of(const std::vector<PipelineAction>& all, Kind kind, i64 k) {
  const PipelineAction a{kind, k};
  CHECK(std::count(all.begin(), all.end(), a) == 1);
  return std::find(all.begin(), all.end(), a) - all.begin();
}

template <class F>
void for_each_pipeline(F f) {
  for (const PipelineSchedule schedule : kBoth)
    for (const int stages : {1, 2, 3, 4, 7})
      for (const i64 micro_batches : {1, 2, 3, 5, 8, 13}) {
        CAPTURE(to_string(schedule), stages, micro_batches);
        f(schedule, stages, micro_batches);
      }
}

}  // namespace

TEST_CASE("pipeline schedules: every stage does each micro-batch once, forward before backward") {
  for_each_pipeline([](PipelineSchedule schedule, int stages, i64 micro_batches) {
    for (int s = 0; s < stages; ++s) {
      const auto all = pipeline_actions(schedule, s, stages, micro_batches);
      const bool first = s == 0, last = s == stages - 1;
      CHECK(i64(all.size()) == micro_batches * (6 - 2 * first - 2 * last));
      for (i64 k = 0; k < micro_batches; ++k) {
        const i64 forward = place_of(all, Kind::forward, k),
                  backward = place_of(all, Kind::backward, k);
        CHECK(forward < backward);
        if (!first) {
          CHECK(place_of(all, Kind::recv_forward, k) < forward);
          CHECK(backward < place_of(all, Kind::send_backward, k));
        }
        if (!last) {
          const i64 received = place_of(all, Kind::recv_backward, k);
          CHECK(forward < place_of(all, Kind::send_forward, k));
          CHECK(place_of(all, Kind::send_forward, k) < received);
          CHECK(received < backward);
        }
      }
    }
  });
}

TEST_CASE("pipeline schedules: each kind of action goes through the micro-batches in order") {
  for_each_pipeline([](PipelineSchedule schedule, int stages, i64 micro_batches) {
    for (int s = 0; s < stages; ++s) {
      std::map<Kind, i64> next;
      for (const PipelineAction& a : pipeline_actions(schedule, s, stages, micro_batches))
        CHECK(a.micro_batch == next[a.kind]++);
    }
  });
}

TEST_CASE(
    "pipeline schedules: nobody waits for one that waits for it, and the bubble is that of "
    "the papers") {
  for_each_pipeline([](PipelineSchedule schedule, int stages, i64 micro_batches) {
    const double p = stages, m = double(micro_batches);
    for (const double backward : {1.0, 2.0}) {
      const PipelineTimes t =
          pipeline_times(schedule, stages, micro_batches, {.forward = 1, .backward = backward});
      CHECK(t.total == (m + p - 1) * (1 + backward));
      CHECK(std::abs(t.bubble - (p - 1) / (m + p - 1)) < 1e-12);
    }
    CHECK(pipeline_times(schedule, stages, micro_batches, {.transfer = 0.25}).total >=
          (m + p - 1) * 3);
  });
}

TEST_CASE(
    "pipeline schedules: 1F1B holds the activations of as many micro-batches as there are "
    "stages from here on, GPipe all") {
  for_each_pipeline([](PipelineSchedule schedule, int stages, i64 micro_batches) {
    const auto held = pipeline_times(schedule, stages, micro_batches).activations;
    REQUIRE(int(held.size()) == stages);
    for (int s = 0; s < stages; ++s)
      CHECK(held[size_t(s)] == (schedule == PipelineSchedule::gpipe
                                    ? micro_batches
                                    : std::min<i64>(stages - s, micro_batches)));
  });
}

TEST_CASE("pipeline schedules: written out") {
  CHECK(text_of(pipeline_actions(PipelineSchedule::gpipe, 1, 3, 2)) ==
        "rf0 F0 sf0 rf1 F1 sf1 rb0 B0 sb0 rb1 B1 sb1");
  CHECK(text_of(pipeline_actions(PipelineSchedule::one_f_one_b, 0, 2, 3)) ==
        "F0 sf0 F1 sf1 rb0 B0 F2 sf2 rb1 B1 rb2 B2");
  CHECK(text_of(pipeline_actions(PipelineSchedule::one_f_one_b, 1, 2, 3)) ==
        "rf0 F0 B0 rf1 sb0 F1 B1 rf2 sb1 F2 B2 sb2");
  CHECK(text_of(pipeline_actions(PipelineSchedule::one_f_one_b, 0, 1, 2)) == "F0 B0 F1 B1");
  CHECK(std::string(to_string(PipelineSchedule::one_f_one_b)) == "one_f_one_b");
  CHECK(std::string(to_string(Kind::send_backward)) == "send_backward");
}

TEST_CASE("pipeline schedules: a stage or a number that is not there is refused") {
  const auto actions = [](int stage, int stages, i64 micro_batches) {
    return message_of(
        [&] { pipeline_actions(PipelineSchedule::gpipe, stage, stages, micro_batches); });
  };
  CHECK(mentions(actions(3, 3, 1), "[pipeline_actions] stage must be from 0 to 2, got 3"));
  CHECK(mentions(actions(-1, 3, 1), "got -1"));
  CHECK(mentions(actions(0, 0, 1), "stages must be at least 1, got 0"));
  CHECK(mentions(actions(0, 2, 0), "micro_batches must be at least 1, got 0"));
  CHECK_THROWS_AS(pipeline_times(PipelineSchedule::gpipe, 2, 0), UsageError);
}
