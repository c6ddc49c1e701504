// In and Operand: where an operand was written, what may be taken from an rvalue and what not.
#include "warptape/core/in.h"

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/memory.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
int line_of(const Tensor& t) { return int(frame_of(t.impl()->node->frame).line); }
std::string file_of(const Tensor& t) {
  const std::string text = describe_frame(t.impl()->node->frame);
  return text.substr(0, text.find(':'));
}
}  // namespace

TEST_CASE("Operands: every way to write an operator records the user's line", "[wall][operands]") {
  Tensor x = leaf({1, 2});
  const Tensor y = leaf({3, 4});
  nn::Linear fc{2, 2, {.dtype = f64}};
  const Tensor rows = x.reshape({1, 2});
  // clang-format off
  const Tensor a = x + y; const int at_a = __LINE__;
  const Tensor b = 2 + x; const int at_b = __LINE__;
  const Tensor c = -x; const int at_c = __LINE__;
  const Tensor d = relu(x); const int at_d = __LINE__;
  const Tensor e = x.reshape({2, 1}); const int at_e = __LINE__;
  const Tensor f = x[0]; const int at_f = __LINE__;
  const Tensor g = fc(rows); const int at_g = __LINE__;
  const Tensor h = fc.forward(rows); const int at_h = __LINE__;
  const Tensor i = cat({x, y}); const int at_i = __LINE__;
  const Tensor j = mse_loss(x, y.detach()).sum; const int at_j = __LINE__;
  const Tensor k = sum(x * 3.0, 0); const int at_k = __LINE__;
  const Tensor l = x[{Slice{0, 1}}]; const int at_l = __LINE__;
  const Tensor m = x.detach().set_requires_grad(); const int at_m = __LINE__;
  // clang-format on
  CHECK(line_of(a) == at_a);
  CHECK(line_of(b) == at_b);
  CHECK(line_of(c) == at_c);
  CHECK(line_of(d) == at_d);
  CHECK(line_of(e) == at_e);
  CHECK(line_of(f) == at_f);
  CHECK(line_of(g) == at_g);  // not a line of the layer
  (void)at_h;                 // forward() captures none, and says so
  CHECK(line_of(i) == at_i);
  CHECK(line_of(j) == at_j);
  CHECK(line_of(k) == at_k);
  CHECK(line_of(l) == at_l);
  CHECK(line_of(m) == at_m);
  for (const Tensor& t : {a, b, c, d, e, f, g, i, j, k, l, m}) CHECK(file_of(t) == "in_test.cpp");
}

TEST_CASE("Operands: messages show the innermost line outside the library", "[wall][operands]") {
  struct Net : nn::Module<Net> {
    nn::Sequential body = add("body", nn::Sequential{nn::Linear{3, 2}, nn::ReLU{}});
    Tensor forward(Tensor x) { return body(std::move(x)); }
  } net;
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)net(ones({1, 4})); });
  CHECK(mentions(text, "in_test.cpp:" + std::to_string(line)));
  CHECK_FALSE(text.find("layers.cpp") != text.npos);
}

TEST_CASE("Operands: what an allocation cannot do names the user's line", "[wall][operands]") {
  const Tensor x = ones({300}), few = zeros({300}, {.dtype = DType::i32});
  const auto line = [](u32 n) { return "in_test.cpp:" + std::to_string(n); };
  memory::fail_requests_above(1000);
  u32 at = 0;
  const std::string add = message_of([&] { at = __LINE__, (void)(x + 1); });
  CHECK(mentions(add, "[add]"));
  CHECK(mentions(add, line(at)));
  // A conversion on the way is an operator of its own, which has come to its end.
  memory::fail_requests_above(1300);
  const std::string promoted = message_of([&] { at = __LINE__, (void)(few + x.expand({2, 300})); });
  CHECK(mentions(promoted, "[add]"));
  CHECK(mentions(promoted, line(at)));
  memory::fail_requests_above(0);
}

