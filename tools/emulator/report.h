// What the emulator says: findings (wrong programs), notes (why a call was refused), the trace.
// Everything is called under the runtime's lock, but for what runs in a signal handler.
#pragma once
#include "exec/launch.h"
#include "symbols.h"

namespace emu {

// Where the program called the runtime: return addresses, its own frames left out when printed.
struct CallSite {
  static constexpr int kFrames = 14;
  void* frames[kFrames];
  int count = 0;
  static CallSite here();
};
// One line a frame, "\n    at name + 0x12 (file)"; empty when nothing is known.
std::string describe(const CallSite& site);

// A finding: `head` names it (equal heads are printed twice at most, and counted), `more` is
// printed below it, indented.
void finding(const std::string& head, const std::string& more);
void finding(const KernelFault& fault, const QueuedOp& op);
// Why a call returns an error; printed once for each text, never counted.
void note(const std::string& text);

bool tracing();
void trace(const std::string& line);

struct Totals {
  u64 launches = 0, kernels = 0, warp_instructions = 0, lane_instructions = 0, copies = 0;
};
Totals& totals();

u64 findings();
void forget_findings();  // in a forked child: they are the parent's

}  // namespace emu
