// What the rest of the library does while a thread's work goes into a graph (core/graph.h).
// Internal.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/graph.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/mode.h"
#include "warptape/core/tensor.h"

namespace wt {

struct Storage;

// What a device kind offers for graphs; set by its runtime. All but `abandon` and `destroy` may
// throw. Between `begin` and `end` what this thread launches, copies or fills on `stream` is
// recorded and does not run.
struct GraphBackend {
  void (*begin)(Device, void* stream);
  void* (*end)(Device, void* stream);
  bool (*abandon)(Device, void* stream) noexcept;  // false: the device is lost
  void (*launch)(Device, void* graph, void* stream);
  void (*destroy)(Device, void* graph) noexcept;
  i64 (*size)(void* graph);  // launches, copies and fills in it
  // Of the capture under way on this thread, so far; less than 0: not known.
  i64 (*recorded)(Device, void* stream) noexcept;
};
// Null: the kind has no graphs.
void set_graph_backend(DeviceKind k, const GraphBackend* b);

namespace detail {

class GraphMemory;
struct KernelNotes;  // graph_kernels.h

// Of the ambient state what decides which kernels a function launches: a graph stands for its own.
struct AmbientKey {
  bool grad;
  Determinism determinism;
  SavePolicy save;
  DType autocast_dtype;
  MatmulPrecision precision;
  u32 slow;
  const VariantOverride* overrides;
  static AmbientKey now();
  friend bool operator==(const AmbientKey&, const AmbientKey&) = default;
};

// A tensor that an operator inside the graph read or wrote and that was there before.
struct OutsideTensor {
  Tensor tensor;
  const void* data;  // where it lay
  u32 version;       // when it was first met
};

// A warm-up or a capture under way on this thread; `mode.capture`.
struct Capture {
  Device device;
  void* stream;
  GraphMemory* memory;                         // null: save_graph() looks on, and the work runs
  bool recording;                              // false: a warm-up, which runs
  std::string broken{};                        // why this cannot be a graph; the first reason
  bool short_of_memory = false;                // it is what the warm-up left
  std::vector<OutsideTensor> outside{};        // tensors that are no views, each once
  std::vector<Storage*> storages{};            // under views of others, held
  std::vector<std::pair<void*, i64>> given{};  // blocks of the device's allocator, freed meanwhile
  bool noting = false;                         // its kernels, which `notes` has
  std::shared_ptr<KernelNotes> notes{};
};

// Work is being recorded: nothing runs, the host knows no values.
inline bool recording_graph() { return mode.capture && mode.capture->recording; }

// `what` is about to do what a graph cannot hold. While work is recorded this throws UsageError,
// naming operator and line, and the capture is lost; else it returns.
void not_in_a_graph(const char* what, const char* why, Frame at = {});

// Numbers are drawn on `d` by the host's count, which a replay does not move: the same.
void random_not_in_a_graph(Device d, Frame at = {});

// An operand of an operator, while kSlowCapture is set.
void note_graph_operand(const TensorImpl* p);

// Allocations of a thread with a capture on the device, and blocks that come back.
// False: not the graph's business.
bool take_from_graph(Device d, i64 bytes, void*& data);
bool give_to_graph(Device d, void* data, i64 bytes) noexcept;
// Blocks of graphs that tensors hold: while there are any, give_to_graph() must be asked.
extern constinit std::atomic<i64> graph_blocks;

// core/memory/caching_allocator.cpp: the device's allocator, past all graphs. Null: the device has
// no memory left.
void* take_device_block(Device d, i64 bytes);
void give_device_block(Device d, void* data, i64 bytes) noexcept;

}  // namespace detail
}  // namespace wt
