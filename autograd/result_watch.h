// Who looks at what the operators and backward nodes of this thread have made: record::Recorder.
// Asked for where a profiler observer is registered alone, so that nothing else pays for it, and so
// that profiler::Observer has said before which operator or node it is. Internal.
#pragma once
#include "warptape/core/op_info.h"
#include "warptape/core/types.h"

namespace wt {

struct Node;
struct TensorImpl;

namespace detail {

class ResultWatch {
 public:
  virtual ~ResultWatch() = default;
  // Output k of the operator whose range is this thread's innermost: computed, or queued to be.
  virtual void result(const OpInfo& op, const TensorImpl* out, int k) noexcept = 0;
  // What has reached input i of node n so far, n's own share with it; sum: others' shares too.
  virtual void gradient(const Node* n, int i, const TensorImpl* g, bool sum) noexcept = 0;
};
extern constinit thread_local ResultWatch* result_watch;  // null: nobody

}  // namespace detail
}  // namespace wt
