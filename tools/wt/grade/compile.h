// From a student's file to a program that launches its kernels. Internal.
#pragma once
#include <string>

#include "warptape/tools/wt/confined/process.h"
#include "warptape/tools/wt/grade/support.h"

namespace wt::grade {

struct Compiled {
  std::string program;   // its path; empty: it does not compile
  std::string output;    // what the compiler said
  bool late = false;     // it took too long
  bool absent = false;   // the parts of this flavour are not there; of nvcc output says why
  std::string borrowed;  // a kernel file of warptape that it includes
  std::string reach;     // symbols.h
};

// Compiles `file` into `folder`, whose files it may overwrite. `seconds` of processor time for
// each of compiler and linker. NotAvailable: no compiler. CheckpointError: no room in the folder.
Compiled compile_kernel(const Support& s, const std::string& file, const std::string& folder,
                        Flavour flavour, double seconds);

// The same file as a shared object, `folder`/kernel.so, for the program whose stamp this is
// (kernels/dispatch/run_kernel_file.h). Only for what was graded: nothing is looked for here.
Compiled compile_shared(const Support& s, const std::string& file, const std::string& folder,
                        const std::string& stamp, double seconds);

}  // namespace wt::grade
