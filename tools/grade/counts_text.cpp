#include "warptape/tools/grade/counts_text.h"

namespace wt::grade {

std::string counts_text(const std::vector<SimtKernelCounts>& kernels) {
  static const char* const kinds[] = {"load", "store", "atomic"};
  std::string text;
  for (const SimtKernelCounts& k : kernels) {
    text += str("kernel ", k.launches, " ", k.blocks, " ", k.threads, " ", k.barriers, " ", k.read,
                " ", k.written, " ", k.kernel, "\n");
    for (const SimtAccess& a : k.accesses)
      text += str("access ", kinds[int(a.kind)], " ", a.shared ? "shared" : "device", " ", a.bytes,
                  " ", a.requests, " ", a.lanes, " ", a.units, " ", a.least, " ",
                  a.where.empty() ? "?" : a.where.front(), "\n");
    for (const SimtWait& w : k.waits) text += str("wait ", w.warps, " ", w.what, "\n");
  }
  return text;
}

}  // namespace wt::grade
