// The variants of the student's file, whatever their contract. Internal.
#pragma once
#include <string>

#include "warptape/kernels/contract.h"
#include "warptape/tools/grade/case.h"

namespace wt::grade {

struct VariantFacts {
  const char* name;
  int rank;
  bool deterministic;
};

// Of one contract; `variant` counts its rows in the file's table.
struct Launcher {
  const char* contract;
  int (*count)();  // 0: the file has no table for it
  VariantFacts (*facts)(int variant);
  const char* (*refusal)(int variant, const Case& c, const View* views);
  i64 (*workspace)(int variant, const Case& c, const View* views);
  void (*launch)(int variant, const Case& c, const View* views, const Launch& l);
};
int launcher_count();
const Launcher& launcher(int contract);

}  // namespace wt::grade
