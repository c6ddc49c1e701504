// Einsum: the text is read, then pairs of operands become matrix products.
#include "warptape/autograd/ops/einsum.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {
namespace info {
constexpr OpInfo einsum{.name = "einsum", .autocast = Autocast::lower, .composite = true};
}  // namespace info

namespace {

// A letter, or an axis of "...": kDots + its place from the right, so that they align.
using Label = int;
constexpr Label kDots = 256;
using Labels = std::vector<Label>;

bool has(const Labels& list, Label l) {
  return std::find(list.begin(), list.end(), l) != list.end();
}
std::string named(Label l) {
  return l < kDots ? str("'", char(l), "'") : str("'...' (axis ", kDots - l - 1, ")");
}

// --- the text ---
struct Text {
  std::vector<std::string> operands;
  std::string result;
  bool explicit_result = false;
};

Text split_text(const OpScope& s, std::string_view equation) {
  Text t;
  std::string part;
  bool right = false;
  const auto refuse = [&](size_t i, const char* why) {
    s.fail<UsageError>(str("'", equation[i], "' at place ", i, " of \"", equation, "\" ", why));
  };
  for (size_t i = 0; i < equation.size(); ++i) {
    const char c = equation[i];
    if (c == ' ') continue;
    if (c == '.') {
      if (equation.substr(i, 3) != "...") refuse(i, "is not part of \"...\"");
      if (part.find('.') != std::string::npos) refuse(i, "is a second \"...\" of one operand");
      part += '.';
      i += 2;
    } else if (c == '-') {
      if (right || equation.substr(i, 2) != "->") refuse(i, "is not part of one \"->\"");
      t.operands.push_back(std::move(part));
      part.clear();
      right = true;
      ++i;
    } else if (c == ',') {
      if (right) refuse(i, "is on the right of \"->\"");
      t.operands.push_back(std::move(part));
      part.clear();
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      part += c;
    } else {
      refuse(i, "is no label");
    }
  }
  t.explicit_result = right;
  if (right)
    t.result = std::move(part);
  else
    t.operands.push_back(std::move(part));
  return t;
}

// Labels of an operand's axes, `dots` of which stand for "...".
Labels labels_of(const std::string& text, int dots) {
  Labels labels;
  for (const char c : text) {
    if (c != '.') {
      labels.push_back(c);
      continue;
    }
    for (int k = dots; k-- > 0;) labels.push_back(kDots + k);
  }
  return labels;
}

// --- the plan ---
struct Plan {
  std::vector<Labels> operands;
  Labels result;
  std::map<Label, i64> sizes;  // after broadcasting
  int dots = 0;                // axes of "..."
};

void read_operand(const OpScope& s, Plan& p, const std::string& text, int k) {
  const Geometry& g = s.geometry(k);
  const bool has_dots = text.find('.') != std::string::npos;
  const int letters = int(text.size()) - int(has_dots), dots = g.ndim - letters;
  if (dots < 0 || (dots > 0 && !has_dots)) {
    std::string shown = text;
    if (has_dots) shown.replace(shown.find('.'), 1, "...");
    s.fail<ShapeError>(
        str("operand ", k, " has ", int(g.ndim), " axes, but \"", shown, "\" names ", letters));
  }
  p.dots = std::max(p.dots, dots);
  Labels labels = labels_of(text, dots);
  for (int d = 0; d < g.ndim; ++d) {
    const Label l = labels[size_t(d)];
    const i64 n = g.shape[d];
    const auto [at, is_new] = p.sizes.insert({l, n});
    // A diagonal takes no part in broadcasting: its two axes are of one size.
    const auto first = std::find(labels.begin(), labels.begin() + d, l) - labels.begin();
    if (first < d && g.shape[first] != n)
      s.fail<ShapeError>(str("label ", named(l), " has the sizes ", g.shape[first], " and ", n,
                             " in operand ", k));
    if (!is_new && at->second != n && at->second != 1 && n != 1)
      s.fail<ShapeError>(str("label ", named(l), " has size ", n, " in operand ", k, " and ",
                             at->second, " before"));
    if (at->second == 1) at->second = n;
  }
  p.operands.push_back(std::move(labels));
}

void read_result(const OpScope& s, Plan& p, const Text& t) {
  if (t.explicit_result) {
    p.result = labels_of(t.result, p.dots);
    for (size_t i = 0; i < p.result.size(); ++i) {
      const Label l = p.result[i];
      if (!p.sizes.count(l))
        s.fail<UsageError>(str("label ", named(l), " of the result is in no operand"));
      if (std::find(p.result.begin(), p.result.begin() + i64(i), l) != p.result.begin() + i64(i))
        s.fail<UsageError>(str("label ", named(l), " is twice in the result"));
    }
  } else {
    p.result = labels_of(".", p.dots);
    std::map<Label, int> times;
    for (const std::string& text : t.operands)
      for (const char c : text) ++times[c];
    for (const auto& [l, n] : times)
      if (n == 1 && l != '.') p.result.push_back(l);
  }
  if (p.result.size() > size_t(kMaxDims))
    s.fail<ShapeError>(str("the result would have ", p.result.size(), " axes, at most ", kMaxDims));
}

// --- contractions ---
struct Term {
  Tensor t;
  Labels labels;
};

// Repeated labels become diagonals; labels that nobody else has are summed over.
Term prepared(Tensor t, Labels labels, const std::function<bool(Label)>& needed) {
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t j = labels.size(); j-- > i + 1;) {
      if (labels[j] != labels[i]) continue;
      t = diagonal(std::move(t), 0, i64(i), i64(j));
      const Label l = labels[i];
      labels.erase(labels.begin() + i64(j));
      labels.erase(labels.begin() + i64(i));
      labels.push_back(l);
      i = size_t(-1);  // the axes have moved: from the start
      break;
    }
  std::vector<int> gone;
  Labels left;
  for (size_t d = 0; d < labels.size(); ++d)
    needed(labels[d]) ? left.push_back(labels[d]) : gone.push_back(int(d));
  const DType dtype = t.dtype();
  if (!gone.empty()) t = to_dtype(sum(std::move(t), gone), dtype);  // i32 stays i32
  return {std::move(t), std::move(left)};
}

