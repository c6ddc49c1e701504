// Lab 10: a tape. page.md says what these four are to do.
#include "tape.h"

namespace lab {

Saved save(const wt::Tensor& t, const std::string& op) {
  // yours: what has to be remembered so that open() can tell?
  return {.tensor = t, .op = op};
}

const wt::Tensor& open(const Saved& s) {
  // yours
  return s.tensor;
}

void on_gradient(const Var& v, Hook hook) { v->hooks.push_back(std::move(hook)); }

void backward(const Var& root) {
  const wt::NoGrad no_grad;  // what is computed here is on nobody's tape
  // yours
  (void)root;
}

}  // namespace lab
