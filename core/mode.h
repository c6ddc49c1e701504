// The ambient state, one struct, thread-local: what operators consult beside their arguments.
//
// Guards below change it for a scope. A worker thread gets an explicit copy (`ModeCopy`); a copied
// generator forks. Backward and recomputation restore the state a node was recorded under, by its
// interned id, with autocast off.
#pragma once
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/dtype.h"
#include "warptape/core/frame.h"
#include "warptape/core/macros.h"
#include "warptape/core/op_info.h"
#include "warptape/core/owned.h"

namespace wt {

class Generator;
class In;              // core/in.h
struct StreamState;    // core/stream.h
struct RandomLog;      // core/checkpoint_logs.h
struct Recomputation;  // autograd/checkpoint.h
class AutocastCache;   // autograd/autocast.h
class SyncGuard;       // below
namespace detail {
struct Capture;  // core/graph/graph_capture.h
}

// Who owns an allocation in memory reports.
enum class Category : u8 {
  other,
  parameter,
  gradient,
  optimizer,
  buffer,
  activation,
  workspace,
  dataset
};
inline constexpr int kNumCategories = 8;
WT_API const char* category_name(Category c);

// A module's place in the model: "head.2" is {parent "head", name "2"}. Interned, never freed.
struct ModulePath {
  const ModulePath* parent;
  const char* name;
};

// One `WT_KERNEL` entry or scope: contract -> variant. Newest first.
struct VariantOverride {
  const char* contract;
  const char* variant;
  const VariantOverride* next;
};

// Bits that send an operator through the slow prologue.
enum SlowPath : u32 {
  kSlowProfile = 1,
  kSlowAutocast = 2,
  kSlowInference = 4,
  kSlowOverride = 8,      // a VariantScope is open
  kSlowEnvironment = 16,  // WT_KERNEL is set, or this thread has not looked yet
  kSlowSaving = 32,       // a save policy or a checkpoint is in force; 128: autograd/autopilot.h
  kSlowConstant = 64,     // derivatives were taken without create_graph: operators hand the mark on
  kSlowSliced = 256,      // operands may have slices: vmap() runs, or a backward through one
};

enum class Determinism : u8 { standard, strict };  // strict: for any number of cpu threads, too

// How operators hold what their backward will read; architecture.md, "Saved". Whatever the policy,
// a slot is given back with its place in the graph, so derivatives of any order are right. What a
// policy cannot hold (a leaf, a tensor that is not dense) is kept.
enum class SavePolicy : u8 {
  keep,       // the tensor itself
  recompute,  // nothing: made again of what is saved anyway (checkpoint(): all of it runs again)
  offload,    // a copy in host memory (page-locked under cuda, copied without waiting)
  bit_mask,   // one bit an element where backward asks only whether it is positive (relu)
  invert,     // the input is computed from the output, where the operator says how: op_saving.h
};

// What a wait of the host for a device does.
enum class OnSync : u8 { allow, count, warn, error };

struct Mode {
  bool grad = true;
  bool anomaly = false;
  OnSync on_sync = OnSync::allow;  // of the innermost SyncGuard
  bool unscaled_step = false;  // a TrainStep without loss scaling runs: f16 would lose gradients
  Determinism determinism = Determinism::standard;
  Category category = Category::activation;
  DType default_dtype = DType::f32;
  DType autocast_dtype = DType::f16;
  SavePolicy save = SavePolicy::keep;
  Device default_device = {};   // of factories and of new modules' parameters
  u32 slow = kSlowEnvironment;  // SlowPath bits
  u32 id = 0;                   // interned (stream, determinism, overrides, module path)
  FrameId frame = 0;            // set while inside the library: calls made there report this line
  const OpInfo* op = nullptr;   // the operator that runs
  const In* operand = nullptr;  // its first operand, which knows the user's line
  u64 sequence = 0;             // the newest node's number on this thread
  const VariantOverride* overrides = nullptr;
  const ModulePath* module = nullptr;
  StreamState* stream = nullptr;           // null: the default stream of the device
  void* native_stream = nullptr;           // its cudaStream_t
  Generator* generator = nullptr;          // null: the global one
  RandomLog* random_log = nullptr;         // draws of a checkpoint, recorded or given again
  Recomputation* recomputation = nullptr;  // the checkpoint that runs, for the first time or again
  AutocastCache* autocast_cache = nullptr;
  SyncGuard* sync_guard = nullptr;     // the innermost one of this thread
  detail::Capture* capture = nullptr;  // this thread's work goes into a graph (core/graph.h)
};

extern constinit thread_local Mode mode;

// Why operators of every thread go through the slow prologue. Rarely written, so reading it costs
// an operator next to nothing.
enum ProcessSlow : u32 {
  kSlowStreams = 1,      // some device has more than its default stream
  kSlowDevices = 2,      // more than one cuda device is in use
  kSlowObserved = 4,     // a profiler observer is registered
  kSlowCapture = 8,      // some thread's work goes into a graph
  kSlowSlices = 16,      // some tensor has slices (core/slices.h)
  kSlowHostCopies = 256  // counted: host tensors that a device reads or writes right now
};
extern constinit std::atomic<u32> process_slow;

// --- interned mode ids ---
// Makes mode.id stand for the present (stream, determinism, overrides, module).
void intern_mode();
// Puts the fields that `id` stands for into `mode`.
void restore_mode(u32 id);
// "layer0.conv" of the module an id was recorded in; empty at top level.
std::string module_path_of(u32 id);
std::string to_string(const ModulePath* path);
// "net.cpp:57, in encoder.layers.2 (block.cpp:9)": the outermost call, the module it has come to
// and, if it is the user's own, the line `own` there. For messages of errors.
std::string describe_place(Frame own);

// --- guards ---
// Operators in the scope record nothing.
class WT_GUARD NoGrad {
 public:
  [[nodiscard]] NoGrad() : before_(mode.grad) { mode.grad = false; }
  ~NoGrad() { mode.grad = before_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};
class WT_GUARD EnableGrad {
 public:
  [[nodiscard]] explicit EnableGrad(bool on = true) : before_(mode.grad) { mode.grad = on; }
  ~EnableGrad() { mode.grad = before_; }
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool before_;
};
// NoGrad, and tensors made inside can never enter a recorded graph (saving one throws).
class WT_GUARD InferenceMode {
 public:
  [[nodiscard]] InferenceMode();
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  bool grad_before_;
  u32 slow_before_;
};
// Checks every gradient for NaN and inf during backward; the error names the forward line.
class WT_GUARD AnomalyMode {
 public:
  [[nodiscard]] AnomalyMode() : before_(mode.anomaly) { mode.anomaly = true; }
  ~AnomalyMode() { mode.anomaly = before_; }
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  bool before_;
};
// Finds what makes a training loop wait: item(), to_vector(), a copy to the cpu, synchronize(),
// reading a StepResult. Each wait of the host for a device in the scope is
//   OnSync::count  counted, by line;
//   OnSync::warn   counted, and told through the warning handler, each line once a process;
//   OnSync::error  a UsageError before it waits (what SyncGuard{} does).
// OnSync::allow, which SyncGuard{false} is too, suspends an outer guard. Work on the cpu itself is
// no wait. Guards nest; the innermost one counts. It counts the waits of its own thread: threads
// that a ModeCopy gave it to warn and throw alike, and count nothing.
class WT_GUARD SyncGuard {
 public:
  // One line of the user's program that waited.
  struct Wait {
    std::string what;  // "item"
    Device device;     // that was waited for
    Frame at;
    i64 count;
  };
  [[nodiscard]] explicit SyncGuard(OnSync on);
  [[nodiscard]] explicit SyncGuard(bool on = true)
      : SyncGuard(on ? OnSync::error : OnSync::allow) {}
  ~SyncGuard();
  SyncGuard(const SyncGuard&) = delete;
  SyncGuard& operator=(const SyncGuard&) = delete;

