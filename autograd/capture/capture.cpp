#include "warptape/autograd/capture.h"

#include <algorithm>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/random.h"
#include "warptape/core/warning.h"

namespace wt::detail {
namespace {

// How often a capture that runs out of memory is warmed up once more.
constexpr int kMostTries = 3;

std::vector<Shape> shapes_of(const std::vector<Tensor>& list) {
  std::vector<Shape> shapes;
  for (const Tensor& t : list) shapes.push_back(t.shape());
  return shapes;
}

std::string text_of(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& s : shapes) text += str(text.empty() ? "" : ", ", s);
  return text;
}

// Results without their place on the tape; copies: in memory that no graph has.
std::vector<Tensor> given_out(const std::vector<Tensor>& results, bool copies) {
  const NoGrad no_grad;
  std::vector<Tensor> all;
  for (const Tensor& t : results)
    all.push_back(!t.defined() ? Tensor() : copies ? t.detach().clone() : t.detach());
  return all;
}

}  // namespace

// The calls with one set of shapes in one ambient state.
struct CapturedCalls::Entry {
  enum class Phase { warm_up, capture, replay, eager };
  std::vector<Shape> shapes;
  AmbientKey ambient = AmbientKey::now();
  Phase phase = Phase::warm_up;
  int tries = 0;
  std::unique_ptr<Graph> graph{};
  std::vector<Tensor> slots{}, results{};
  u64 seed = 0, fork = 0;  // of the generator that dropout's keys are from
  i64 dropout_calls = 0;   // of one call
};

CapturedCalls::CapturedCalls(Function f, std::vector<Tensor> example, const CaptureOptions& o,
                             Frame at)
    : function_(std::move(f)), options_(o) {
  if (example.empty()) throw UsageError("[capture] needs an example of each argument");
  if (o.max_shapes < 1)
    throw UsageError(str("[capture] max_shapes must be at least 1, got ", o.max_shapes));
  for (const Tensor& t : example) {
    if (!t.defined()) use_of_undefined(at);
    if (!(t.device() == example[0].device()))
      throw PlacementError(str("[capture] examples are on ", to_string(example[0].device()),
                               " and ", to_string(t.device())));
    guards_.push_back({t.dtype(), t.ndim()});
  }
  device = example[0].device();
  if (device.is_meta) throw PlacementError("[capture] nothing runs on a meta device");
  if (device.kind != DeviceKind::cpu) return;
  why_eager = "the cpu launches nothing that a graph could keep";
  warn_once("capture cpu",
            "capture() does nothing on the cpu: each call runs its function; save_graph() and "
            "SavedGraph replay a forward there without the tape");
}

CapturedCalls::~CapturedCalls() = default;

i64 CapturedCalls::captures() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const auto& e) { return e->phase == Entry::Phase::replay; });
}

i64 CapturedCalls::memory_bytes() const {
  for (const auto& e : entries_)
    if (e->graph) return e->graph->memory_bytes();
  return 0;
}

void CapturedCalls::check(const std::vector<Tensor>& arguments, Frame at) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Tensor& t = arguments[i];
    if (!t.defined()) use_of_undefined(at);
    const auto where = [&] {
      return str("\n  argument ", i + 1, ": ", describe(t), "\n  at ", wt::describe(at));
    };
    if (!(t.device() == device))
      throw PlacementError(str("[capture] captured on ", to_string(device), ", called on ",
                               to_string(t.device()), where()));
    if (t.dtype() != guards_[i].dtype)
      throw DtypeError(str("[capture] captured for ", dtype_name(guards_[i].dtype),
                           ", called with ", dtype_name(t.dtype()), where()));
    if (t.ndim() != guards_[i].ndim)
      throw ShapeError(str("[capture] captured for ", guards_[i].ndim, " dimensions, called with ",
                           t.ndim(), where()));
  }
}

CapturedCalls::Entry& CapturedCalls::entry_of(const std::vector<Tensor>& arguments, Frame at) {
  std::vector<Shape> shapes = shapes_of(arguments);
  const AmbientKey ambient = AmbientKey::now();
  for (const auto& e : entries_)
    if (e->shapes == shapes && e->ambient == ambient) return *e;
  if (i64(entries_.size()) >= options_.max_shapes)
    throw ShapeError(str("[capture] called with ", text_of(shapes), " after ", entries_.size(),
                         " other sets of shapes, the last ", text_of(entries_.back()->shapes),
                         ", where max_shapes is ", options_.max_shapes, "\n  at ", describe(at),
                         "\n  Try padding to fewer shapes, or a larger max_shapes"));
  auto made = std::make_unique<Entry>();
  made->shapes = std::move(shapes);
  entries_.push_back(std::move(made));
  return *entries_.back();
}

std::vector<Tensor> CapturedCalls::run(const std::vector<Tensor>& arguments) const {
  return given_out(function_(arguments), false);
}

