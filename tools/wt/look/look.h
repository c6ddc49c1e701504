// What `wt look` shows of one launch of a variant: counts of simt, the machine code's figures
// beside them, and the model that both are held against. Plain data: whoever renders needs no
// benchmark.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warptape/kernels/simt/counters.h"

namespace wt::tools {

// A file's lines by the path that debug information has for it; none: not found.
using FindSource = std::function<std::vector<std::string>(const std::string& path)>;

// nvcc's code for this kernel, from bench/sass/sm_90a.txt.
struct LookCode {
  std::string kernel;            // as the table calls it
  int registers = 0;             // of a thread
  int stack = 0;                 // bytes of a thread's frame: spills and indexed arrays
  int load = 0, store = 0;       // widest access to device memory, in bytes
  std::string pipe;              // the busiest
  std::string mix;               // "alu:12,lsu:2": instructions of a turn of the hot loop, by pipe
  double slots = 0, flight = 0;  // issue slots a KiB; KiB of loads under way on a processor
  double products = 0;           // of the tensor cores or FMAs, in a turn of the hot loop
  struct Modelled {
    std::string gpu, bound;
    double fraction = 0;  // of a copy, or of the peak
    bool of_product = false;
  };
  std::vector<Modelled> modelled{};
};

// nvcc's PTX of a kernel with the counts of its launch on the emulated device.
struct LookPtxLine {
  double executed = 0, lanes = 0;  // by warps, and by lanes
  double requests = 0,
         units = 0;  // of memory: sectors of the device's, passes over banks of shared
  std::string file, text;
  int line = 0;
};
struct LookPtx {
  std::string kernel;
  int launches = 0;
  int registers = 0;  // of a thread, about
  std::vector<LookPtxLine> lines{};
};

struct LookKernel {
  SimtKernelCounts counts;
  std::optional<LookCode> code{};
};

struct Look {
  std::string contract, variant, shape, dtype;
  bool chosen = false;              // what `run` takes for these operands
  std::vector<std::string> also{};  // contracts of the operator that was asked for
  double bytes = 0, flops = 0;      // that the contract has to move and to compute
  std::vector<LookKernel> kernels{};
  std::vector<LookPtx> ptx{};  // none: it did not run there, and `no_ptx` says why
  std::string no_ptx{};
};

// The name that bench/sass has for a kernel that simt calls `title`: "softmax_warp<f32,1,8>" of
// "softmax_warp<float, 1, 8> [softmax]".
std::string machine_code_name(const std::string& title);

}  // namespace wt::tools