  // So far, with those that an error prevented.
  i64 count() const;
  // In the order of each line's first wait.
  const std::vector<Wait>& waits() const;
  // One line for each: "item waits for cuda at train.cpp:57, 20 times".
  std::string describe() const;
  void note(const char* what, Device d, Frame at);  // for the library

 private:
  OnSync on_before_;
  SyncGuard* guard_before_;
  Owned<std::vector<Wait>> waits_;
};
namespace detail {
// The host is about to wait for `d` in `what`: does what the innermost SyncGuard says. Under a
// capture it throws, naming the line, what a graph cannot hold (core/graph.h).
WT_API void before_wait(const char* what, Device d, Frame at = {});
}  // namespace detail
// Operators recorded in the scope hold what backward needs by `p`; scopes nest, the innermost one
// counts. autograd/op_saving.h has what operators offer to `recompute` and `invert`.
class WT_GUARD SaveScope {
 public:
  [[nodiscard]] explicit SaveScope(SavePolicy p);
  ~SaveScope();
  SaveScope(const SaveScope&) = delete;
  SaveScope& operator=(const SaveScope&) = delete;

 private:
  SavePolicy before_;
  bool slow_before_;
};
// Allocations in the scope belong to `c` in memory reports.
class WT_GUARD CategoryScope {
 public:
  [[nodiscard]] explicit CategoryScope(Category c) : before_(mode.category) { mode.category = c; }
  ~CategoryScope() { mode.category = before_; }
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  Category before_;
};
// The dtype of float literals, factories and integer division.
class WT_GUARD DefaultDtype {
 public:
  [[nodiscard]] explicit DefaultDtype(DType t) : before_(mode.default_dtype) {
    mode.default_dtype = t;
  }
  ~DefaultDtype() { mode.default_dtype = before_; }
  DefaultDtype(const DefaultDtype&) = delete;
  DefaultDtype& operator=(const DefaultDtype&) = delete;

