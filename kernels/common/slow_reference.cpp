#include "warptape/kernels/common/slow_reference.h"

#include <string>

#include "warptape/core/op_info.h"
#include "warptape/core/str.h"
#include "warptape/core/warning.h"

namespace wt::detail {

// "direct, blas: takes f32 only; widened: takes 16-bit floats only"
static std::string reasons(const Refusal* refusals, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string_view why = refusals[i].why;
    text += refusals[i].variant;
    const bool shared = i + 1 < count && why == refusals[i + 1].why;
    text += shared ? std::string(", ") : str(": ", why, i + 1 < count ? "; " : "");
  }
  return text;
}

void tell_slow_reference(const char* contract, const OpInfo* op, double ms, const Refusal* refusals,
                         int count) {
  const std::string why = reasons(refusals, count);
  warn_once(str(contract, " ", why),
            str("[", op ? op->name : contract, "] the kernel '", contract, "' took ", i64(ms),
                " ms in its reference, the slow one, because (", why, ")"));
}

}  // namespace wt::detail
