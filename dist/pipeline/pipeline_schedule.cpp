#include "warptape/dist/pipeline_schedule.h"

#include <algorithm>

#include "warptape/core/error.h"

namespace wt::dist {

const char* to_string(PipelineSchedule s) {
  return s == PipelineSchedule::gpipe ? "gpipe" : "one_f_one_b";
}

const char* to_string(PipelineAction::Kind k) {
  constexpr const char* kNames[] = {"recv_forward",  "forward",  "send_forward",
                                    "recv_backward", "backward", "send_backward"};
  return kNames[int(k)];
}

namespace {

using ActionKind = PipelineAction::Kind;

// Leaves out what the first and the last stage have nobody for.
struct ActionList {
  bool first, last;
  std::vector<PipelineAction> actions{};

  void add(ActionKind kind, i64 k) {
    if (first && (kind == ActionKind::recv_forward || kind == ActionKind::send_backward)) return;
    if (last && (kind == ActionKind::send_forward || kind == ActionKind::recv_backward)) return;
    actions.push_back({kind, k});
  }
  void whole_forward(i64 k) {
    add(ActionKind::recv_forward, k);
    add(ActionKind::forward, k);
    add(ActionKind::send_forward, k);
  }
  void whole_backward(i64 k) {
    add(ActionKind::recv_backward, k);
    add(ActionKind::backward, k);
    add(ActionKind::send_backward, k);
  }
};

void add_one_f_one_b(ActionList& list, i64 ahead, i64 micro_batches) {
  for (i64 k = 0; k < ahead; ++k) list.whole_forward(k);
  if (ahead < micro_batches) list.add(ActionKind::recv_forward, ahead);
  for (i64 k = ahead; k < micro_batches; ++k) {
    list.add(ActionKind::forward, k);
    list.add(ActionKind::send_forward, k);
    list.add(ActionKind::recv_backward, k - ahead);
    list.add(ActionKind::backward, k - ahead);
    // Before the gradient goes out: the stage before sends first, too.
    if (k + 1 < micro_batches) list.add(ActionKind::recv_forward, k + 1);
    list.add(ActionKind::send_backward, k - ahead);
  }
  for (i64 k = micro_batches - ahead; k < micro_batches; ++k) list.whole_backward(k);
}

void check_schedule(int stage, int stages, i64 micro_batches) {
  if (stages < 1)
    throw UsageError(str("[pipeline_actions] stages must be at least 1, got ", stages));
  if (stage < 0 || stage >= stages)
    throw UsageError(
        str("[pipeline_actions] stage must be from 0 to ", stages - 1, ", got ", stage));
  if (micro_batches < 1)
    throw UsageError(
        str("[pipeline_actions] micro_batches must be at least 1, got ", micro_batches));
}

}  // namespace

std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage, int stages,
                                             i64 micro_batches) {
  check_schedule(stage, stages, micro_batches);
  ActionList list{.first = stage == 0, .last = stage == stages - 1};
  if (schedule == PipelineSchedule::one_f_one_b) {
    add_one_f_one_b(list, std::min<i64>(stages - 1 - stage, micro_batches), micro_batches);
    return list.actions;
  }
  for (i64 k = 0; k < micro_batches; ++k) list.whole_forward(k);
  for (i64 k = 0; k < micro_batches; ++k) list.whole_backward(k);
  return list.actions;
}

namespace {

struct StageClock {
  std::vector<PipelineAction> actions{};
  ActionKind enters{};  // with which a micro-batch begins to be held
  size_t next = 0;
  double now = 0, busy = 0;
  i64 held = 0, most = 0;

  const PipelineAction* head() const { return next < actions.size() ? &actions[next] : nullptr; }
  void finish(double when) {
    now = when;
    const ActionKind kind = actions[next].kind;
    ++next;
    if (kind == enters) most = std::max(most, ++held);
    if (kind == ActionKind::backward) --held;
  }
};

class PipelineClock {
 public:
  PipelineClock(PipelineSchedule schedule, int stages, i64 micro_batches, const PipelineCosts& c)
      : costs_(c), stages_(size_t(stages)) {
    for (int s = 0; s < stages; ++s) {
      stages_[size_t(s)].actions = pipeline_actions(schedule, s, stages, micro_batches);
      stages_[size_t(s)].enters = s == 0 ? ActionKind::forward : ActionKind::recv_forward;
    }
  }

  PipelineTimes run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t s = 0; s < stages_.size(); ++s) moved |= advance(s);
    }
    return times();
  }

 private:
  // The next action of a stage, if it can be done: a transfer when its two ends have come to it.
  bool advance(size_t s) {
    StageClock& stage = stages_[s];
    const PipelineAction* a = stage.head();
    if (!a) return false;
    switch (a->kind) {
      case ActionKind::forward:
        return compute(stage, costs_.forward);
      case ActionKind::backward:
        return compute(stage, costs_.backward);
      case ActionKind::send_forward:
        return transfer(stage, stages_[s + 1], {ActionKind::recv_forward, a->micro_batch});
      case ActionKind::send_backward:
        return transfer(stage, stages_[s - 1], {ActionKind::recv_backward, a->micro_batch});
      default:
        return false;  // the sender moves it
    }
  }
  static bool compute(StageClock& stage, double cost) {
    stage.busy += cost;
    stage.finish(stage.now + cost);
    return true;
  }
  bool transfer(StageClock& from, StageClock& to, const PipelineAction& received) const {
    if (!to.head() || !(*to.head() == received)) return false;
    const double when = std::max(from.now, to.now) + costs_.transfer;
    from.finish(when);
    to.finish(when);
    return true;
  }
  PipelineTimes times() const {
    PipelineTimes t;
    double busy = 0;
    for (const StageClock& s : stages_) {
      WT_INTERNAL_ASSERT(!s.head());  // else two ranks wait for one another
      t.total = std::max(t.total, s.now);
      busy += s.busy;
      t.activations.push_back(s.most);
    }
    const double all = t.total * double(stages_.size());
    t.bubble = all > 0 ? 1 - busy / all : 0;
    return t;
  }

  PipelineCosts costs_;
  std::vector<StageClock> stages_;
};

}  // namespace

PipelineTimes pipeline_times(PipelineSchedule schedule, int stages, i64 micro_batches,
                             const PipelineCosts& costs) {
  check_schedule(0, stages, micro_batches);
  return PipelineClock(schedule, stages, micro_batches, costs).run();
}

}  // namespace wt::dist
