#include "warptape/optim/captured_step.h"

#include <algorithm>

#include "warptape/autograd/recorder.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/graph/graph_host_work.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/module_state.h"
#include "warptape/optim/arena.h"

namespace wt {

namespace info {
constexpr OpInfo captured_step{.name = "train_step", .derivative = Derivative::none};
}

namespace {

// How often a capture that runs out of memory, or meets another buffer, is warmed up once more.
constexpr int kMostTries = 3;

std::vector<char> modes_of(const std::shared_ptr<nn::detail::ModuleState>& net) {
  std::vector<char> modes;
  const auto visit = [&](const auto& self, const nn::detail::ModuleState& m) -> void {
    modes.push_back(m.training);
    for (const auto& child : m.children) self(self, *child.second);
  };
  visit(visit, *net);
  return modes;
}

}  // namespace

std::vector<u64> optim::Reducer::gather(u64 mine) { return {mine}; }

TrainStep::CapturedSteps::CapturedSteps(const TrainStepOptions& o) : limit(o.graph_shapes) {
  if (o.graph_shapes < 1)
    throw UsageError(str("[TrainStep] graph_shapes must be at least 1, got ", o.graph_shapes));
  if (o.reducer) o.reducer->require_capture();
}

u64 TrainStep::CapturedSteps::number_of(const Key& key) {
  const auto at = std::find(kinds.begin(), kinds.end(), key);
  const auto n = u64(at - kinds.begin());
  if (at == kinds.end()) kinds.push_back(key);
  return n;
}

TrainStep::CapturedSteps::Agreed TrainStep::CapturedSteps::agree(optim::Reducer& reducer, u64 kind,
                                                                 bool restarts, bool stale,
                                                                 bool eager) {
  constexpr u64 kRestarts = u64(1) << 61, kStale = u64(1) << 62, kEager = u64(1) << 63,
                kFlags = kRestarts | kStale | kEager;
  Agreed a{reducer.gather(kind | (restarts ? kRestarts : 0) | (stale ? kStale : 0) |
                          (eager ? kEager : 0)),
           false};
  u64 any = 0;
  for (u64& k : a.kinds) any |= k, k &= ~kFlags;
  if (any & kRestarts) entries.clear();
  if (any & kStale)
    for (const auto& e : entries)
      if (e->phase == Phase::replay) e->phase = Phase::warm_up;
  a.eager = (any & kEager) != 0;
  return a;
}

TrainStep::CapturedEntry::Phase TrainStep::CapturedSteps::agree_on_capture(optim::Reducer& reducer,
                                                                           const Entry& e) {
  constexpr Phase kFromWorst[] = {Phase::eager, Phase::warm_up, Phase::replay};
  const auto own = u64(std::find(kFromWorst, kFromWorst + 3, e.phase) - kFromWorst);
  u64 worst = own;
  for (const u64 other : reducer.gather(own)) worst = std::min(worst, other);
  return kFromWorst[worst];
}

TrainStep::CapturedEntry& TrainStep::CapturedSteps::entry_of(const Key& key,
                                                             const std::vector<u64>& numbers) {
  for (const auto& e : entries)
    if (e->key == key && e->kinds == numbers) return *e;
  if (i64(entries.size()) >= limit) {
    const auto text = [](const Key& k) {
      std::string s;
      for (const auto& [shape, dtype] : k.tensors)
        s += str(s.empty() ? "" : ", ", shape, " ", dtype_name(dtype));
      return s;
    };
    throw UsageError(
        str("[TrainStep] a batch of ", text(key), " after ", entries.size(),
            " other kinds, the last ", text(entries.back()->key), ", where graph_shapes is ", limit,
            at_line(), "\n  Try batches of fewer shapes, a larger graph_shapes, or graph = false"));
  }
  entries.push_back(std::make_unique<Entry>(Entry{.key = key, .kinds = numbers}));
  return *entries.back();
}

bool TrainStep::CapturedSteps::prepare(Entry& e, Device d) {
  if (e.graph) return true;
  const auto other = std::find_if(entries.begin(), entries.end(),
                                  [](const auto& o) { return o->graph != nullptr; });
  try {
    e.graph = other == entries.end() ? std::make_unique<Graph>(d)
                                     : std::make_unique<Graph>(*(*other)->graph, std::in_place);
  } catch (const NotAvailable& why) {
    off = true;
    why_eager = why.what();
    return false;
  }
  return true;
}

void TrainStep::CapturedSteps::runs_eagerly(const std::string& why) {
  why_eager = why;
  warn_once("TrainStep " + why, "TrainStep{.graph = true} runs such steps eagerly: " + why);
}

i64 TrainStep::captures() const {
  if (!captured_) return 0;
  return std::count_if(captured_->entries.begin(), captured_->entries.end(),
                       [](const auto& e) { return e->phase == CapturedSteps::Phase::replay; });
}

const std::string& TrainStep::why_eager() const {
  static const std::string none;
  return captured_ ? captured_->why_eager : none;
}

StepResult TrainStep::run_eagerly(const std::vector<Tensor*>& tensors, i64 size,
                                  const std::function<void()>& forward) {
  begin(size);
  try {
    for (Tensor* t : tensors) move_to_device(*t);
    forward();
    return finish();
  } catch (...) {
    abandon();
    throw;
  }
}

StepResult TrainStep::run_captured(const std::vector<Tensor*>& tensors, i64 size, const void* kind,
                                   const std::function<void()>& forward) {
  reduces_ = options_.reducer != nullptr;  // others wait for what this rank is about to say
  try {
    return run_in_phase(tensors, size, kind, forward);
  } catch (...) {
    if (std::exchange(reduces_, false)) options_.reducer->give_up();
    throw;
  }
}

StepResult TrainStep::run_in_phase(const std::vector<Tensor*>& tensors, i64 size, const void* kind,
                                   const std::function<void()>& forward) {
  using Phase = CapturedSteps::Phase;
  CapturedSteps& c = *captured_;
  // Parameters that moved are followed, 16-bit copies of those that were written by hand are made
  // anew and the schedule's next stretch goes up before anything is recorded or replayed.
  opt_.arenas().zero_grad();
  prepare_memory();
  const Device d = opt_.device();
  const bool restarts = !c.device || !(*c.device == d);
  if (restarts) {
    c.entries.clear();
    c.device = d;
    c.off = d.is_meta || d.kind == DeviceKind::cpu;
    c.why_eager =
        c.off ? str("a graph needs a device that launches, and this is ", to_string(d)) : "";
  }
  // A replay shows nobody what it computes.
  const bool eager = c.off || !std::exchange(c.has_run, true) || record::recording();
  if (eager && !options_.reducer) return run_eagerly(tensors, size, forward);

  CapturedSteps::Key key{
      kind, std::min(options_.micro_batches, size), {}, modes_of(net_), detail::AmbientKey::now()};
  for (const Tensor* t : tensors)
    key.tensors.emplace_back(t->defined() ? std::pair{t->shape(), t->dtype()}
                                          : std::pair{Shape(), DType::f32});
  std::vector<u64> kinds;
  if (options_.reducer) {
    const bool stale = std::any_of(c.entries.begin(), c.entries.end(), [&](const auto& e) {
      return e->phase == Phase::replay && !still_stands(*e);
    });
    auto agreed = c.agree(*options_.reducer, eager ? 0 : c.number_of(key), restarts, stale, eager);
    if (agreed.eager) return run_eagerly(tensors, size, forward);
    kinds = std::move(agreed.kinds);
    reduces_ = false;  // all ranks have as many entries: one too many is every rank's error
  }
  CapturedEntry& e = c.entry_of(key, kinds);
  reduces_ = options_.reducer != nullptr;
  if (e.phase == Phase::eager || !c.prepare(e, d)) return run_eagerly(tensors, size, forward);
  if (e.phase == Phase::replay && !still_stands(e)) e.phase = Phase::warm_up;
  place_batch(tensors, e);
  if (e.phase == Phase::capture) {
    if (capture(e, size, forward)) e.phase = Phase::replay;
    if (options_.reducer) agree_on_capture(e);
  }
  switch (e.phase) {
    case Phase::replay:
      return replay(e);
    case Phase::eager:
      return run_eagerly(tensors, size, forward);
    default:
      break;
  }
  StepResult r = e.graph->warm_up([&] { return run_eagerly(tensors, size, forward); });
  e.changed.clear();
  for (const Snapshot& s : snapshots_->list) e.changed.push_back(!s.is_current());
  e.phase = Phase::capture;
  return r;
}

void TrainStep::agree_on_capture(CapturedEntry& e) {
  using Phase = CapturedSteps::Phase;
  const Phase all = captured_->agree_on_capture(*options_.reducer, e);
  if (all == Phase::eager && e.phase != Phase::eager) {
    captured_->runs_eagerly("another rank's step cannot be a graph");
    e.graph.reset();
  }
  e.phase = all;
  reduces_ = true;
}

// Whether what the graph has addresses of lies where it lay, and its random keys are the
// generator's.
bool TrainStep::still_stands(const CapturedEntry& e) {
  if (e.generation != opt_.generation() || e.block != block_.impl()->data ||
      e.mailbox != opt_.mailbox() || !e.graph->is_current())
    return false;
  if (e.dropout_calls && (e.seed != generator().seed() || e.fork != generator().fork()))
    return false;
  return std::all_of(e.buffers.begin(), e.buffers.end(), [](const Snapshot& s) {
    return s.slot->tensor.same_as(s.tensor) && s.tensor.impl()->data == s.data;
  });
}

// Puts the batch where the graph reads it.
void TrainStep::place_batch(const std::vector<Tensor*>& tensors, CapturedEntry& e) {
  const NoGrad no_grad;
  const CategoryScope scope(Category::buffer);
  e.slots.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]->defined()) continue;
    if (!e.slots[i].defined()) {
      const Tensor there = tensors[i]->to(e.graph->device());
      e.slots[i] = there.same_as(*tensors[i]) ? there.clone() : there;
    } else if (tensors[i]->numel() > 0) {
      e.slots[i].copy_(*tensors[i]);
    }
    *tensors[i] = e.slots[i];
  }
}

