// Names of return addresses, from the symbol tables of the program's own ELF files: it need not
// have been linked with -rdynamic.
#pragma once
#include "basic.h"

namespace emu {

struct Frame {
  std::string name;  // demangled; empty: unknown
  std::string file;  // base name of the object
  u64 offset = 0;    // in the function, or in the file
};
Frame name_frame(const void* address);
// Whether the address is code of this library. False where it is part of the program (tests).
bool is_own_code(const void* address);
std::string demangled(const std::string& name);

}  // namespace emu
