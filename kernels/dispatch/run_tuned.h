// What `run` makes of a tune file (kernels/dispatch/run_tune_file.h): of the rows of one contract
// and dtype those count whose `bytes()` are nearest. The file of a cuda device lies in the user's
// cache folder under the device's name; WT_TUNE=FILE takes another one, for simt too, and
// WT_TUNE=off none. Host code only.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/mode.h"
#include "warptape/kernels/contract.h"

namespace wt {

namespace detail {

// What is known of a contract and dtype at one size. Names of variants.
struct TunedSize {
  double log_bytes;
  std::vector<std::string> fastest;  // of the right ones, the fastest first
  std::vector<std::string> off;      // never chosen, whatever their rank
};
// Whether any tune file may be in force: then every launch asks.
bool may_be_tuned();
// Null: nothing is known. The first call for a device reads its file; one that cannot be used is
// named once on stderr (WT_TUNE: throws).
const TunedSize* tuned_size(const char* contract, Device d, DType t, double bytes);
[[noreturn]] void all_variants_off(const char* contract, Device d);
// For tests: forgets what was read; this thread looks again.
void forget_tuning();

// An operand that is a number is an empty view.
template <int N>
DType first_dtype(const View (&views)[N]) {
  for (const View& v : views)
    if (v) return v.dtype();
  return DType::u8;
}
// The dtype that arguments are told apart by; u8 where they have none.
template <class Args>
DType args_dtype(const Args& a) {
  if constexpr (requires { DType(a.dtype); })
    return a.dtype;
  else if constexpr (requires { a.shape.dtype; })
    return a.shape.dtype;
  else if constexpr (requires { a.scores.q; })
    return a.scores.q.dtype();
  else if constexpr (requires { a.x.dtype(); })
    return a.x.dtype();
  else if constexpr (requires { a.in.dtype(); })
    return a.in.dtype();
  else if constexpr (requires { a.in[0].dtype(); })
    return first_dtype(a.in);
  else if constexpr (requires { a.a.dtype(); })
    return a.a.dtype();
  else if constexpr (requires { a.logits.dtype(); })
    return a.logits.dtype();
  else if constexpr (requires { a.log_probs.dtype(); })
    return a.log_probs.dtype();
  else if constexpr (requires { a.gy.dtype(); })
    return a.gy.dtype();
  else if constexpr (requires { a.gx.dtype(); })
    return a.gx.dtype();
  else if constexpr (requires { a.gout.dtype(); })
    return a.gout.dtype();
  else if constexpr (requires { a.weight.dtype(); })
    return a.weight.dtype();
  else if constexpr (requires { a.source.dtype(); })
    return a.source.dtype();
  else if constexpr (requires { a.out.dtype(); })
    return a.out.dtype();
  else
    return DType::u8;
}

}  // namespace detail
}  // namespace wt
