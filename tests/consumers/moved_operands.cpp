// An operand that another operand of the same expression gave up. C++ leaves the order of arguments
// to the compiler, so this is compiled by several: in each, either the tensor was read before it
// was given up (and the result is right), or its use throws and names the line; never anything
// else.
#include <warptape/warptape.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <string>

using namespace wt;

namespace {

int failures = 0;

void fail(const char* what, const std::string& why) {
  std::cout << "FAILED: " << what << ": " << why << "\n";
  ++failures;
}

// x is an operand that was emptied by the time that the operator looks: in every order.
void throws(const char* what, int line, const std::function<void(Tensor& x)>& f) {
  for (const bool records : {false, true}) {
    Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}) * 1.0;
    if (records) x = x * tensor({1.0, 1.0}).set_requires_grad();
    const Tensor bystander = ones({2, 2});
    try {
      f(x);
      fail(what, "nothing was thrown");
    } catch (const UsageError& e) {
      const std::string text = e.what();
      if (text.find("moved from") == text.npos) fail(what, text);
      if (text.find("moved_operands.cpp:" + std::to_string(line)) == text.npos)
        fail(what, "the line is missing: " + text);
    }
    if (x.defined()) fail(what, "what was given up is still there");
    // What the operator must not have touched: a block that was freed twice comes out twice.
    const Tensor a = full({2, 2}, 5.0), b = full({2, 2}, 7.0);
    if (sum(a).item() != 20 || sum(b).item() != 28 || sum(bystander).item() != 4)
      fail(what, "other tensors changed");
  }
}
#define THROWS(...) throws(#__VA_ARGS__, __LINE__, [&](Tensor& x) { (void)(__VA_ARGS__); })

// Here the language or the library fixes what happens: sum(result) is `expected`.
void gives(const char* what, double expected, const std::function<Tensor(Tensor& x)>& f) {
  Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}) * 1.0;
  try {
    const double got = sum(f(x)).item();
    if (!(std::abs(got - expected) < 1e-4)) fail(what, "got " + std::to_string(got));
    if (x.defined()) fail(what, "what was given up is still there");
  } catch (const Error& e) {
    fail(what, e.what());
  }
}
#define GIVES(expected, ...) \
  gives(#__VA_ARGS__, expected, [&](Tensor& x) -> Tensor { return __VA_ARGS__; })

struct Twice {
  static constexpr OpInfo info{.name = "twice"};
  Tensor forward(Save&, const Tensor& a, const Tensor& b) const { return a + b; }
  Grads backward(const Saved&, const Tensor& gy) const { return {gy, gy}; }
};
struct Pair : nn::Module<Pair> {
  Tensor forward(Tensor a, Tensor b) { return a + b; }
};

}  // namespace

int main() {
  const Tensor mask = tensor({{true, false}, {false, true}}), w = ones({2, 2});
  nn::Linear fc{2, 2};
  nn::Sequential body{nn::Linear{2, 2}, nn::ReLU{}};
  Pair pair;
  Tensor target = zeros({2, 2});

  THROWS(exp(std::move(x)) - x);
  THROWS(x - exp(std::move(x)));
  THROWS(exp(std::move(x)) * x);
  THROWS(relu(std::move(x)) / x);
  THROWS(softmax(std::move(x), 0) - x);
  THROWS(x + softmax(std::move(x), 0));
  THROWS(sum(std::move(x)) + x);
  THROWS(x.t() - x * exp(std::move(x)));
  THROWS(fc(std::move(x)) + x);
  THROWS(x + fc(std::move(x)));
  THROWS(body(std::move(x)) + x);
  THROWS(std::move(x).reshape({4, 1}) + x);
  THROWS(add(exp(std::move(x)), x));
  THROWS(matmul(x, exp(std::move(x))));
  THROWS(matmul(exp(std::move(x)), std::move(x)));
  THROWS(where(mask, x, exp(std::move(x))));
  THROWS(where(mask, exp(std::move(x)), x));
  THROWS(lerp(exp(std::move(x)), w, x));
  THROWS(scaled_dot_product_attention(x, exp(std::move(x)), w));
  THROWS(mse_loss(exp(std::move(x)), x).mean());
  THROWS(mse_loss(x, exp(std::move(x))).mean());
  THROWS(layer_norm(exp(std::move(x)), {2}, sum(w, 0), x));
  THROWS(apply(Twice{}, x, exp(std::move(x))));
  THROWS(apply(Twice{}, exp(std::move(x)), x));
  THROWS(pair(exp(std::move(x)), x));
  THROWS(pair(std::move(x), x));
  THROWS(slice_scatter(x, exp(std::move(x)), 0, {}));
  THROWS(target.add_(exp(std::move(x))) + x);
  THROWS(gather(x, 0, to_dtype(exp(std::move(x)) * 0, DType::i64)));
  // Lists in braces are evaluated from left to right.
  THROWS(cat({exp(std::move(x)), x}));
  THROWS(stack({exp(std::move(x)), x}));
  THROWS(einsum("ij,jk->ik", {exp(std::move(x)), x}));
  // After the statement.
  const auto afterwards = [](Tensor& x, auto use) {
    const Tensor y = exp(std::move(x));
    return use(x);
  };
  THROWS(afterwards(x, [](Tensor& t) { return t.sum(); }));
  THROWS(afterwards(x, [](Tensor& t) { return t.reshape({4}); }));
  THROWS(afterwards(x, [](Tensor& t) { return t.data<float>(); }));
  THROWS(afterwards(x, [](Tensor& t) { return t.item(); }));

  // One tensor twice among the operands of one operator: read before it is taken.
  GIVES(0, std::move(x) - x);
  GIVES(0, x - std::move(x));
  GIVES(0, std::move(x) - std::move(x));
  GIVES(20, pair(x, std::move(x)));
  GIVES(20, cat({x, std::move(x)}));
  if (failures == 0) std::cout << "moved operands: as promised\n";
  return failures != 0;
}
