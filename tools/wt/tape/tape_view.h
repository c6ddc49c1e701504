// The tape that a recipe's forward leaves behind its loss, as `wt tape` shows it. Plain data:
// nothing of it needs the graph, which a backward has used up.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"
#include "warptape/tools/wt/measure/memory_use.h"

namespace wt::tools {

// What a node keeps of one tensor.
struct TapeSaved {
  std::string tensor;  // "f32 [64, 784]"
  std::string what;    // "operand 0", "its output", "weight of fc1", "a bit an element"
  i64 bytes = 0;       // of the storage
  // The bytes are there for the backward alone, and no node before keeps the same ones.
  bool counts = false;
};

// A kernel, with how often it was launched: "matmul:tiled", 2.
struct TapeKernel {
  std::string name;
  int launches = 0;
};

struct TapeNode {
  u64 sequence = 0;  // its place in the order of the tape
  std::string op, module, line;
  std::vector<std::string> outputs{};     // "f32 [64, 256]"
  std::vector<int> inputs{};              // indices of the nodes that made its operands
  std::vector<std::string> parameters{};  // operands that are leaves, by name
  std::vector<TapeSaved> saved{};
  i64 saved_bytes = 0;  // of those that count
  std::vector<TapeKernel> forward{}, backward{};
};

struct TapeView {
  std::string recipe, device, precision;
  i64 batch = 0;
  std::vector<TapeNode> nodes{};  // the oldest first
  i64 saved_bytes() const;
};

// Runs the recipe's loss on one made-up batch of the options, and its backward. Throws what a
// training throws: UsageError for an unknown recipe, OutOfMemory.
TapeView tape_of(const MemoryJob& job);

// "matmul:tiled x2, sum:rows"
std::string kernels_text(const std::vector<TapeKernel>& kernels);
// A table for people, {"recipe", "device", "batch", "saved_bytes", "nodes"}, and the page.
std::string tape_table(const TapeView& v);
std::string tape_json(const TapeView& v);
std::string tape_page(const TapeView& v);

}  // namespace wt::tools