TEST_CASE("Operands: a layer called by a user's layer names the user's line in there too",
          "[wall][operands]") {
  struct Inner : nn::Module<Inner> {
    nn::Sequential body = add("body", nn::Sequential{nn::LayerNorm{4}, nn::ReLU{}});
    int line = __LINE__ + 1;
    Tensor forward(Tensor x) { return body(std::move(x)); }
  };
  struct Outer : nn::Module<Outer> {
    Inner inner = add("inner", Inner{});
    Tensor forward(Tensor x) { return inner(std::move(x)); }
  } net;
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)net(ones({1, 3})); });
  CHECK(mentions(text, "\n  at in_test.cpp:" + std::to_string(line) +
                           ", in inner.body.0 (in_test.cpp:" + std::to_string(net.inner.line) +
                           ")"));
  // Once the call is over, other messages do not name it.
  CHECK_FALSE(mentions(message_of([&] { (void)relu(Tensor()); }), "inner"));
}

// tests/consumers/moved_operands.cpp has all kinds of operators, and is compiled by clang too.
TEST_CASE("Operands: one that another operand took is undefined when the operator begins",
          "[wall][operands]") {
  const LeakGuard guard;
  const auto text_of = [](const std::function<Tensor(Tensor&)>& f) {
    Tensor x = tensor({1.0, 2.0});
    const std::string text = message_of([&] { (void)f(x); });
    CHECK_FALSE(x.defined());
    return text;
  };
  const int line = __LINE__ + 1;
  const std::string text = text_of([](Tensor& x) { return exp(std::move(x)) - x; });
  CHECK(mentions(text, "[sub] operand 1 is undefined (never assigned, or moved from)"));
  CHECK(mentions(text, "in_test.cpp:" + std::to_string(line)));
  CHECK(
      mentions(text_of([](Tensor& x) { return softmax(std::move(x), 0) - x; }), "[sub] operand 1"));
  CHECK(mentions(text_of([](Tensor& x) { return add(exp(std::move(x)), std::move(x)); }),
                 "[add] operand 1"));
  CHECK(mentions(text_of([](Tensor& x) { return where(gt(ones({2}), 0), exp(std::move(x)), x); }),
                 "[where] operand 2"));
  CHECK(
      mentions(text_of([](Tensor& x) { return exp(std::move(x)) * x * 2.0; }), "[mul] operand 1"));
}

TEST_CASE("Operands: an rvalue is emptied when the operator succeeds", "[wall][operands]") {
  const LeakGuard guard;
  Tensor a = tensor({1.0, 2.0}), b = tensor({3.0, 4.0});
  const Tensor kept = b;
  const Tensor c = std::move(a) + std::move(b);
  CHECK_FALSE(a.defined());  // NOLINT
  CHECK_FALSE(b.defined());  // NOLINT
  CHECK(values(c) == Values{4, 6});
  CHECK(values(kept) == Values{3, 4});
  Tensor i = tensor({1, 2});
  const Tensor d = std::move(i) * 1.5;  // converted on the way
  CHECK_FALSE(i.defined());             // NOLINT
  CHECK(values(d) == Values{1.5, 3});
  Tensor e = tensor({1.0, 2.0});
  const Tensor f = std::move(e).reshape({2, 1});
  CHECK_FALSE(e.defined());  // NOLINT
  CHECK(f.shape() == Shape{2, 1});
}

TEST_CASE("Operands: an rvalue is untouched when its operator throws", "[wall][operands]") {
  const LeakGuard guard;
  const Tensor two = tensor({1.0, 2.0});
  Tensor a = two.clone();
  const auto intact = [&] { return a.defined() && values(a) == Values{1, 2} && a.version() == 0; };
  CHECK_THROWS_AS((void)(std::move(a) + tensor({1.0, 2.0, 3.0})), ShapeError);
  CHECK(intact());
  CHECK_THROWS_AS((void)(std::move(a) + two.to(Device::simt())), PlacementError);
  CHECK(intact());
  CHECK_THROWS_AS((void)std::move(a).view({3}), ShapeError);
  CHECK(intact());
  CHECK_THROWS_AS((void)std::move(a).matmul(tensor({1.0})), ShapeError);
  CHECK(intact());
  CHECK_THROWS_AS((void)softmax(std::move(a), 4), ShapeError);
  CHECK(intact());
  Tensor i = tensor({1, 2});  // an operand that had to be converted first
  CHECK_THROWS_AS((void)(std::move(i) + tensor({1.0, 2.0, 3.0})), ShapeError);
  CHECK((i.defined() && i.dtype() == DType::i64));
  for (u64 n = 1; n < 4; ++n) {
    memory::fail_nth_request(n);
    try {
      (void)(std::move(i) + 0.5);
      memory::fail_nth_request(0);
      break;
    } catch (const OutOfMemory&) {
      CHECK((i.defined() && values(i) == Values{1, 2}));
    }
  }
  memory::fail_nth_request(0);
}

