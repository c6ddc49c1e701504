// Rows of embedding_bag.
#include <algorithm>

#include "warptape/autograd/ops/embedding_bag.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

struct BagCase {
  Shape indices;
  i64 rows, width;
  EmbeddingBagMode mode = EmbeddingBagMode::mean;
  std::vector<double> offsets{};
  bool weighted = false, last = false;
  std::optional<i64> padding{};
  bool narrow = false;  // i32 indices and offsets
  bool has_offsets() const { return indices.ndim() == 1; }
};

EmbeddingBagOptions options_of(const BagCase& k, std::span<const Tensor> in) {
  EmbeddingBagOptions o{.mode = k.mode, .include_last_offset = k.last, .padding_idx = k.padding};
  size_t next = 2;
  if (k.has_offsets()) o.offsets = k.narrow ? in[next].to(DType::i32) : in[next];
  next += k.has_offsets();
  if (k.weighted) o.per_sample_weights = in[next];
  return o;
}

// Of each bag the places of its indices.
std::vector<std::vector<size_t>> bags_of(const BagCase& k, const std::vector<Array>& in) {
  std::vector<std::vector<size_t>> bags;
  const size_t n = in[0].v.size();
  const auto add = [&](size_t from, size_t to) {
    bags.emplace_back();
    for (size_t i = from; i < to; ++i) bags.back().push_back(i);
  };
  if (k.has_offsets()) {
    const std::vector<double>& at = in[2].v;
    for (size_t b = 0; b < at.size(); ++b) {
      if (b + 1 == at.size() && k.last) break;
      add(size_t(at[b]), b + 1 < at.size() ? size_t(at[b + 1]) : n);
    }
  } else {
    const size_t length = size_t(k.indices[1]);
    for (size_t b = 0; b < size_t(k.indices[0]); ++b) add(b * length, (b + 1) * length);
  }
  return bags;
}

Oracle reduced(const BagCase& k) {
  return [k](const std::vector<Array>& in) {
    const Array &indices = in[0], &table = in[1];
    const i64 padding = !k.padding ? -1 : *k.padding < 0 ? *k.padding + k.rows : *k.padding;
    Array r;
    const auto bags = bags_of(k, in);
    r.shape = {i64(bags.size()), k.width};
    for (const std::vector<size_t>& bag : bags)
      for (i64 d = 0; d < k.width; ++d) {
        double sum = 0, sizes = 0, largest = 0, n = 0;
        for (const size_t i : bag) {
          const i64 row = i64(indices.v[i]);
          if (row == padding) continue;
          const double v = at(table, {row, d}) * (k.weighted ? in.back().v[i] : 1);
          largest = n == 0 ? v : std::max(largest, v);
          sum += v, sizes += std::fabs(v), n += 1;
        }
        const double by = k.mode == EmbeddingBagMode::mean ? std::max(n, 1.0) : 1;
        const bool max = k.mode == EmbeddingBagMode::max;
        r.v.push_back(max ? largest : sum / by);
        r.magnitude.push_back(max ? std::fabs(largest) : sizes / by);
      }
    r.terms = k.mode == EmbeddingBagMode::max ? 0 : kTermsOfFormula + double(indices.v.size());
    return r;
  };
}

Sample sample_of(const BagCase& k) {
  static const char* const kModes[] = {"sum", "mean", "max"};
  Sample s;
  s.torch = str("F.embedding_bag(a, b, ", k.has_offsets() ? "c, " : "", "mode='",
                kModes[int(k.mode)], "'");
  s.inputs = {index_input(k.indices, k.rows), {{k.rows, k.width}}};
  if (k.has_offsets()) {
    s.inputs.push_back(index_input({i64(k.offsets.size())}, 1));
    s.inputs.back().values = k.offsets;
  }
  if (k.weighted) {
    s.inputs.push_back({k.indices});
    s.torch += str(", per_sample_weights=", k.has_offsets() ? "d" : "c");
  }
  if (k.last) s.torch += ", include_last_offset=True";
  if (k.padding) s.torch += str(", padding_idx=", *k.padding);
  s.torch += ")";
  s.label = s.torch;
  // PyTorch refuses rows of length 0, and takes what is behind the last offset into the last bag in
  // f64, not in f32.
  const bool empty_rows = !k.has_offsets() && k.indices[1] == 0;
  if (empty_rows || (k.last && k.offsets.back() < double(k.indices[0]))) s.torch = "";
  s.call = [k](std::span<const Tensor> in) {
    return embedding_bag(k.narrow ? in[0].to(DType::i32) : in[0], in[1], options_of(k, in));
  };
  s.oracle = reduced(k);
  s.second_is_zero = !k.weighted;
  return s;
}

using Change = std::function<void(EmbeddingBagOptions&, Device)>;
template <class E>
ErrorInput refuses(const std::string& label, const std::string& text, const Shape& indices,
                   const Change& change, DType t = DType::i64, double index = 0) {
  return error_input<E>(label, text, [=](Device d) {
    EmbeddingBagOptions o;
    change(o, d);
    (void)embedding_bag(full(indices, index, {.dtype = t, .device = d}),
                        ones({4, 2}, {.device = d}), o)
        .template to_vector<float>();
  });
}
Tensor whole(std::initializer_list<Scalar> v, Device d) {
  return tensor(v, {.dtype = DType::i64, .device = Device::cpu()}).to(d);
}

