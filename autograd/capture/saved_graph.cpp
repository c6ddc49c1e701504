#include "warptape/autograd/saved_graph.h"

#include <algorithm>

#include "warptape/autograd/capture/saved_program.h"
#include "warptape/autograd/op_list.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/run.h"

namespace wt {

namespace info {
constexpr OpInfo saved_graph{.name = "SavedGraph", .derivative = Derivative::none};
}

using detail::ProgramCall;
using detail::ProgramConstant;
using detail::ProgramPlace;
using detail::ProgramSlot;

namespace {

const OpInfo* op_named(const std::string& name) {
  for (const OpInfo* op : all_ops())
    if (name == op->name) return op;
  return &info::saved_graph;
}

// Gives a call's operands their addresses.
class Binder final : public detail::LaunchOperands {
 public:
  using Address = std::function<void*(const ProgramPlace&)>;
  Binder(const ProgramCall& c, const Address& address) : places_(c.places), address_(address) {}

 private:
  void view(View& v, bool) override {
    void* const data = address_(places_[at_++]);
    if (v) v.data = data;
  }
  void memory(void*& data, i64, DType, bool) override { data = address_(places_[at_++]); }
  const std::vector<ProgramPlace>& places_;
  const Address& address_;
  size_t at_ = 0;
};

}  // namespace

struct SavedGraph::State {
  enum class Phase { first, warm_up, capture, replay, eager };

  State(detail::SavedProgram p, Device d) : device(d), program(std::move(p)) {
    const CategoryScope scope(Category::parameter);
    const TensorOptions bytes{.dtype = DType::u8, .device = d};
    for (ProgramConstant& c : program.constants) {
      constants.push_back(empty({i64(c.lead + c.bytes.size())}, bytes));
      copy_bytes(static_cast<char*>(constants.back().impl()->data) + c.lead, d, c.bytes.data(),
                 Device::cpu(), i64(c.bytes.size()));
      c.bytes = {};
    }
    const CategoryScope between(Category::activation);
    // A byte where there is none: operands without elements have an address too.
    pool = empty({std::max<i64>(1, i64(program.pool_bytes))}, bytes);
    for (const ProgramCall& c : program.calls) bind(c);
    report_to_thread();
  }

  void* address(const ProgramPlace& at) const {
    char* const base = static_cast<char*>(pool.impl()->data);
    switch (at.where) {
      case ProgramPlace::Where::absent:
        return nullptr;
      case ProgramPlace::Where::empty:
        return base;
      case ProgramPlace::Where::pool:
        return base + at.offset;
      case ProgramPlace::Where::constant:
        break;
    }
    char* const constant = static_cast<char*>(constants[at.constant].impl()->data);
    return constant + program.constants[at.constant].lead + at.offset;
  }
  View view(const ProgramSlot& s) const { return {address(s.place), &s.geometry}; }

  void bind(const ProgramCall& c) {
    const Binder::Address where = [this](const ProgramPlace& at) { return address(at); };
    Binder binder(c, where);
    c.launch->operands(binder);
    ops.push_back(op_named(c.op));
    c.launch->check(device, ops.back());
  }
  void copy(View to, View from) const {
    if (to.numel()) wt::run(CopyArgs{to, from}, launch(&info::saved_graph));
  }
  // What is bad goes to the mailbox of the thread that runs it.
  void report_to_thread() {
    MailboxRecord* const to = mailbox_of(device);
    if (std::exchange(mailbox, to) == to) return;
    for (size_t i = 0; i < ops.size(); ++i)
      program.calls[i].launch->report_to(to, mailbox_op_id(*ops[i]));
    graph.reset();  // it has the address of the other one
    phase = Phase::first;
  }
  Launch launch(const OpInfo* op) const { return {op, mode.native_stream, nullptr, device}; }
  void launch_all() const {
    for (size_t i = 0; i < ops.size(); ++i) program.calls[i].launch->run(launch(ops[i]));
  }
  void compute();
  void capture();
  void check(const std::vector<Tensor>& inputs, Frame at) const;

