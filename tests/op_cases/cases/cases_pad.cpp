// The row of padding.
#include "warptape/autograd/ops/pad.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

struct Case {
  Shape in, out;
  std::vector<i64> pairs;  // of the last axis first
  PadMode mode = PadMode::constant;
  double value = 0;
};

const char* name_of(PadMode m) {
  return m == PadMode::constant    ? "constant"
         : m == PadMode::reflect   ? "reflect"
         : m == PadMode::replicate ? "replicate"
                                   : "circular";
}
std::string torch_of(const Case& k) {
  std::string list;
  for (const i64 p : k.pairs) list += str(list.empty() ? "" : ", ", p);
  const std::string value = k.mode == PadMode::constant ? str(", value=", k.value) : "";
  return str("F.pad(a, (", list, "), mode='", name_of(k.mode), "'", value, ")");
}

// What index i beyond or inside [0, n) stands for; -1: the constant.
i64 source(i64 i, i64 n, PadMode mode) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case PadMode::constant:
      return -1;
    case PadMode::reflect:
      return i < 0 ? -i : 2 * (n - 1) - i;
    case PadMode::replicate:
      return i < 0 ? 0 : n - 1;
    default:
      return (i + n) % n;
  }
}

void add_pad_cases(std::vector<OpCase>& rows) {
  OpCase c{"pad", {"copy", "fill"}, kAll};
  const PadMode reflect = PadMode::reflect, replicate = PadMode::replicate,
                circular = PadMode::circular, constant = PadMode::constant;
  // torch: has it in PyTorch, whose modes want batch and channels before what they pad.
  const auto add = [&](const Case& k, bool torch) {
    const int n = k.in.ndim();
    c.samples.push_back(one_input(
        torch ? torch_of(k) : "", k.in,
        [k](const Tensor& x) {
          return pad(x, std::span<const i64>(k.pairs), {.mode = k.mode, .value = k.value});
        },
        elements(k.out, [k, n](const std::vector<Array>& in, Place i) {
          for (size_t p = 0; p < k.pairs.size() / 2; ++p) {
            const size_t d = size_t(n) - 1 - p;
            i[d] = source(i[d] - k.pairs[2 * p], k.in[int(d)], k.mode);
            if (i[d] < 0) return k.value;
          }
          return at(in[0], i);
        })));
    if (!torch) c.samples.back().label = torch_of(k);
  };
  add({{3, 5}, {4, 8}, {1, 2, 0, 1}, constant, 2}, true);
  add({{2, 3, 4}, {2, 5, 6}, {1, 1, 2, 0}, constant}, true);
  add({{2, 3, 4}, {2, 5, 7}, {1, 2, 2, 0}, reflect}, false);
  add({{1, 2, 3, 4}, {1, 2, 5, 7}, {1, 2, 2, 0}, reflect}, true);
  add({{1, 3, 5}, {1, 3, 12}, {3, 4}, reflect}, true);
  add({{2, 2, 3, 3}, {2, 2, 6, 4}, {0, 1, 2, 1}, replicate}, true);
  add({{1, 2, 4}, {1, 2, 12}, {3, 5}, replicate}, true);
  add({{1, 1, 2, 2, 2}, {1, 1, 3, 5, 4}, {1, 1, 1, 2, 0, 1}, replicate}, true);
  add({{1, 2, 4}, {1, 2, 9}, {4, 1}, circular}, true);
  add({{2, 1, 3, 5}, {2, 1, 6, 7}, {2, 0, 1, 2}, circular}, true);
  add({{5, 3}, {3, 4}, {2, -1, -2, 0}, constant, 1}, true);
  add({{5, 4}, {5, 1}, {-1, -2}, constant}, true);
  add({{4}, {0}, {-2, -2}, constant}, true);
  add({{3, 0}, {3, 2}, {1, 1}, constant, 2}, true);
  c.samples.back().constant = true;
  add({{0, 3}, {0, 5}, {1, 1}, replicate}, false);
  add({{}, {}, {}, constant}, false);
  add({{3, 2}, {3, 2}, {0, 0}, circular}, false);
  add({{31, 17}, {33, 20}, {0, 3, 2, 0}, constant, 1}, true);
  add({{7, 33}, {12, 36}, {3, 0, 2, 3}, replicate}, false);

  const auto call = [](std::vector<i64> pairs, PadMode mode) {
    return [=](const Tensor& x) { return pad(x, std::span<const i64>(pairs), {.mode = mode}); };
  };
  c.errors = {
      undefined_input("pad", call({1, 1}, constant)),
      fails<ShapeError>("odd", "[pad] pairs of numbers are needed, got 3", {2, 3},
                        call({1, 2, 3}, constant)),
      fails<ShapeError>("pairs", "[pad] 2 pairs for 1 dimensions", {2},
                        call({1, 2, 3, 4}, constant)),
      fails<ShapeError>("crop", "[pad] axis 0 of size 3 cannot be padded by -2 and -2", {3},
                        call({-2, -2}, constant)),
      fails<ShapeError>("crop one side", "[pad] axis 0 of size 3 cannot be padded by 5 and -4", {3},
                        call({5, -4}, constant)),
      fails<ShapeError>("overflow", "cannot be padded by", {3}, call({INT64_MAX, 1}, constant)),
      fails<ShapeError>("product", "[pad] the result would be", {3, 3},
                        call({INT64_MAX - 3, 0}, constant)),
      fails<ShapeError>("reflect", "[pad] axis 1 of size 3 gives a border of at most 2, not 3",
                        {2, 3}, call({3, 0}, reflect)),
      fails<ShapeError>("circular", "[pad] axis 1 of size 3 gives a border of at most 3, not 4",
                        {2, 3}, call({0, 4}, circular)),
      fails<ShapeError>("empty", "[pad] axis 0 of size 0 gives a border of at most 0, not 1", {0},
                        call({1, 0}, replicate)),
      fails<ShapeError>("negative", "[pad] only PadMode::constant crops, got -1 for axis 0", {3},
                        call({0, -1}, replicate))};
  rows.push_back(std::move(c));
}

const CaseFile file{add_pad_cases};

}  // namespace
}  // namespace wt_test
