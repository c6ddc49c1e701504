// Which kernels a graph holds, in the order of its nodes: what a profile calls the work of a
// replay, which the host sees as one launch. Internal.
#pragma once
#include <memory>
#include <vector>

#include "warptape/core/profiler.h"

namespace wt {

struct GraphBackend;

namespace detail {

struct Capture;

// A kernel of a contract, as it was launched while the graph was captured.
struct GraphKernel {
  const char* name;
  const char* variant;
  const OpInfo* op;  // null: outside of operators
  bool backward;     // in a node's backward
  DType dtype;       // of its operator's first operand
  FrameId frame;
  u32 mode_id;
  double bytes, flops;
  i64 first, last;  // its nodes, [first, last): a contract may launch several
};
struct GraphKernels {
  i64 nodes = 0;  // of the graph, also those of no kernel of ours
  std::vector<GraphKernel> list{};
};

// What a capture has heard so far. A capture is of one stream, so its nodes are a chain, and the
// number of nodes that there are says which ones a launch has added.
struct KernelNotes {
  struct Around {
    profiler::Kind kind;
    DType dtype;
    bool backward;
    size_t kernel;  // its place in the list; of other kinds nobody's
  };
  const GraphBackend& backend;
  std::vector<Around> around{};  // ranges that are open
  GraphKernels kernels{};
};

// From now on the kernels of `c`, which is recorded, are noted. Nothing where as many observers as
// there may be watch already: the replays' kernels have no names but their functions' then.
void note_kernels(Capture& c, const GraphBackend& backend);
void note_kernels_no_more(Capture& c) noexcept;

}  // namespace detail
}  // namespace wt
