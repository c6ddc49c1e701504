// What WT_EMU_* of the environment says, read once.
#pragma once
#include "basic.h"

namespace emu {

struct Settings {
  enum class Check : u8 { off, report, fail };
  Check check = Check::fail;
  std::string gpu = "h100";
  int devices = 1;
  u64 memory = u64(4) << 30;  // a device's, at most; the model's if that is less
  u64 shared = ~u64(0);       // a block's, at most; the model's if that is less
  bool eager = false;
  u64 seed = 1;
  bool order = true;  // shadow of accesses between streams
  bool leaks = false, summary = false;
  std::string trace, profile;  // files; empty: not asked for
};
// A value that is not understood ends the program: it would test something else than was asked.
const Settings& settings();

}  // namespace emu
