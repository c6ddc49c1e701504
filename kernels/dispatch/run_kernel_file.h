// Variants from outside of the program: WT_KERNEL_FILE names a shared object of kernels for simt,
// as `wt lab check --train` makes one of a student's file, and WT_KERNEL takes variants of it by
// their names. What they do not take falls to the program's own. Internal; host code only.
#pragma once
#include <string>

#include "warptape/kernels/dispatch/run_erased.h"

namespace wt::detail {

// The words that the file's wt_kernel_file_of has to have: it was compiled for this very library.
std::string kernel_file_stamp();
// Loads it; for the life of the process. Empty, or what is wrong.
std::string load_kernel_file(const std::string& path);
// The file's variants of a contract on simt; null: none.
const ErasedContract::List* file_variants(const ErasedContract& c);
inline const void* variant_of(const ErasedContract::List& list, int row) {
  return static_cast<const char*>(list.first) + row * ErasedContract::kVariantSize;
}
// The variant of this name. Null: none, or it does not take the arguments; both are counted, and
// said on stderr when the process ends.
const void* file_variant(const ErasedContract& c, const char* name, const void* args,
                         const Device& d);

}  // namespace wt::detail
