// One access of a warp as a picture: which lane asks for which sector of device memory, or which
// banks of shared memory are busy in which pass. Elements of SVG; colours are the page's.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"
#include "warptape/tools/wt/look/source_counts.h"

namespace wt::tools {

constexpr int kSectorBytes = 32, kBanks = 32, kBankBytes = 4;

// A sector that a request asks for, and which lanes do.
struct PicturedSector {
  u64 offset = 0;  // from the request's first sector
  u32 lanes = 0;   // a bit each
  u32 bytes = 0;   // that are asked for, a bit each
};
std::vector<PicturedSector> sectors_of(const SimtRequest& r, unsigned bytes);

// A word of a bank that is served in a pass, and the lanes that get it.
struct PicturedWord {
  u64 word = 0;  // from the beginning of the block's shared memory
  u32 lanes = 0;
};
struct PicturedPass {
  std::vector<PicturedWord> banks;  // no lanes: the bank rests
  bool conflict = false;            // that lanes wait for: a bank has two words to give
};
// Accesses of 8 bytes go by half warps, of 16 by quarters, each of which takes a pass or more.
std::vector<PicturedPass> passes_of(const SimtRequest& r, unsigned bytes, bool atomic);

// <svg>, of device or shared memory.
std::string access_picture(const LineAccess& a);

}  // namespace wt::tools
