// Indexing by tensors, and masks of a bit an element.
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/index.h"

namespace wt::bench {
namespace {

i64 of_scale(Scale scale, i64 small, i64 host, i64 real) {
  return scale == Scale::small ? small : scale == Scale::host ? host : real;
}

// Pairs of indices into the first two axes of a table.
Problem index_rows_problem(Device d, DType, Scale scale, int, int sets) {
  const i64 n = of_scale(scale, 333, i64{1} << 22, i64{1} << 25), first = 1000, second = 777;
  return problem_of(d, DType::i64, str(n, " of ", first, "x", second), sets,
                    [&](Maker& m, std::vector<Tensor>& out) {
                      out = {m.out({n}, DType::i64)};
                      IndexRowsArgs a;
                      a.rows = view(out[0]);
                      a.indices[0] = view(m.indices({n}, first));
                      a.indices[1] = view(m.indices({n}, second));
                      a.size[0] = first, a.size[1] = second;
                      a.count = 2;
                      return a;
                    });
}

// So many positions that every row is written: what is not would be a NaN left over.
Problem index_put_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 rows = of_scale(scale, 7, 1024, 4096), width = of_scale(scale, 48, 768, 768);
  const i64 n = of_scale(scale, 100, 16384, 65536);
  return problem_of(d, t, str(n, " of ", rows, "x", width), sets,
                    [&](Maker& m, std::vector<Tensor>& out) {
                      out = {m.out({rows, width}, t)};
                      IndexPutArgs a;
                      a.table = view(out[0]);
                      a.rows = view(m.indices({n}, rows));
                      a.values = view(m.normal({n, width}, t));
                      return a;
                    });
}

i64 bits_of(Scale scale) { return of_scale(scale, 1003, i64{1} << 24, i64{1} << 26); }

Problem bit_pack_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = bits_of(scale);
  return problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({(n + 7) / 8}, DType::u8)};
    return BitPackArgs{view(out[0]), view(m.normal({n}, t))};
  });
}
Problem bit_unpack_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = bits_of(scale);
  const std::vector<u8> pattern(size_t((n + 7) / 8), 0xA6);
  return problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({n}, t)};
    return BitUnpackArgs{view(out[0]), view(m.bytes(pattern.data(), i64(pattern.size())))};
  });
}

}  // namespace

void add_index_rows(std::vector<ProblemRow>& rows) {
  const std::vector<DType> two{DType::f32, DType::bf16};
  rows.push_back({"index_rows", {DType::i64}, 1, index_rows_problem});
  rows.push_back({"index_put", two, 1, index_put_problem});
  rows.push_back({"bit_pack", two, 1, bit_pack_problem});
  rows.push_back({"bit_unpack", two, 1, bit_unpack_problem});
}

}  // namespace wt::bench