 private:
  DType before_;
};
// Where factories and new modules put tensors when nothing else is said: on Device::meta() a model
// of any size is built without a byte.
class WT_GUARD DefaultDevice {
 public:
  [[nodiscard]] explicit DefaultDevice(Device d) : before_(mode.default_device) {
    mode.default_device = d;
  }
  ~DefaultDevice() { mode.default_device = before_; }
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  Device before_;
};
// Calls made in the scope report `f` as the user's line unless an outer scope already does.
class WT_GUARD FrameScope {
 public:
  [[nodiscard]] explicit FrameScope(Frame f) : before_(mode.frame) {
    if (!before_) mode.frame = intern_frame(f);
  }
  ~FrameScope() { mode.frame = before_; }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  FrameId before_;
};
// Runs `contract`'s variant `variant` in the scope, inside real training too:
// VariantScope v{"softmax_forward", "naive"}; contract "*" names every contract that lists it.
// Throws UsageError, with the near name, when no device lists such a variant.
class WT_GUARD VariantScope {
 public:
  [[nodiscard]] VariantScope(std::string_view contract, std::string_view variant);
  ~VariantScope();
  VariantScope(const VariantScope&) = delete;
  VariantScope& operator=(const VariantScope&) = delete;

 private:
  const VariantOverride* before_;
  u32 slow_before_, id_before_;
};
class WT_GUARD DeterminismScope {
 public:
  [[nodiscard]] explicit DeterminismScope(Determinism d);
  ~DeterminismScope();
  DeterminismScope(const DeterminismScope&) = delete;
  DeterminismScope& operator=(const DeterminismScope&) = delete;

 private:
  Determinism before_;
  u32 id_before_;
};
// Enters a module for error text, memory owners and profiler rows. `path` is interned by the
// module; `id_cache` remembers the mode id per entry so that a call costs no look-up.
class WT_GUARD ModuleScope {
 public:
  // The id outside in the upper half, that inside in the lower one: threads share it.
  struct Cache {
    std::atomic<u64> ids{~u64{0}};
  };
  [[nodiscard]] ModuleScope(const ModulePath* path, Cache& cache);
  ~ModuleScope() {
    mode.module = before_;
    mode.id = id_before_;
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const ModulePath* before_;
  u32 id_before_;
};
WT_API const ModulePath* intern_module_path(const ModulePath* parent, std::string_view name);

// An explicit copy of the ambient state for a worker thread: capture on the parent, one for each
// worker, `adopt()` there. The worker's generator is a fork of the parent's: independent numbers,
// and which ones depends only on the order of the copies.
class WT_API ModeCopy {
 public:
  ModeCopy();
  void adopt() const;

 private:
  Mode copy_;
  u64 seed_, fork_, rank_;
};

}  // namespace wt
