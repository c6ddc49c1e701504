// The container that nvcc puts into programs: PTX and machine code for several targets.
#pragma once
#include "basic.h"

namespace emu {

// The PTX for a device of this capability: of the highest target that it runs; an architecture
// specific one (sm_90a) before the plain. Empty: there is none, and `what_there_is` says what.
std::string ptx_for(const void* fat_binary, u32 capability, std::string* what_there_is);

// Of a program compiled for separate linking (nvcc -rdc=true): the driver links a list of fat
// binaries, ended by null. One text of all their PTX; source lines are kept of the first part only.
std::string linked_ptx_for(const void* const* fat_binaries, u32 capability,
                           std::string* what_there_is);

}  // namespace emu
