#include "warptape/tools/grade/launchers.h"

#include "warptape/tools/grade/contracts.h"

// For simt, or compiled with WT_GRADE_CUDA for what nvcc made of the same file.
#if defined(WT_GRADE_CUDA)
#define WT_TABLE(contract) contract##_on_cuda
#else
#define WT_TABLE(contract) contract##_on_simt
#endif

// A student's file defines the table of one contract, as a file of kernels/ does. The others' are
// then null.
namespace wt {
#define WT_MAYBE(contract, ...) \
  extern const Variants<__VA_ARGS__> WT_TABLE(contract) __attribute__((weak));
WT_GRADED_CONTRACTS(WT_MAYBE)
#undef WT_MAYBE
}  // namespace wt

namespace wt::grade {
namespace {

Device graded_device() {
#if defined(WT_GRADE_CUDA)
  return Device::cuda(0);
#else
  return Device::simt();
#endif
}

// Table: gives the address of the table, null if there is none.
template <class Args, auto Table>
struct Of {
  static int count() {
    const Variants<Args>* const table = Table();
    return table ? table->count : 0;
  }
  static const Variant<Args>& row(int i) { return Table()->rows[i]; }
  static VariantFacts facts(int i) { return {row(i).name, row(i).rank, row(i).deterministic}; }
  static const char* refusal(int i, const Case& c, const View* v) {
    return wt::refusal(row(i), ArgsOf<Args>::make(c, v), graded_device());
  }
  static i64 workspace(int i, const Case& c, const View* v) {
    return row(i).workspace ? row(i).workspace(ArgsOf<Args>::make(c, v)) : 0;
  }
  static void launch(int i, const Case& c, const View* v, const Launch& l) {
    row(i).launch(ArgsOf<Args>::make(c, v), l);
  }
};

template <class Args, auto Table>
constexpr Launcher of(const char* contract) {
  using O = Of<Args, Table>;
  return {contract, O::count, O::facts, O::refusal, O::workspace, O::launch};
}

constexpr Launcher kLaunchers[] = {
#define WT_ROW(contract, ...) of<__VA_ARGS__, [] { return &WT_TABLE(contract); }>(#contract),
    WT_GRADED_CONTRACTS(WT_ROW)
#undef WT_ROW
};

}  // namespace

int launcher_count() { return kNumContracts; }
const Launcher& launcher(int contract) { return kLaunchers[contract]; }

}  // namespace wt::grade
