#include "warptape/autograd/onnx/trace.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "warptape/autograd/onnx/kernel_args.h"
#include "warptape/autograd/result_watch.h"
#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/in.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/core/storage.h"

namespace wt::onnx {
namespace {

// Elements from the first to the last.
i64 span_of(const Geometry& g) {
  i64 span = g.numel > 0 ? 1 : 0;
  for (int d = 0; d < g.ndim && span; ++d) span += (g.shape[d] - 1) * g.strides[d];
  return span;
}

bool same_place(const TensorImpl* p, const void* data, const Geometry& g) {
  const Geometry& own = p->geometry;
  if (p->data != data || own.dtype != g.dtype || !same_shape(own, g)) return false;
  for (int d = 0; d < g.ndim; ++d)
    if (g.shape[d] != 1 && own.strides[d] != g.strides[d]) return false;
  return true;
}

// What a function has written over that was there before it, to be put back: such a function is
// refused, and what it is of stays as it was.
class Kept {
 public:
  Kept() = default;
  ~Kept() {
    // The first copy of a place has what was there before all others.
    for (auto it = all_.rbegin(); it != all_.rend(); ++it) try {
        const TensorImpl* p = it->tensor.impl();
        copy_bytes(p->data, device_of(p), it->bytes.data(), Device::cpu(), i64(it->bytes.size()));
        p->cell->version = it->version;
      } catch (const DeviceError&) {  // which has lost what was there
      }
  }
  Kept(const Kept&) = delete;
  void keep(const TensorImpl* p) {
    for (const Copy& c : all_)
      if (same_place(c.tensor.impl(), p->data, p->geometry)) return;
    std::vector<char> bytes(size_t(span_of(p->geometry) * item_size(p->geometry.dtype)));
    if (bytes.empty()) return;
    copy_bytes(bytes.data(), Device::cpu(), p->data, device_of(p), i64(bytes.size()));
    all_.push_back({Tensor(wt::detail::retained(const_cast<TensorImpl*>(p))), p->cell->version,
                    std::move(bytes)});
  }

 private:
  struct Copy {
    Tensor tensor;
    u32 version;
    std::vector<char> bytes;  // from its first element to its last
  };
  std::vector<Copy> all_;
};

// Why a function cannot be a list of operators.
struct Refusal {
  std::string why;
};

class Recorder final : public profiler::Observer, public wt::detail::ResultWatch {
 public:
  Recorder(Trace& t, const Names& names) : trace_(t), names_(names) {}

  int add_input(const Tensor& t, int number) {
    const int v = add(t.impl());
    trace_.values[size_t(v)].input = number;
    trace_.values[size_t(v)].constant = false;
    return v;
  }
  int value_of(const TensorImpl* p);
  const std::string& failed() const { return failed_; }

  void begin(const profiler::Range& r) noexcept override {
    if (!is_mine()) return;
    guarded([&] { keep_written(r); }, true);
    const auto note = [&] {
      if (r.kind == profiler::Kind::op) begin_op(r);
      if (r.kind == profiler::Kind::kernel) begin_kernel(r);
      if (r.kind == profiler::Kind::backward) fail("gradients cannot be written", r);
    };
    guarded(note);
  }
  void end(const profiler::Range& r) noexcept override {
    if (!is_mine()) return;
    if (r.kind == profiler::Kind::kernel) --kernel_depth_;
    if (r.kind != profiler::Kind::op || open_.empty()) return;
    guarded([&] {
      for (const int v : open_.back().results) trace_.values[size_t(v)].producer = next_op();
      trace_.ops.push_back(std::move(open_.back()));
      open_.pop_back();
    });
  }
  void allocated(const profiler::Memory& m) noexcept override {
    if (is_mine()) guarded([&] { own_.insert(m.storage); }, true);
  }
  void result(const OpInfo& info, const TensorImpl* out, int k) noexcept override {
    if (!open_.empty()) guarded([&] { note_result(info, out, k); });
  }
  void gradient(const Node*, int, const TensorImpl*, bool) noexcept override {}