std::vector<Tensor> CapturedCalls::call(std::vector<Tensor> arguments, Frame at) {
  const FrameScope frame(at);
  check(arguments, at);
  {
    const NoGrad no_grad;
    for (Tensor& t : arguments) t = t.detach();
  }
  if (device.kind == DeviceKind::cpu) return run(arguments);
  if (mode.capture) return run(arguments);  // part of the graph around it
  if (!std::exchange(has_run_, true)) return run(arguments);
  Entry& e = entry_of(arguments, at);
  if (e.phase == Entry::Phase::eager) return run(arguments);
  if (e.phase == Entry::Phase::replay) {
    const Generator& g = generator();
    const bool reseeded = e.dropout_calls && (g.seed() != e.seed || g.fork() != e.fork);
    if (reseeded || !e.graph->is_current()) e.phase = Entry::Phase::warm_up;
  }
  if (!e.graph) {
    if (entries_[0]->graph)
      e.graph = std::make_unique<Graph>(*entries_[0]->graph, std::in_place);
    else
      e.graph = std::make_unique<Graph>(device);
    const CategoryScope scope(Category::buffer);
    for (const Tensor& t : arguments) e.slots.emplace_back(new_in_order(t.impl(), t.dtype()));
  }
  {
    const NoGrad no_grad;
    for (size_t i = 0; i < arguments.size(); ++i) e.slots[i].copy_(arguments[i], at);
  }
  if (e.phase == Entry::Phase::warm_up) return warm_up(e);
  if (e.phase == Entry::Phase::capture) return first_replay(e, at);
  return replay(e, at);
}

// Dropout inside a graph counts its calls from a number on the device, which the graph moves on.
class CapturedCalls::Draws {
 public:
  explicit Draws(CapturedCalls& c) : c_(c), generator_(generator()), before_(generator_) {
    if (generator_.dropout_base().defined()) return;  // a TrainStep's, which moves it on itself
    own_ = true;
    const i64 calls = i64(before_.calls(RandomStream::dropout));
    if (!c.call_base_.defined())
      c.call_base_ = zeros({}, {.dtype = DType::i64, .device = c.device});
    if (c.base_there_ != calls)
      copy_bytes(c.call_base_.impl()->data, c.device, &calls, Device::cpu(), sizeof calls);
    c.base_there_ = calls;
  }
  ~Draws() {
    if (!own_) return;
    if (!ended_) c_.base_there_ = -1;
    generator_.enter_step({});
    generator_.set_calls(RandomStream::dropout, before_.calls(RandomStream::dropout) + u64(calls_));
  }
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

  void enter() {
    if (own_) generator_.enter_step(c_.call_base_);
  }
  // At the end of the function, inside the graph: how many calls it made.
  i64 count() {
    const u64 now = generator_.calls(RandomStream::dropout);
    if (!own_) {
      if (now != before_.calls(RandomStream::dropout))
        not_in_a_graph("dropout", "a TrainStep around it counts its calls");
      return 0;
    }
    const NoGrad no_grad;
    if (now) c_.call_base_.add_(full({}, i64(now), {.dtype = DType::i64, .device = c_.device}));
    return i64(now);
  }
  // `calls` more were made, on the device too.
  void end(i64 calls) {
    calls_ = calls;
    if (own_) c_.base_there_ += calls;
    ended_ = true;
  }

 private:
  CapturedCalls& c_;
  Generator& generator_;
  Generator before_;
  i64 calls_ = 0;
  bool own_ = false, ended_ = false;
};

std::vector<Tensor> CapturedCalls::warm_up(Entry& e) {
  Draws draws(*this);
  i64 calls = 0;
  const std::vector<Tensor> results = e.graph->warm_up([&] {
    draws.enter();
    std::vector<Tensor> r = run(e.slots);
    calls = draws.count();
    return r;
  });
  draws.end(calls);
  e.phase = Entry::Phase::capture;
  return given_out(results, true);
}

std::vector<Tensor> CapturedCalls::first_replay(Entry& e, Frame at) {
  try {
    Draws draws(*this);
    e.graph->capture([&] {
      draws.enter();
      e.results = run(e.slots);
      e.dropout_calls = draws.count();
    });
    draws.end(0);  // nothing ran
    e.seed = generator().seed();
    e.fork = generator().fork();
  } catch (...) {
    e.results.clear();
    if (e.graph->broken().empty()) throw;
    if (e.graph->short_of_memory() && ++e.tries < kMostTries) return warm_up(e);
    return eagerly(e, e.graph->broken(), at);
  }
  e.phase = Entry::Phase::replay;
  return replay(e, at);
}

std::vector<Tensor> CapturedCalls::replay(Entry& e, Frame at) {
  Draws draws(*this);
  e.graph->replay(at);
  draws.end(e.dropout_calls);
  for (const Tensor& t : e.results)
    if (t.defined()) t.impl()->cell->wrote(mode.frame);
  return e.results;
}

// From here on.
std::vector<Tensor> CapturedCalls::eagerly(Entry& e, const std::string& why, Frame at) {
  e.phase = Entry::Phase::eager;
  why_eager = why;
  warn_once(str("capture ", why),
            str("capture at ", describe(at), " runs its function each time: ", why));
  const std::vector<Tensor> slots = std::move(e.slots);
  e.slots.clear();
  e.graph.reset();
  return run(slots);
}

}  // namespace wt::detail