// False: it is to be warmed up once more, or cannot be captured; its phase says which.
bool TrainStep::capture(CapturedEntry& e, i64 size, const std::function<void()>& forward) {
  using Phase = CapturedSteps::Phase;
  begin(size);
  try {
    e.graph->capture([&] {
      for (size_t i = 0; i < snapshots_->list.size(); ++i) {
        const Snapshot& s = snapshots_->list[i];
        if (i < e.changed.size() && e.changed[i])
          run(CopyArgs{view_of(s.copy.impl()), view_of(s.tensor.impl())},
              {&info::captured_step, mode.native_stream, nullptr, opt_.device()});
      }
      if (options_.reducer)
        detail::record_host_work(opt_.device(), [copied = e.copied] { *copied = true; });
      forward();
      e.dropout_calls = i64(generator_->calls(RandomStream::dropout));
      finish();
      check_buffers(e);
    });
  } catch (...) {
    const std::string& why = e.graph->broken();
    if (why.empty()) {
      abandon();
      throw;
    }
    reduces_ = false;  // nothing has been sent, and no rank goes on before it heard of this
    roll_back();
    const bool again =
        e.graph->short_of_memory() || e.phase == Phase::warm_up || opt_.needs_cohorts();
    e.phase = again && ++e.tries < kMostTries ? Phase::warm_up : Phase::eager;
    if (e.phase == Phase::eager) {
      captured_->runs_eagerly(why);
      e.graph.reset();
    }
    return false;
  }
  e.generation = opt_.generation();
  e.block = block_.impl()->data;
  e.mailbox = opt_.mailbox();
  e.seed = generator_->seed();
  e.fork = generator_->fork();
  e.written = opt_.arenas().written_slots();
  e.buffers = snapshots_->list;
  generator_left_ = *generator_ = generator_before_;  // nothing has run
  return true;
}

