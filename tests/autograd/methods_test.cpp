// Operators in method form: what they give is the function's, bit by bit, from the user's line; and
// docs/methods.md lists them all.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

// Equal, NaN included.
bool same(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || a.device() != b.device()) return false;
  const std::vector<double> x = values(a), y = values(b);
  for (size_t i = 0; i < x.size(); ++i)
    if (!(x[i] == y[i] || (x[i] != x[i] && y[i] != y[i]))) return false;
  return true;
}
bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}
template <class R>
requires requires(R r) { r.indices; }
bool same(const R& a, const R& b) { return same(a.values, b.values) && same(a.indices, b.indices); }

// One assertion for all: each costs the compiler more than the call it looks at.
template <class T>
void agree(const char* name, const T& got, const T& wanted) {
  INFO(name);
  CHECK(same(got, wanted));
}

std::string text_of(const char* file) {
  std::ifstream in(std::filesystem::path(WT_SOURCE_DIR) / file);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}
// The first group of every match.
void collect(const std::string& text, const char* pattern, std::set<std::string>& names) {
  const std::regex wanted(pattern);
  for (std::sregex_iterator m(text.begin(), text.end(), wanted), end; m != end; ++m)
    names.insert((*m)[1]);
}

}  // namespace

TEST_CASE("methods: those of the lists are the functions", "[methods]") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = tensor({{4.0, 0.5}, {0.5, 0.25}}, {.device = d}), y = x.flip(0) + 0.125;
    const Tensor n = tensor({{4, 1}, {3, 2}}, {.device = d}),
                 k = tensor({{1, 2}, {2, 1}}, {.device = d});
    const auto operand = [&](const std::string& name) { return name.starts_with("bitwise"); };
    // One seed for both: bernoulli draws.
