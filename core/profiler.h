// Who wants to watch: an observer hears of every operator, backward node, kernel launch, allocation
// and release of the process. Without one, nothing of this costs anything.
//
//   struct Trace : profiler::Observer {
//     void begin(const profiler::Range& r) noexcept override { rows.push_back(r.title()); }
//     ...
//   };
//   Trace trace;
//   const profiler::ObserverScope watch(trace);
//   y.backward();                        // "conv2.matmul.backward <- net.cpp:57"
//
// Ranges nest on each thread and end in reverse order, also when an error unwinds them. On cuda a
// range is the host's: what it queued ends later, on `stream`.
#pragma once
#include <memory>
#include <string>

#include "warptape/core/device.h"
#include "warptape/core/frame.h"
#include "warptape/core/mode.h"
#include "warptape/core/op_info.h"

namespace wt {

struct Storage;
namespace detail {
struct GraphKernels;  // core/graph/graph_kernels.h
}

namespace profiler {

enum class Kind : u8 {
  op,        // from the prologue to the end of the operator
  backward,  // a node's backward
  kernel,    // the launch of a variant (on cpu and simt: its run), and of a whole graph: "graph"
  user       // range("name") of core/profile.h
};

struct Range {
  Kind kind;
  const char* name;             // the operator's, the contract's, or the user's
  const char* variant;          // kernels: the variant's name; else null
  const OpInfo* op;             // null for kernels outside operators and for users' ranges
  FrameId frame;                // the user's line; 0: unknown
  u32 mode_id;                  // module_path_of(mode_id)
  Device device;                // meta where only shapes are made: kernels are not launched there
  void* stream;                 // a cudaStream_t; null: the default stream
  double bytes = 0, flops = 0;  // kernels: of the contract
  const void* args = nullptr;   // kernels: the contract's arguments, while begin() looks at them
  // The tape's: an operator that recorded a node (known to end() alone) and that node's backward
  // have one number. 0: none.
  u64 node = 0;
  const In* const* operands = nullptr;  // operators: what they were given, while begin() looks
  int n_operands = 0;
  bool left_open = false;  // users' ranges, at end(): what was around it ended first
  // A replay: what the graph was captured of, null in it: not known. Internal.
  const std::shared_ptr<const detail::GraphKernels>* graph = nullptr;
  // "conv2.matmul.backward <- net.cpp:57"; kernels: "matmul:tiled <- net.cpp:57".
  WT_API std::string title() const;
};

struct Memory {
  Device device;
  i64 bytes;
  const void* storage;  // the same for the allocation and its release
  Category category;
  const OpInfo* owner;  // the operator that asked for it; null: none
  u32 mode_id;
};

// The functions are called on the thread where it happens, must not throw, and must not call
// operators.
class WT_API Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const Range&) noexcept {}
  virtual void end(const Range&) noexcept {}
  virtual void allocated(const Memory&) noexcept {}
  virtual void released(const Memory&) noexcept {}
};

// Registers an observer for all threads; up to four at a time, else UsageError. It gets the end of
// those ranges only whose begin it got, and of another thread's allocations from that thread's next
// operator on. End the scope when no other thread runs operators.
class WT_GUARD ObserverScope {
 public:
  [[nodiscard]] explicit ObserverScope(Observer& o);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  int place_;
};

// --- for the library ---
// Makes this thread's slow bits agree with whether anybody watches.
void follow_observers();
void allocated(const Storage* s, Device d, i64 bytes);
void freed(const Storage* s);
void begin(const Range& r);
// Of the thread's innermost range that is the library's; users' ranges inside of it end with it.
void end();
void end_op(const OpInfo& operation);  // if that one is this operator's
// Of a user's range, which may be left open and ends with all that was begun inside of it. Its
// number is unique; 0: nobody watches. Ending one that has ended does nothing.
u64 begin_user(const char* name, FrameId at);
WT_API void end_user(u64 number);

class RangeScope {
 public:
  explicit RangeScope(const Range& r) { begin(r); }
  ~RangeScope() { end(); }
  RangeScope(const RangeScope&) = delete;
  RangeScope& operator=(const RangeScope&) = delete;
};

}  // namespace profiler
}  // namespace wt
