// From what happened to what is said of it: a kind, a sentence, a line and a hint. Internal.
#pragma once
#include <optional>
#include <string>

#include "warptape/tools/wt/grade/compare.h"
#include "warptape/tools/wt/grade/compile.h"
#include "warptape/tools/wt/grade/ops.h"
#include "warptape/tools/wt/grade/session.h"
#include "warptape/tools/wt/grade/verdict.h"

namespace wt::grade {

// Why there is no program: the compiler's first error, which has file and line.
Finding of_compiler(const Compiled& c, const std::string& file);
// What the executor, or a sanitizer, said; lines are in it. `own`: the student's file.
Finding of_kernel_error(const std::string& text, const std::string& own);
// Memory that is not as it should be. `required`: of a launch that no variant may refuse.
Finding of_fault(const Fault& fault, const std::string& label, bool required);
// What a right launch was to do otherwise; nothing where it meets the demands.
std::optional<Finding> of_demands(const Demands& d, const Score& s, const std::string& label,
                                  const std::string& own);
// A launch that was not done: of every status but done, and of a process that has ended.
Finding of_failure(const Session::Reply& reply, const std::string& own, double seconds);

}  // namespace wt::grade
