// What the rows of operators in place have in common: what all of them refuse.
#pragma once
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

inline OpCase in_place_case(const std::string& op, void (*write)(Tensor&),
                            std::vector<std::string> contracts) {
  OpCase c{op, std::move(contracts), kNumbers};
  c.errors = {error_input<InplaceError>(
                  "leaf", "[" + op + "] in-place operation on a leaf that requires grad",
                  [write](Device d) {
                    Tensor x = ones({2}, {.device = d, .requires_grad = true});
                    write(x);
                  }),
              error_input<InplaceError>(
                  "expanded", "[" + op + "] several elements of the tensor share one place",
                  [write](Device d) {
                    Tensor x = ones({1, 2}, {.device = d}).expand({3, 2});
                    write(x);
                  })};
  return c;
}

}  // namespace wt_test