// At the end of a capture: the buffers that the step wrote are those that it has copied first.
void TrainStep::check_buffers(CapturedEntry& e) {
  for (size_t i = 0; i < snapshots_->list.size(); ++i) {
    const Snapshot& s = snapshots_->list[i];
    if (s.is_current()) continue;
    if (!s.slot->tensor.same_as(s.tensor))
      detail::not_in_a_graph(
          "TrainStep",
          ("buffer " + s.slot->name + " is given another tensor; copy_() into it").c_str());
    if (i < e.changed.size() && e.changed[i]) continue;
    e.phase = CapturedSteps::Phase::warm_up;
    detail::not_in_a_graph("TrainStep",
                           ("buffer " + s.slot->name + " was not written before").c_str());
  }
}

// The step of all ranks. Where the host is not ahead (simt) a failure takes back what it did.
void TrainStep::replay_with_others(CapturedEntry& e) {
  *e.copied = false;
  try {
    options_.reducer->replay([&] { e.graph->replay(frame_of(mode.frame)); });
    reduces_ = false;
  } catch (...) {
    if (std::exchange(reduces_, false)) options_.reducer->give_up();
    for (size_t i = 0; i < e.buffers.size() && *e.copied; ++i)
      if (e.changed[i]) {
        const NoGrad no_grad;
        e.buffers[i].tensor.copy_(e.buffers[i].copy);
      }
    *generator_ = generator_before_;
    opt_.arenas().zero_grad();
    throw;
  }
}

StepResult TrainStep::replay(CapturedEntry& e) {
  enter_random();
  if (options_.reducer)
    replay_with_others(e);
  else
    e.graph->replay(frame_of(mode.frame));
  leave_random(e.dropout_calls, false);
  opt_.arenas().wrote_slots(e.written, scaler_ ? scaler_->id() : 0);
  for (size_t i = 0; i < e.buffers.size(); ++i)
    if (e.changed[i]) e.buffers[i].tensor.impl()->cell->wrote(mode.frame);
  opt_.count_step();
  return StepResult(block_, opt_.attempted() - 1);
}

}  // namespace wt