 private:
  template <class F>
  void guarded(F f, bool always = false) noexcept {
    if (!failed_.empty() && !always) return;
    try {
      f();
    } catch (const Refusal& r) {
      failed_ = r.why;
    } catch (const std::exception& e) {
      failed_ = str("[onnx::save] ", e.what());
    }
  }
  bool is_mine() const { return std::this_thread::get_id() == thread_; }
  int next_op() const { return int(trace_.ops.size()); }
  void fail(const std::string& why, const profiler::Range& r) {
    failed_ = str("[onnx::save] ", why, ": ", r.op ? r.op->name : r.name, "\n  at ",
                  describe_frame(r.frame));
  }
  // Also after a failure: the work goes on until the function ends.
  void keep_written(const profiler::Range& r) {
    if (r.kind != profiler::Kind::op || !r.op->in_place || r.n_operands == 0) return;
    const TensorImpl* p = r.operands[0]->impl();
    if (p->data && !own_.contains(p->storage)) kept_.keep(p);
  }
  void begin_op(const profiler::Range& r);
  void begin_kernel(const profiler::Range& r);
  void note_result(const OpInfo& info, const TensorImpl* out, int k);
  int add(const TensorImpl* p);
  int source(const TensorImpl* p);
  // Another handle of value v.
  int hold(const TensorImpl* p, int v) {
    held_.emplace_back(wt::detail::retained(const_cast<TensorImpl*>(p)));
    return current_[p] = v;
  }

