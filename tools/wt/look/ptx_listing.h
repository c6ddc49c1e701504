// nvcc's PTX with counts, from the emulated device.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/look/look.h"

namespace wt::tools {

// Of what `tools/emulate --profile FILE.tsv` writes. DataError, with file and line, for other text.
std::vector<LookPtx> read_ptx_profile(const std::string& path);

// Those of the look's kernels into look.ptx, with the counts of its launches: a process launches
// each kernel more often, on the same operands.
void take_ptx(Look& look, const std::vector<LookPtx>& all);

// Instructions by what they are, in an order that does not change; those that nobody executed are
// left out.
struct PtxMix {
  std::string kind;  // "global memory", "fused multiply-add", ...
  double executed = 0;
};
std::vector<PtxMix> ptx_mix(const LookPtx& p);

// Cards for the page: all kernels, or why there is none.
std::string ptx_cards(const Look& look, const FindSource& find);

}  // namespace wt::tools
