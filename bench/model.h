// What the machine code of a kernel allows on a GPU: the rows of `wt bench model`. Nothing here is
// measured. docs/gpu_model.md has the formulas and where each constant comes from.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wt::bench {

// A row of bench/sass/sm_90a.txt.
struct MachineCode {
  std::string kernel;                          // softmax_warp<f32,4,32>
  std::string pipe;                            // the busiest
  std::string mix;                             // "alu:12,lsu:2": instructions of a turn by pipe
  double registers = 0, stack = 0, store = 0;  // of a thread; store: bytes of the widest
  double block = 0, resident = 0, load = 0, reads = 0, writes = 0, flight_kib = 0;
  double slots = 0, clocks = 0, calls = 0;           // a KiB; calls: a turn
  double products = 0, shared_loads = 0, ahead = 0;  // products 0: no product
  std::string family() const { return kernel.substr(0, kernel.find('<')); }
  std::string dtype() const;  // "" if it has none
};

struct Gpu {
  const char* name;
  int processors;
  double clock_ghz, memory_gb_s;
  double copy_gb_s() const;
};
const std::vector<Gpu>& modelled_gpus();  // H100 SXM, H200

struct Modelled {
  double fraction = 0;  // of a copy, or of the GPU's peak for products
  std::string bound;    // what keeps it there: "bytes in flight", "issue", "xu", "traffic", ...
  bool of_product = false;
};

// Throws UserError where the text is not such a table.
std::vector<MachineCode> machine_code(std::string_view table);
// The table that was committed when this program was built.
const std::vector<MachineCode>& committed_machine_code();
Modelled model(const MachineCode& code, const Gpu& gpu);

}  // namespace wt::bench