void add_embedding_bag_cases(std::vector<OpCase>& rows) {
  OpCase c{"embedding_bag", {"embedding_forward", "embedding_backward"}, kFloats};
  const auto add = [&c](const BagCase& k) { c.samples.push_back(sample_of(k)); };
  const auto sum = EmbeddingBagMode::sum, mean = EmbeddingBagMode::mean,
             max = EmbeddingBagMode::max;
  const std::vector<double> pieces{0, 3, 3, 4};  // the second has nothing
  for (const EmbeddingBagMode mode : {sum, mean, max}) {
    add({{3, 4}, 5, 3, mode});
    add({{7}, 5, 3, mode, pieces});
    add({{3, 4}, 5, 2, mode, {}, false, false, 1});
    add({{9}, 4, 2, mode, {0, 2, 3, 3, 5}, false, false, -2});
    add({{7}, 5, 3, mode, {0, 3, 3, 7}, false, true});
    add({{7}, 5, 3, mode, {0, 3, 3, 5}, false, true});  // the last two are in no bag
    add({{6}, 3, 2, mode, {0, 1, 6}, false, true, 0, true});
    add({{2, 3}, 1, 4, mode, {}, false, false, 0});  // nothing but what is passed over
    add({{5}, 4, 1, mode, {0}});
    add({{0}, 3, 2, mode, {0, 0}});
    add({{3, 0}, 3, 2, mode});
    add({{0, 2}, 3, 2, mode});
    add({{33}, 11, 65, mode, {0, 5, 6, 20}});
    add({{257}, 31, 3, mode, {0, 100, 101, 250, 257}, false, true, 7});
    add({{7, 31}, 13, 5, mode, {}, false, false, 2});
  }
  for (const BagCase& k : {BagCase{{3, 4}, 5, 2, sum}, BagCase{{7}, 5, 3, sum, pieces},
                           BagCase{{2, 5}, 3, 2, sum, {}, false, false, 2},
                           BagCase{{8}, 3, 2, sum, {0, 4, 4, 8}, false, true, -1},
                           BagCase{{65}, 9, 7, sum, {0, 33}}}) {
    BagCase weighted = k;
    weighted.weighted = true;
    add(weighted);
  }
  const std::string op = "[embedding_bag] ";
  const auto offsets = [](std::initializer_list<Scalar> v, bool last = false) -> Change {
    return [v = std::vector<Scalar>(v), last](EmbeddingBagOptions& o, Device d) {
      std::vector<i64> at;
      for (const Scalar& s : v) at.push_back(i64(s.f));
      o.offsets = tensor(at).to(d);
      o.include_last_offset = last;
    };
  };
  const Change nothing = [](EmbeddingBagOptions&, Device) {};
  c.errors = {
      undefined_operand("embedding_bag",
                        [](const Tensor& a, const Tensor& b) { (void)embedding_bag(a, b); }),
      refuses<DtypeError>("indices", op + "indices must be i64 or i32, got f32", {2, 2}, nothing,
                          f32),
      refuses<ShapeError>("rank", op + "indices must be [bags, length], or 1-d with offsets, got 3",
                          {2, 2, 2}, nothing),
      refuses<UsageError>("no offsets", op + "1-d indices need offsets", {3}, nothing),
      refuses<UsageError>("offsets", op + "offsets are for 1-d indices", {2, 2}, offsets({0})),
      refuses<ShapeError>("no last", op + "include_last_offset needs an offset", {2},
                          offsets({}, true)),
      refuses<IndexError>("index", "token id 4", {2, 2}, nothing, DType::i64, 4),
      refuses<IndexError>("padding", op + "padding_idx 4 is outside [-4, 4)", {2, 2},
                          [](EmbeddingBagOptions& o, Device) { o.padding_idx = 4; }),
      refuses<DtypeError>(
          "offsets' dtype", op + "offsets must be i64 or i32, got f32", {3},
          [](EmbeddingBagOptions& o, Device d) { o.offsets = zeros({1}, {.device = d}); }),
      refuses<ShapeError>("offsets' rank", op + "offsets must be 1-d, got [1, 1]", {3},
                          [](EmbeddingBagOptions& o, Device d) {
                            o.offsets = zeros({1, 1}, {.dtype = DType::i64, .device = d});
                          }),
      refuses<IndexError>("far offset", " is outside [0, ", {3}, offsets({0, 4})),
      refuses<UsageError>("weights", op + "per_sample_weights are for EmbeddingBagMode::sum",
                          {2, 2},
                          [](EmbeddingBagOptions& o, Device d) {
                            o.per_sample_weights = ones({2, 2}, {.device = d});
                          }),
      refuses<ShapeError>("weights' shape",
                          op + "per_sample_weights must have the shape of the indices, [2, 2]",
                          {2, 2},
                          [](EmbeddingBagOptions& o, Device d) {
                            o.mode = EmbeddingBagMode::sum;
                            o.per_sample_weights = ones({4}, {.device = d});
                          }),
      refuses<DtypeError>("weights' dtype", op + "per_sample_weights are f64, the table f32",
                          {2, 2},
                          [](EmbeddingBagOptions& o, Device d) {
                            o.mode = EmbeddingBagMode::sum;
                            o.per_sample_weights = ones({2, 2}, {.dtype = f64, .device = d});
                          }),
      error_input<ShapeError>(
          "table", op + "the table must be [rows, width], got 1 dimensions", [](Device d) {
            (void)embedding_bag(whole({0}, d).reshape({1, 1}), ones({3}, {.device = d}));
          })};
  rows.push_back(std::move(c));
}

const CaseFile file{add_embedding_bag_cases};

}  // namespace
}  // namespace wt_test
