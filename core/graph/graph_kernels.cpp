#include "warptape/core/graph/graph_kernels.h"

#include <mutex>
#include <optional>

#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/in.h"
#include "warptape/core/tensor_impl.h"

namespace wt::detail {
namespace {

using profiler::Kind;
using profiler::Range;

void note_begin(KernelNotes& n, const Capture& c, const Range& r) {
  KernelNotes::Around a = n.around.empty() ? KernelNotes::Around{} : n.around.back();
  a.kind = r.kind;
  a.backward |= r.kind == Kind::backward;
  a.kernel = ~size_t{0};
  if (r.operands && r.n_operands > 0)
    if (const TensorImpl* p = r.operands[0]->impl()) a.dtype = dtype_of(p);
  const bool noted = r.kind == Kind::kernel && r.device == c.device;
  if (noted) a.kernel = n.kernels.list.size();
  n.around.push_back(a);
  if (!noted) return;
  const i64 at = n.backend.recorded(c.device, c.stream);
  n.kernels.list.push_back(
      {r.name, r.variant, r.op, a.backward, a.dtype, r.frame, r.mode_id, r.bytes, r.flops, at, at});
}

void note_end(KernelNotes& n, const Capture& c) {
  if (n.around.empty()) return;  // it had begun before
  const size_t kernel = n.around.back().kernel;
  n.around.pop_back();
  if (kernel < n.kernels.list.size())
    n.kernels.list[kernel].last = n.backend.recorded(c.device, c.stream);
}

// One for all captures, which is never deleted: other threads may be about to tell it something.
class Listener final : public profiler::Observer {
 public:
  void begin(const Range& r) noexcept override {
    try {
      if (KernelNotes* n = notes()) note_begin(*n, *mode.capture, r);
    } catch (...) {
      mode.capture->notes.reset();
    }
  }
  void end(const Range&) noexcept override {
    if (KernelNotes* n = notes()) note_end(*n, *mode.capture);
  }

 private:
  static KernelNotes* notes() {
    return mode.capture && mode.capture->recording ? mode.capture->notes.get() : nullptr;
  }
};

struct Watching {
  std::mutex mutex{};
  int captures = 0;
  Listener listener{};
  std::optional<profiler::ObserverScope> scope{};
};
Watching& watching() {
  static Watching* const w = new Watching;
  return *w;
}

}  // namespace

void note_kernels(Capture& c, const GraphBackend& backend) {
  if (!backend.recorded) return;
  Watching& w = watching();
  const std::lock_guard lock(w.mutex);
  try {
    if (!w.scope) w.scope.emplace(w.listener);
    c.notes = std::make_shared<KernelNotes>(KernelNotes{backend});
    c.noting = true;
    ++w.captures;
  } catch (const UsageError&) {}  // nobody else may watch
}

void note_kernels_no_more(Capture& c) noexcept {
  if (!c.noting) return;
  c.noting = false;
  Watching& w = watching();
  const std::lock_guard lock(w.mutex);
  if (--w.captures == 0) w.scope.reset();
}

}  // namespace wt::detail
