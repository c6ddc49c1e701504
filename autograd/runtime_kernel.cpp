#include "warptape/autograd/runtime_kernel.h"

#include <map>
#include <mutex>
#include <optional>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/input_file.h"
#include "warptape/core/profiler.h"
#include "warptape/core/slices.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/jit/kernel.h"

namespace wt {

struct RuntimeKernel::State {
  jit::KernelSource source;
  std::string arch, title;
  std::mutex mutex{};
  unsigned long long generation = 0;
  std::map<int, const jit::LoadedKernel*> by_device{};  // by index

  const jit::LoadedKernel& kernel(Device d) {
    const std::lock_guard lock(mutex);
    if (const auto now = jit::kernel_generation(); generation != now)
      by_device.clear(), generation = now;
    const jit::LoadedKernel*& k = by_device[d.index];
    if (k) return *k;
    detail::not_in_a_graph(title.c_str(),
                           "it is compiled first, which takes a launch or prepare() before");
    return *(k = &jit::kernel_for(source, arch, d));
  }
};

namespace {

// What is wrong with a launch, all of it.
class Faults {
 public:
  explicit Faults(const std::string& title) : title_(title) {}
  void add(const std::string& what) { text_ += (text_.empty() ? "" : "; ") + what; }
  void throw_if_any() const {
    if (!text_.empty()) throw UsageError(str("[", title_, "] ", text_, at_line()));
  }

