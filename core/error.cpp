#include "warptape/core/error.h"

namespace wt {

void internal_assert_failed(const char* what, const char* file, int line) {
  throw InternalError(
      str("this must hold and does not: ", what, " (", file, ":", line, "); please report it"));
}

}  // namespace wt