#define WT_CHECK(name)                                                                      \
  {                                                                                         \
    const Tensor& a = operand(#name) ? n : std::string(#name) == "bernoulli" ? x / 8.0 : x; \
    manual_seed(1);                                                                         \
    const Tensor wanted = wt::name(a);                                                      \
    manual_seed(1);                                                                         \
    agree(#name, a.name(), wanted);                                                         \
  }
    WT_UNARY_METHODS(WT_CHECK)
#undef WT_CHECK
#define WT_CHECK(name)                                                     \
  {                                                                        \
    const Tensor &a = operand(#name) ? n : x, &b = operand(#name) ? k : y; \
    agree(#name, a.name(b), wt::name(a, b));                               \
    agree(#name, a.name(2), wt::name(a, 2));                               \
  }
    WT_BINARY_METHODS(WT_CHECK)
#undef WT_CHECK
#define WT_CHECK(name)                                                                           \
  {                                                                                              \
    const std::string s = #name;                                                                 \
    const Tensor a = s == "bmm" ? x.unsqueeze(0) : s == "dot" || s == "outer" ? x.flatten() : x; \
    const Tensor b = s == "bmm"                   ? y.unsqueeze(0)                               \
                     : s == "dot" || s == "outer" ? y.flatten()                                  \
                     : s == "masked_select"       ? gt(y, 1)                                     \
                     : s == "prelu"               ? y[0]                                         \
                                                  : y;                                                         \
    agree(#name, a.name(b), wt::name(a, b));                                                     \
  }
    WT_PAIR_METHODS(WT_CHECK)
#undef WT_CHECK
#define WT_CHECK(name) agree(#name, x.name(1), wt::name(x, 1));
    WT_AXIS_METHODS(WT_CHECK)
#undef WT_CHECK
#define WT_CHECK(name)                 \
  agree(#name, x.name(), wt::name(x)); \
  agree(#name, x.name(1, {.keep_dim = true}), wt::name(x, 1, {.keep_dim = true}));
    WT_REDUCTION_METHODS(WT_CHECK)
#undef WT_CHECK
  }
}

TEST_CASE("methods: those with arguments of their own are the functions", "[methods]") {
  const Tensor x = tensor({{4.0, 0.5, 2.0}, {0.5, -0.25, 1.0}}), y = x.flip(0) + 0.125;
  const Tensor places = tensor({{1, 0, 1}}), mask = gt(x, 0.75), row = tensor({1, 0});
  agree("addcdiv", x.addcdiv(y, y, {.value = 2}), addcdiv(x, y, y, {.value = 2}));
  agree("addcmul", x.addcmul(x, y), addcmul(x, x, y));
  agree("addmm", ones({2}).addmm(x, y.t(), {.beta = 2}), addmm(ones({2}), x, y.t(), {.beta = 2}));
  CHECK((x.allclose(x) && !x.allclose(y) && x.allclose(y, {.atol = 10})));
  CHECK((x.equal(x) && !x.equal(y)));
  agree("argsort", x.argsort(0, {.descending = true}), argsort(x, 0, {.descending = true}));
  agree("bincount", row.bincount(3), bincount(row, 3));
  agree("broadcast_to", x.broadcast_to({2, 2, 3}), broadcast_to(x, {2, 2, 3}));
  agree("chunk", x.chunk(2, 1), chunk(x, 2, 1));
  agree("clamp", x.clamp(0, 1), clamp(x, 0, 1));
  agree("clamp", x.clamp({.min = 0}), clamp(x, {.min = 0}));
  agree("clamp", x.clamp(y - 1, y), clamp(x, y - 1, y));
  agree("count_nonzero", mask.count_nonzero(1), count_nonzero(mask, 1));
  agree("diag", x[0].diag(1), diag(x[0], 1));
  agree("diag_embed", x.diag_embed(1), diag_embed(x, 1));
  agree("diagonal", x.diagonal(1), diagonal(x, 1));
  agree("diff", x.diff({.dim = 0}), diff(x, {.dim = 0}));
  agree("div", x.div(y, {.rounding = Rounding::floor}), floor_divide(x, y));
  CHECK(x[0].expand_as(x).shape() == x.shape());
  agree("gather", x.gather(0, places), gather(x, 0, places));
  agree("hardshrink", x.hardshrink(0.75), hardshrink(x, 0.75));
  agree("index_add", x.index_add(0, row, y, {.alpha = 2}), index_add(x, 0, row, y, {.alpha = 2}));
  agree("index_put", x.index_put({mask}, tensor(7.0)), index_put(x, {mask}, tensor(7.0)));
  agree("index_select", x.index_select(0, row), index_select(x, 0, row));
  agree("isclose", x.isclose(y, {.atol = 1}), isclose(x, y, {.atol = 1}));
  agree("kthvalue", x.kthvalue(2, 1), kthvalue(x, 2, 1));
  agree("lerp", x.lerp(y, 0.25), lerp(x, y, 0.25));
  agree("masked_fill", x.masked_fill(mask, -1e9), masked_fill(x, mask, -1e9));
  agree("max_with_indices", x.max_with_indices(1), max_with_indices(x, 1));
  agree("min_with_indices", x.min_with_indices(1), min_with_indices(x, 1));
  agree("median", x.median(1), median(x, 1));
  agree("nanmedian", x.nanmedian(1), nanmedian(x, 1));
  agree("movedim", x.movedim(0, 1), movedim(x, 0, 1));
  agree("nan_to_num", x.nan_to_num({.nan = 1}), nan_to_num(x, {.nan = 1}));
  agree("norm", x.norm(1, 1), norm(x, 1, 1));
  agree("qr", x.qr().r, qr(x).r);
  agree("quantile", x.quantile(0.3, 1, {.keep_dim = true}),
        quantile(x, 0.3, 1, {.keep_dim = true}));
  agree("repeat", x.repeat({2, 1}), repeat(x, {2, 1}));
  agree("repeat_interleave", x.repeat_interleave(2, 1), repeat_interleave(x, 2, 1));
  agree("reshape_as", x.reshape_as(x.t()), reshape(x, {3, 2}));
  agree("view_as", x.view_as(x.t()), view(x, {3, 2}));
  agree("roll", x.roll(1, 1), roll(x, 1, 1));
  agree("scatter", x.scatter(0, places, 5.0), scatter(x, 0, places, 5.0));
  agree("scatter_add", x.scatter_add(0, places, y), scatter_add(x, 0, places, y));
  agree("scatter_reduce", x.scatter_reduce(0, places, y, ScatterReduction::amax),
        scatter_reduce(x, 0, places, y, ScatterReduction::amax));
  agree("select_scatter", x.select_scatter(y[0], 0, 1), select_scatter(x, y[0], 0, 1));
  agree("slice_scatter", x.slice_scatter(y, 0, {}), slice_scatter(x, y, 0, {}));
  agree("matmul", x.matmul(y.t()).slogdet().logabsdet, slogdet(matmul(x, y.t())).logabsdet);
  agree("sort", x.sort({.descending = true}), sort(x, -1, {.descending = true}));
  agree("split", x.split(2, 1), split(x, 2, 1));
  agree("std", x.std(1, {.correction = 0}), wt::std(x, 1, {.correction = 0}));
  agree("var", x.var(1), var(x, 1));
  agree("sum_to_size", x.sum_to_size({1, 3}), sum_to(x, {1, 3}));
  agree("tile", x.tile({2}), tile(x, {2}));
  agree("topk", x.topk(2, {.largest = false}), topk(x, 2, -1, {.largest = false}));
  agree("multinomial", topk(x, 2, {.largest = false}), topk(x, 2, -1, {.largest = false}));
  agree("tril", x.tril(), tril(x));
  agree("triu", x.triu(1), triu(x, 1));
  agree("unbind", x.unbind(1), unbind(x, 1));
  agree("unique", x.unique().counts, unique(x).counts);
  agree("where", x.where(mask, 0.0), where(mask, x, 0.0));
  const Tensor wave = rand({64});
  agree("stft", wave.stft(16, {.window = hann_window(16)}),
        stft(wave, 16, {.window = hann_window(16)}));
  agree("istft", stft(wave, 16).istft(16, {}), istft(stft(wave, 16), 16));
  manual_seed(1);
  const Tensor drawn = abs(x).multinomial(5, {.replacement = true});
  manual_seed(1);
  agree("multinomial", drawn, multinomial(abs(x), 5, {.replacement = true}));
}

TEST_CASE("methods: other names, devices and dtypes", "[methods]") {
  Tensor x = ones({2, 3});
  CHECK(x.size() == Shape{2, 3});
  CHECK(x.dim() == 2);
  x.requires_grad_();
  CHECK(x.requires_grad());
  CHECK(ones({2}).requires_grad_().is_leaf());
  CHECK_FALSE(x.requires_grad_(false).requires_grad());
  for (const DType t : {f64, f16}) {
    const Tensor there = x.to(Device::simt(), t);
    CHECK(there.device() == Device::simt());
    CHECK(there.dtype() == t);
    CHECK(there.cpu().device() == Device::cpu());
    CHECK(values(there) == values(x));
  }
  CHECK(x.to(Device::cpu(), f32).same_as(x));
}

TEST_CASE("methods: errors name the user's line", "[methods]") {
  const Tensor x = ones({2, 3}), m = ones({3, 2});
  int line = 0;
  const auto at = [&] { return "methods_test.cpp:" + std::to_string(line); };
  line = __LINE__ + 1;
  CHECK(mentions(message_of([&] { (void)x.add(m.t().flatten()); }), at()));
  line = __LINE__ + 1;
  CHECK(mentions(message_of([&] { (void)x.softmax(7); }), at()));
  line = __LINE__ + 1;
  CHECK(mentions(message_of([&] { (void)x.matmul(x); }), at()));
  line = __LINE__ + 1;
  CHECK(mentions(message_of([&] { (void)x.det(); }), at()));
  line = __LINE__ + 1;
  CHECK(mentions(message_of([&] { (void)Tensor().exp(); }), at()));
}

TEST_CASE("methods: docs/methods.md lists what core/tensor.h declares", "[methods][docs]") {
  std::set<std::string> declared, listed;
  collect(text_of("core/method_list.h"), R"(\bX\((\w+)\))", declared);
  std::string text = text_of("core/tensor.h");
  text = text.substr(text.find("class WT_GUARD Tensor {"));
  text = text.substr(0, text.find("// --- internal ---"));
  const std::regex macros(R"(#define WT_METHOD[^\n]*(\\\n[^\n]*)*)");
  text = std::regex_replace(text, macros, "");
  collect(text, R"(\n  (?:WT_API )?[\w:<>]+(?: \w+)?[&*]? (\w+)\([^\n]*)", declared);
  collect(text, R"(\n  (?:WT_API )?[\w:]+\*? (\w+)\(Frame)", declared);
  collect(text, R"(WT_(?:WRITES|IN_PLACE)\((\w+),)", declared);
  declared.erase("name"), declared.erase("Tensor");
  std::string page = text_of("docs/methods.md");
  page = page.substr(page.find("|---|---|"));
  page = page.substr(0, page.find("\n\n"));
  collect(page, R"(`(\w+)`)", listed);
  for (const std::string& name : declared) {
    CAPTURE(name);
    CHECK(listed.contains(name));
  }
  for (const std::string& name : listed) {
    CAPTURE(name);
    CHECK(declared.contains(name));
  }
}