 private:
  const std::string& title_;
  std::string text_;
};

std::string text_of(const KernelDims& d) { return str("(", d.x, ", ", d.y, ", ", d.z, ")"); }

jit::Grid grid_of(const KernelLaunch& l, i64 most_shared, Faults& faults) {
  constexpr i64 kMostX = (i64{1} << 31) - 1, kMostYZ = 65535, kMostThreads = 1024, kMostZ = 64;
  const KernelDims &b = l.blocks, &t = l.threads;
  if (b.x < 1 || b.y < 1 || b.z < 1 || b.x > kMostX || b.y > kMostYZ || b.z > kMostYZ)
    faults.add(str("blocks ", text_of(b), ", of which there are 1 to (", kMostX, ", ", kMostYZ,
                   ", ", kMostYZ, ")"));
  const auto fits = [](i64 n, i64 most) { return n >= 1 && n <= most; };
  if (!fits(t.x, kMostThreads) || !fits(t.y, kMostThreads) || !fits(t.z, kMostZ) ||
      t.x * t.y * t.z > kMostThreads)
    faults.add(str("threads ", text_of(t), ", of which a block has 1 to (", kMostThreads, ", ",
                   kMostThreads, ", ", kMostZ, ") and ", kMostThreads, " in all"));
  if (l.shared < 0 || l.shared > most_shared)
    faults.add(
        str(l.shared, " bytes of shared memory, of which a block has at most ", most_shared));
  return {{unsigned(b.x), unsigned(b.y), unsigned(b.z)},
          {unsigned(t.x), unsigned(t.y), unsigned(t.z)},
          size_t(l.shared)};
}

// What of the ambient state a launch beside the tape cannot follow.
void check_tensor(const std::string& title, int i, const TensorImpl* p, bool is_written) {
  detail::refuse_slices(title.c_str(), p, {});
  const auto fail = [&](const std::string& what) {
    throw UsageError(str("[", title, "] argument ", i, " ", what, at_line()));
  };
  if (!p->geometry.dense)
    fail("is not contiguous, and a kernel sees a pointer alone\n  Try .contiguous()");
  if (mode.grad && p->node)
    fail(str("requires grad, and the tape does not see what a kernel ",
             is_written ? "writes" : "reads",
             "\n  Try a custom operator (autograd/custom.h), .detach() or NoGrad"));
}

void begin_launch(const std::string& title, const TensorImpl* p) {
  if (process_slow.load(std::memory_order_relaxed) & ~u32(kSlowObserved | kSlowSlices))
    detail::prepare_operand(p);
  if (mode.capture && !mode.capture->memory)
    detail::not_in_a_graph(title.c_str(), "a file has kernels of the library alone");
}

}  // namespace

RuntimeKernel::RuntimeKernel(std::string source, std::string name, RuntimeKernelOptions o)
    : state_(std::make_shared<State>()) {
  state_->title = "kernel " + printable(name);
  state_->source = {std::move(source), std::move(name), std::move(o.options)};
  state_->arch = std::move(o.arch);
}

const std::string& RuntimeKernel::name() const { return state_->source.name; }

RuntimeKernel::Stats RuntimeKernel::stats() {
  const jit::Counts c = jit::counts();
  return {c.compiled, c.memory_hits, c.disk_hits};
}

void RuntimeKernel::prepare(Device d, Frame at) const {
  const FrameScope line(at);
  if (d.kind != DeviceKind::cuda || d.is_meta)
    throw PlacementError(
        str("[", state_->title, "] it runs on cuda, and the device is ", to_string(d), at_line()));
  state_->kernel(d);
}

void RuntimeKernel::launch(const KernelLaunch& l, std::initializer_list<KernelArgument> arguments,
                           Frame at) const {
  const FrameScope line(at);
  const std::string& title = state_->title;
  require_available(Device::cuda());
  std::optional<Device> found;
  int i = 0;
  for (const KernelArgument& a : arguments) {
    ++i;
    if (!a.is_tensor_) continue;
    if (!a.tensor_.defined())
      throw UsageError(str("[", title, "] argument ", i,
                           " is an undefined tensor; a pointer to nothing is nullptr", at_line()));
    const TensorImpl* const p = a.tensor_.impl();
    const Device d = device_of(p);
    if (d.kind != DeviceKind::cuda || d.is_meta || (found && !(*found == d)))
      throw PlacementError(
          str("[", title, "] argument ", i, " is on ", to_string(d),
              found ? ", one before on " + to_string(*found) : ", and the kernel runs on cuda",
              at_line()));
    found = d;
    check_tensor(title, i, p, a.written_);
  }
  const Device d = found.value_or(mode.default_device.kind == DeviceKind::cuda ? mode.default_device
                                                                               : Device::cuda());
  const jit::LoadedKernel& kernel = state_->kernel(d);

  Faults faults(title);
  const jit::Grid grid = grid_of(l, device_limits(d).shared_bytes, faults);
  const std::vector<size_t>& wanted = kernel.parameters;
  if (wanted.size() != arguments.size())
    faults.add(str("it has ", wanted.size(), " parameters, and ", arguments.size(),
                   " arguments are given"));
  std::vector<u64> values;
  double bytes = 0;
  for (const KernelArgument& a : arguments) {
    const size_t n = values.size();
    if (n < wanted.size() && wanted[n] != a.bytes_)
      faults.add(str(
          "argument ", n + 1, " has ", a.bytes_, " bytes, the parameter ", wanted[n],
          a.floating_ && a.bytes_ == 8 && wanted[n] == 4 ? " (2.0f is a float, 2.0 is not)" : ""));
    const TensorImpl* const p = a.is_tensor_ ? a.tensor_.impl() : nullptr;
    values.push_back(p ? reinterpret_cast<u64>(p->data) : a.value_);
    if (p) bytes += double(p->geometry.numel * item_size(p->geometry.dtype));
  }
  faults.throw_if_any();

  for (const KernelArgument& a : arguments)
    if (a.is_tensor_) begin_launch(title, a.tensor_.impl());
  void* const stream = detail::native_stream(d);
  std::optional<profiler::RangeScope> range;
  if (process_slow.load(std::memory_order_relaxed) & kSlowObserved) {
    profiler::follow_observers();
    range.emplace(profiler::Range{.kind = profiler::Kind::kernel,
                                  .name = kernel.name,
                                  .variant = "runtime",
                                  .op = mode.op,
                                  .frame = mode.frame,
                                  .mode_id = mode.id,
                                  .device = d,
                                  .stream = stream,
                                  .bytes = bytes});
  }
  // Before the launch, which may have begun when it throws.
  for (const KernelArgument& a : arguments)
    if (a.written_) a.tensor_.impl()->cell->wrote(mode.frame);
  jit::launch(kernel, grid, values, d, stream);
}

}  // namespace wt