  Device device;
  detail::SavedProgram program;
  std::vector<Tensor> constants;
  Tensor pool;
  std::vector<const OpInfo*> ops;    // of the calls
  MailboxRecord* mailbox = nullptr;  // that the calls report to
  std::unique_ptr<Graph> graph;
  Phase phase = Phase::first;
  detail::AmbientKey ambient = detail::AmbientKey::now();  // of the graph
  std::string why_eager;
};

void SavedGraph::State::check(const std::vector<Tensor>& inputs, Frame at) const {
  const size_t wanted = program.inputs.size();
  if (inputs.size() != wanted)
    throw UsageError(str("[SavedGraph] takes ", wanted, wanted == 1 ? " input" : " inputs",
                         ", called with ", inputs.size(), "\n  at ", wt::describe(at)));
  for (size_t i = 0; i < wanted; ++i) {
    const Tensor& t = inputs[i];
    if (!t.defined()) detail::use_of_undefined(at);
    const Geometry& g = program.inputs[i].geometry;
    const auto text = [&](const auto& was, const auto& is) {
      return str("[SavedGraph] input ", i + 1, " was saved as ", was, ", called with ", is,
                 "\n  input ", i + 1, ": ", wt::describe(t), "\n  at ", wt::describe(at));
    };
    if (!(t.device() == device))
      throw PlacementError(str("[SavedGraph] loaded on ", to_string(device), ", input ", i + 1,
                               " is ", wt::describe(t), "\n  at ", wt::describe(at)));
    if (t.dtype() != g.dtype) throw DtypeError(text(dtype_name(g.dtype), dtype_name(t.dtype())));
    if (!same_shape(t.impl()->geometry, g)) throw ShapeError(text(shape_of(g), t.shape()));
  }
}

// Once as it is, for what is made at a first use, once with the graph's memory, then captured.
void SavedGraph::State::compute() {
  const bool has_graphs = device.kind != DeviceKind::cpu && !mode.capture;
  if (!has_graphs || phase == Phase::eager || (graph && !(ambient == detail::AmbientKey::now())))
    return launch_all();
  if (phase == Phase::first) {
    launch_all();
    phase = Phase::warm_up;
  } else if (phase == Phase::warm_up) {
    if (!graph) graph = std::make_unique<Graph>(device);
    ambient = detail::AmbientKey::now();
    graph->warm_up([&] { launch_all(); });
    phase = Phase::capture;
  } else {
    if (phase == Phase::capture) capture();
    if (phase == Phase::replay)
      graph->replay();
    else
      launch_all();
  }
}

void SavedGraph::State::capture() {
  try {
    graph->capture([&] { launch_all(); });
    phase = Phase::replay;
  } catch (const Error&) {
    if (graph->broken().empty()) throw;
    why_eager = graph->broken();
    phase = Phase::eager;
    graph.reset();
  }
}

SavedGraph::SavedGraph(std::shared_ptr<State> state) : state_(std::move(state)) {}

SavedGraph SavedGraph::load(const std::string& path, Device d, const ParseLimits& limits) {
  if (d.is_meta) throw PlacementError("[SavedGraph] nothing runs on a meta device");
  require_available(d);
  const NoGrad no_grad;
  return SavedGraph(std::make_shared<State>(detail::read_program(path, limits), d));
}

std::vector<Tensor> SavedGraph::run(const std::vector<Tensor>& inputs, Frame at) const {
  State& s = *state_;
  const FrameScope frame(at);
  const NoGrad no_grad;
  s.check(inputs, at);
  std::vector<Tensor> results;
  for (const ProgramSlot& r : s.program.results)
    results.push_back(
        empty(shape_of(r.geometry), {.dtype = r.geometry.dtype, .device = s.device}, at));
  for (size_t i = 0; i < inputs.size(); ++i)
    s.copy(s.view(s.program.inputs[i]), view_of(inputs[i].impl()));
  s.report_to_thread();
  s.compute();
  for (size_t i = 0; i < results.size(); ++i)
    s.copy(view_of(results[i].impl()), s.view(s.program.results[i]));
  if (s.device == Device::cpu()) check_mailbox(s.device);
  return results;
}

Tensor SavedGraph::operator()(const Tensor& input, Frame at) const {
  if (state_->program.results.size() != 1)
    throw UsageError(str("[SavedGraph] has ", state_->program.results.size(),
                         " results: call run()\n  at ", describe(at)));
  return run({input}, at)[0];
}

static std::vector<SavedGraph::Slot> slots_of(const std::vector<ProgramSlot>& slots) {
  std::vector<SavedGraph::Slot> all;
  for (const ProgramSlot& s : slots) all.push_back({shape_of(s.geometry), s.geometry.dtype});
  return all;
}
std::vector<SavedGraph::Slot> SavedGraph::inputs() const {
  return slots_of(state_->program.inputs);
}
std::vector<SavedGraph::Slot> SavedGraph::results() const {
  return slots_of(state_->program.results);
}
Device SavedGraph::device() const { return state_->device; }
i64 SavedGraph::launches() const { return i64(state_->program.calls.size()); }
i64 SavedGraph::memory_bytes() const {
  i64 bytes = state_->pool.numel();
  for (const Tensor& c : state_->constants) bytes += c.numel();
  return bytes;
}
bool SavedGraph::replays() const { return state_->phase == State::Phase::replay; }
const std::string& SavedGraph::why_eager() const { return state_->why_eager; }

void detail::save_graph(const std::string& path, const TracedFunction& f,
                        const std::vector<Tensor>& example) {
  SavedProgram p = trace_program(f, example);
  write_program(path, p);
}

}  // namespace wt