i64 product(const Plan& p, const Labels& labels) {
  i64 n = 1;
  for (const Label l : labels) n = checked_mul(n, p.sizes.at(l));
  return n;
}
// The axes in the order of `labels`, size-1 axes of labels that have more repeated.
Tensor arranged(const Plan& p, const Term& x, const Labels& labels) {
  std::vector<int> order;
  Shape shape;
  for (const Label l : labels) {
    order.push_back(int(std::find(x.labels.begin(), x.labels.end(), l) - x.labels.begin()));
    shape.push_back(p.sizes.at(l));
  }
  Tensor t = permute(x.t, order);
  return t.shape() == shape ? t : expand(std::move(t), shape);
}
Labels joined(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// One product: labels of both operands that are still needed count matrices, those that are not are
// the dimension that is summed over.
Term contracted(const OpScope& s, const Plan& p, const Term& a, const Term& b,
                const std::function<bool(Label)>& needed) {
  Labels batch, inner, left, right;
  for (const Label l : a.labels)
    (!has(b.labels, l) ? left : needed(l) ? batch : inner).push_back(l);
  for (const Label l : b.labels)
    if (!has(a.labels, l)) right.push_back(l);
  const Labels result = joined(batch, left, right);
  if (result.size() > size_t(kMaxDims))
    s.fail<ShapeError>(
        str("a product of two operands would have ", result.size(), " axes, at most ", kMaxDims));
  Shape shape;
  for (const Label l : result) shape.push_back(p.sizes.at(l));
  const i64 n = product(p, batch), m = product(p, left), k = product(p, inner),
            c = product(p, right);
  if (inner.empty()) {  // nothing to add up
    const Tensor x = reshape(arranged(p, a, joined(batch, left, {})), {n, m, 1});
    const Tensor y = reshape(arranged(p, b, joined(batch, right, {})), {n, 1, c});
    return {reshape(mul(x, y), shape), result};
  }
  Tensor x = arranged(p, a, joined(batch, left, inner));
  Tensor y = arranged(p, b, joined(batch, inner, right));
  const bool one = batch.empty();
  x = reshape(std::move(x), one ? Shape{m, k} : Shape{n, m, k});
  y = reshape(std::move(y), one ? Shape{k, c} : Shape{n, k, c});
  return {reshape(matmul(std::move(x), std::move(y)), shape), result};
}

// More than one step: what lies between them should not be rounded to 16 bits.
bool has_steps(const Plan& p) {
  if (p.operands.size() != 2) return p.operands.size() > 2;
  for (int k = 0; k < 2; ++k)
    for (const Label l : p.operands[size_t(k)])
      if (!has(p.operands[size_t(1 - k)], l) && !has(p.result, l)) return true;
  return false;
}

Tensor evaluated(const CompositeScope& s, const Plan& p) {
  const DType wide = item_size(s.dtype()) == 2 && has_steps(p) ? DType::f32 : s.dtype();
  const auto operand = [&](size_t k) { return to_dtype(s.operand(int(k)), wide); };
  // Whether the result or an operand from `from` on names the label.
  const auto later = [&](Label l, size_t from) {
    for (size_t i = from; i < p.operands.size(); ++i)
      if (has(p.operands[i], l)) return true;
    return has(p.result, l);
  };
  Term all = prepared(operand(0), p.operands[0], [&](Label l) { return later(l, 1); });
  for (size_t i = 1; i < p.operands.size(); ++i) {
    const Term next = prepared(operand(i), p.operands[i],
                               [&](Label l) { return has(all.labels, l) || later(l, i + 1); });
    all = contracted(s, p, all, next, [&](Label l) { return later(l, i + 1); });
    // What only the product so far had and nobody needs any more.
    all =
        prepared(std::move(all.t), std::move(all.labels), [&](Label l) { return later(l, i + 1); });
  }
  return to_dtype(arranged(p, all, p.result), s.dtype());
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands, Frame at) {
  if (operands.empty()) throw UsageError(str("[einsum] no tensors given\n  at ", describe(at)));
  std::deque<In> in;
  std::vector<const In*> pointers;
  for (const Tensor& t : operands) in.emplace_back(t, at.file, at.line);
  for (const In& i : in) pointers.push_back(&i);
  CompositeScope s(info::einsum, pointers.data(), int(operands.size()), Types::same);
  const DType t = s.dtype();
  if (!computes(t) || t == DType::u8 || t == DType::boolean)
    s.fail<DtypeError>(str("has no products of ", dtype_name(t)), ".to(f32) or .to(i64)");
  const Text text = split_text(s, equation);
  if (text.operands.size() != operands.size())
    s.fail<UsageError>(str("\"", equation, "\" has ", text.operands.size(), " operands, ",
                           operands.size(), " are given"));
  Plan p;
  for (int k = 0; k < s.size(); ++k) read_operand(s, p, text.operands[size_t(k)], k);
  read_result(s, p, text);
  Tensor y = evaluated(s, p);
  // Nothing was computed: the result must not be the operand, nor see its storage.
  for (const Tensor& x : operands)
    if (y.impl()->storage == x.impl()->storage) {
      y = clone(y);
      break;
    }
  return s.finish(std::move(y));
}
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands, Frame at) {
  return einsum(equation, std::span(operands.begin(), operands.size()), at);
}

namespace detail {
OpInfos einsum_ops() {
  static constexpr const OpInfo* kOps[] = {&info::einsum};
  return kOps;
}
}  // namespace detail

}  // namespace wt