TEST_CASE("Operands: f(std::move(x), x) takes nothing, in either order", "[wall][operands]") {
  const LeakGuard guard;
  for (const bool first : {true, false}) {
    Tensor x = tensor({1.0, 2.0, 3.0});
    const void* const home = x.impl()->data;
    const Tensor y = first ? sub(std::move(x), x) : sub(x, std::move(x));
    CHECK(values(y) == Values{0, 0, 0});
    CHECK(y.impl()->data != home);
  }
  Tensor twice = tensor({1.0, 2.0});
  CHECK(values(add(std::move(twice), std::move(twice))) == Values{2, 4});
  CHECK_FALSE(twice.defined());  // NOLINT
  twice = tensor({1, 2});
  CHECK(values(div(std::move(twice), std::move(twice))) == Values{1, 1});  // both are converted
  CHECK_FALSE(twice.defined());                                            // NOLINT
  struct Sum : nn::Module<Sum> {
    Tensor forward(Tensor a, Tensor b) { return a + b; }
  } both;
  twice = tensor({1.0, 2.0});
  CHECK(values(both(twice, std::move(twice))) == Values{2, 4});
  Tensor x = leaf({2}) * 1;
  const Tensor y = where(gt(x, 0), std::move(x), x);
  CHECK(y.item() == 2);
  Tensor v = tensor({1.0, 2.0});
  const Tensor view = v[{Slice{0, 1}}];
  const Tensor z = std::move(v) + view;  // not the same tensor, the same memory
  CHECK(values(view) == Values{1});
  CHECK(values(z) == Values{2, 3});
}

TEST_CASE("In place: an rvalue's storage is reused only if nothing else needs it",
          "[wall][operands][in_place]") {
  const LeakGuard guard;
  const auto reuses = [](Tensor x) {
    const void* const home = x.impl()->data;
    const Tensor y = relu(std::move(x));
    return y.impl()->data == home;
  };
  CHECK(reuses(ones({4})));
  CHECK(reuses(ones({2, 3}, {.device = Device::simt()})));
  const Tensor shared = ones({4});
  CHECK_FALSE(reuses(shared));           // another handle
  CHECK_FALSE(reuses(shared.detach()));  // another tensor on the storage
  CHECK_FALSE(reuses(ones({4})[{Slice{0, 2}}]));
  CHECK_FALSE(reuses(ones({2, 3}).t()));  // not dense
  float mine[4] = {-1, 2, 3, 4};
  CHECK_FALSE(reuses(from_blob(mine, {4}, borrow)));
  CHECK(mine[0] == -1);
  CHECK_FALSE(reuses(leaf({1, 2})));  // a leaf: its gradient belongs to the user's handle
  // Another dtype or shape than the output's.
  Tensor a = ones({4}), b = ones({1, 4});
  const void *const at_a = a.impl()->data, *const at_b = b.impl()->data;
  const Tensor larger = gt(std::move(a), 0), wide = std::move(b) + ones({2, 4});
  CHECK(larger.impl()->data != at_a);
  CHECK(wide.impl()->data != at_b);
  // A saved slot needs it: exp saves its output, mul its input.
  const Tensor w = leaf({1, 2});
  Tensor e = exp(w);
  const void* const at_e = e.impl()->data;
  const Tensor f = std::move(e) * 2;
  CHECK(f.impl()->data != at_e);
  Tensor g = w * 1;
  const void* const at_g = g.impl()->data;
  const Tensor h = std::move(g) * w;
  CHECK(h.impl()->data != at_g);
  sum(h).backward();
  CHECK(values(w.grad()) == Values{2, 4});
}

TEST_CASE("In place: an arena's slot is never taken for an output", "[wall][operands][arenas]") {
  Tensor p = ones({4});
  const Tensor home = zeros({64});
  VersionCell cell;
  p.rebind(home.impl()->storage, 0, &cell);
  const void* const at = p.impl()->data;
  p.fill_(3);
  const Tensor y = relu(std::move(p));
  CHECK(y.impl()->data != at);
}