  Trace& trace_;
  const Names& names_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::map<const TensorImpl*, int> current_;
  std::vector<Tensor> held_;
  std::set<const void*> own_;  // storages that the function has taken
  Kept kept_;
  std::vector<TracedOp> open_;
  int kernel_depth_ = 0;
  std::string failed_;
};

int Recorder::add(const TensorImpl* p) {
  const int v = int(trace_.values.size());
  trace_.values.push_back(
      {Tensor(wt::detail::retained(const_cast<TensorImpl*>(p))), p->cell->version});
  current_[p] = v;
  return v;
}

// A tensor that no operator made.
int Recorder::source(const TensorImpl* p) {
  const int v = add(p);
  TracedValue& value = trace_.values[size_t(v)];
  for (const auto& [name, t] : names_)
    if (t.impl() == p || (p->data && same_place(t.impl(), p->data, p->geometry))) {
      value.name = name;
      return v;
    }
  value.constant = true;
  return v;
}

int Recorder::value_of(const TensorImpl* p) {
  if (const auto it = current_.find(p); it != current_.end()) {
    TracedValue& v = trace_.values[size_t(it->second)];
    // zeros() and others fill a tensor and then call it new.
    v.version = std::min(v.version, p->cell->version);
    if (v.version != p->cell->version)
      throw Refusal{str("[onnx::save] a tensor of shape ", v.shape(),
                        " is read after it was written in another way than by itself: through a "
                        "view, or by the host")};
    return it->second;
  }
  const int there = p->data ? trace_.value_at(p->data, p->geometry) : -1;
  if (there >= 0 && trace_.values[size_t(there)].version == p->cell->version) return hold(p, there);
  for (const TracedValue& v : trace_.values)
    if (v.tensor.impl()->storage == p->storage && p->data && !v.constant && v.name.empty())
      throw Refusal{str("[onnx::save] a tensor of shape ", shape_of(p->geometry),
                        " is a view that no operator made")};
  return source(p);
}

void Recorder::begin_op(const profiler::Range& r) {
  TracedOp op{r.op, describe_place(frame_of(r.frame)), module_path_of(r.mode_id)};
  for (int i = 0; i < r.n_operands; ++i) op.operands.push_back(value_of(r.operands[i]->impl()));
  if (r.op->in_place && !op.operands.empty()) {
    TracedValue& v = trace_.values[size_t(op.operands[0])];
    if (!own_.contains(v.tensor.impl()->storage))
      return fail(
          "a tensor that was there before is written (running statistics in training mode?)", r);
    if (v.producer < 0) v.old = elements_of(v.tensor.impl());
  }
  open_.push_back(std::move(op));
}

void Recorder::begin_kernel(const profiler::Range& r) {
  if (kernel_depth_++ || open_.empty()) return;
  open_.back().kernels.push_back(traced_kernel(r.name, r.args));
}

void Recorder::note_result(const OpInfo& info, const TensorImpl* out, int k) {
  TracedOp& op = open_.back();
  if (op.info != &info) return;
  bool constant = true;
  for (const int v : op.operands) constant &= trace_.values[size_t(v)].constant;
  const int v = add(out);
  trace_.values[size_t(v)].constant = constant;
  if (op.results.size() <= size_t(k)) op.results.resize(size_t(k) + 1, -1);
  op.results[size_t(k)] = v;
}

// While it stands, what the host would see or draw is refused; work runs nevertheless.
class CaptureScope {
 public:
  explicit CaptureScope(Device d) : capture_{d, mode.native_stream, nullptr, true} {
    if (mode.capture) throw UsageError("[onnx::save] inside a capture: save outside of it");
    if (wt::detail::result_watch)
      throw UsageError("[onnx::save] while a run is recorded: save outside");
    mode.capture = &capture_;
  }
  ~CaptureScope() {
    mode.capture = nullptr;
    wt::detail::result_watch = nullptr;
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  const std::string& broken() const { return capture_.broken; }

 private:
  wt::detail::Capture capture_;
};

}  // namespace

int Trace::value_at(const void* data, const Geometry& g) const {
  for (size_t v = values.size(); v-- > 0;)
    if (same_place(values[v].tensor.impl(), data, g)) return int(v);
  return -1;
}

std::vector<char> elements_of(const TensorImpl* p) {
  const Geometry& g = p->geometry;
  const i64 item = item_size(g.dtype), span = span_of(g);
  std::vector<char> from(size_t(span * item)), to(size_t(g.numel * item));
  if (span) copy_bytes(from.data(), Device::cpu(), p->data, device_of(p), span * item);
  if (g.dense || g.numel == 0) return from;
  i64 at[kMaxDims] = {}, offset = 0;
  for (i64 i = 0; i < g.numel; ++i) {
    std::memcpy(to.data() + i * item, from.data() + offset * item, size_t(item));
    for (int d = g.ndim; d-- > 0;) {
      offset += g.strides[d];
      if (++at[d] < g.shape[d]) break;
      offset -= g.shape[d] * g.strides[d];
      at[d] = 0;
    }
  }
  return to;
}

Trace trace(const Function& f, const std::vector<Tensor>& inputs, const Names& names) {
  Trace t;
  Recorder recorder(t, names);
  const NoGrad no_grad;
  for (size_t i = 0; i < inputs.size(); ++i)
    t.inputs.push_back(recorder.add_input(inputs[i], int(i)));
  std::vector<Tensor> results;
  {
    const CaptureScope capturing(inputs[0].device());
    const profiler::ObserverScope watch(recorder);
    wt::detail::result_watch = &recorder;
    results = f(inputs);
    if (!capturing.broken().empty()) throw UsageError(capturing.broken());  // f has swallowed it
  }
  if (!recorder.failed().empty()) throw UsageError(recorder.failed());
  for (const Tensor& r : results) {
    if (!r.defined()) throw UsageError("[onnx::save] the function returns an undefined tensor");
    try {
      t.results.push_back(recorder.value_of(r.impl()));
    } catch (const Refusal& why) {
      throw UsageError(why.why);
    }
  }
  return t;
}

}  // namespace wt::onnx
