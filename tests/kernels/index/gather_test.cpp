// Every variant of gather and scatter against the cpu's reference, bit by bit.
#include "warptape/kernels/gather.h"

#include <cstdlib>

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

constexpr DType u8_type = DType::u8, i64_type = DType::i64, i32_type = DType::i32;

// n indices in [0, limit), with repetitions.
Tensor indices(const Shape& shape, i64 limit, Device d, DType t = i64_type) {
  std::vector<i64> v;
  for (i64 k = 0; k < numel_of(shape); ++k) v.push_back((k * k * 31 + 7 * k + k / 3) % limit);
  return tensor(v).reshape(shape).to(t).to(d);
}
// Numbers that each type of `t` holds.
Tensor numbers(const Shape& shape, DType t, Device d, u64 seed = 3) {
  std::vector<double> v = random_values(numel_of(shape), seed, 100);
  if (!is_floating(t))
    for (double& x : v) x = std::floor(std::fabs(x));
  return to_tensor(v, shape, t, d);
}

void check_gather(const Tensor& x, const Tensor& index, int axis, std::set<std::string>* ran,
                  Tensor out = {}) {
  const Device d = x.device();
  if (!out.defined()) out = empty(index.shape(), {.dtype = x.dtype(), .device = d});
  CAPTURE(x.shape(), index.shape(), axis, dtype_name(x.dtype()));
  // By loops of this file's own.
  const std::vector<double> from = to_doubles(x);
  const std::vector<i64> at = index.to_vector<i64>();
  std::vector<double> want;
  for (i64 e = 0; e < index.numel(); ++e) {
    i64 rest = e, place = 0, scale = 1;
    for (int a = x.ndim(); a-- > 0;) {
      place += (a == axis ? at[size_t(e)] : rest % index.size(a)) * scale;
      rest /= index.size(a);
      scale *= x.size(a);
    }
    want.push_back(from[size_t(place)]);
  }
  out.fill_(1);
  for_each_variant(
      d, GatherArgs{view(out), view(x), view(index), axis},
      [&] {
        CHECK(to_doubles(out) == want);
        out.fill_(1);
      },
      ran);
}

// `out` as it is before. The bits are those of additions in the order of the index.
void check_scatter(const Tensor& out, const Tensor& source, const Tensor& index, int axis,
                   ScatterMode mode, std::set<std::string>* ran) {
  const Device d = out.device(), cpu = Device::cpu();
  CAPTURE(out.shape(), index.shape(), axis, dtype_name(out.dtype()), mode == ScatterMode::add);
  Tensor want = out.to(cpu).contiguous().clone();
  const Tensor source_there = source.to(cpu), index_there = index.to(cpu);
  ScatterArgs a{view(want), view(source_there), view(index_there), axis, mode};
  {
    Launch l;
    l.device = cpu;
    const Variants<ScatterArgs>* list = ContractTable<ScatterArgs>::rows[int(DeviceKind::cpu)];
    const Variant<ScatterArgs>& reference = list->rows[list->count - 1];
    std::vector<char> workspace(size_t(reference.workspace(a)));
    l.workspace = workspace.data();
    reference.launch(a, l);
  }
  const std::vector<double> expected = to_doubles(want);
  Tensor y = empty_like(out);
  y.copy_(out);
  a.out = view(y), a.source = view(source), a.index = view(index);
  for_each_variant(
      d, a,
      [&] {
        CHECK(to_doubles(y) == expected);
        y.copy_(out);
      },
      ran);
}
void check_both(const Tensor& out, const Tensor& source, const Tensor& index, int axis,
                std::set<std::string>* ran) {
  for (const ScatterMode mode : {ScatterMode::set, ScatterMode::add})
    check_scatter(out, source, index, axis, mode, ran);
}

}  // namespace

TEST_CASE("gather kernels: every variant, size of element and layout") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {u8_type, f16, f32, f64}) {
      const Tensor x = numbers({7, 9}, t, d);
      check_gather(x, indices({5, 300}, 9, d), 1, &ran);  // more than a block's batch
      check_gather(x, indices({300, 6}, 7, d, i32_type), 0, &ran);
      check_gather(numbers({9, 7}, t, d).transpose(0, 1), indices({31, 7}, 9, d).transpose(0, 1), 1,
                   nullptr);
      check_gather(x, indices({4, 6}, 9, d), 1, nullptr,
                   empty({6, 4}, {.dtype = t, .device = d}).transpose(0, 1));
      // One index for a row of neighbours: whole packs, and rows that begin off their boundaries.
      const Tensor rows = indices({40, 1}, 11, d).expand({40, 32});
      check_gather(numbers({11, 32}, t, d), rows, 0, &ran);
      check_gather(numbers({11, 40}, t, d).slice(1, {1, 33}), rows, 0, nullptr);
      check_gather(numbers({3, 11, 32}, t, d), indices({1, 40, 1}, 11, d).expand({2, 40, 32}), 1,
                   nullptr);
      check_gather(numbers({}, t, d), zeros({}, {.dtype = i64_type, .device = d}), 0, nullptr);
      check_gather(x, zeros({0, 3}, {.dtype = i64_type, .device = d}), 1, nullptr);
    }
  check_ran(ran, {"cpu:reference", "cpu:threaded", "simt:naive", "simt:batched", "simt:packs"});
}

TEST_CASE("scatter kernels: every variant, dtype and layout, in the order of the index") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16, i64_type, i32_type, u8_type}) {
      check_both(numbers({7, 9}, t, d), numbers({5, 70}, t, d), indices({5, 70}, 9, d), 1, &ran);
      check_both(numbers({7, 9}, t, d), numbers({70, 6}, t, d), indices({70, 6}, 7, d, i32_type), 0,
                 nullptr);
      // All strides, and an index that is the same for all columns.
      check_both(numbers({9, 7}, t, d).transpose(0, 1), numbers({60, 7}, t, d).transpose(0, 1),
                 indices({60, 1}, 9, d).expand({60, 7}).transpose(0, 1), 1, nullptr);
      check_both(numbers({2, 5, 3}, t, d), numbers({1, 1, 1}, t, d).expand({2, 40, 3}),
                 indices({2, 40, 1}, 5, d).expand({2, 40, 3}), 1, nullptr);
      check_both(numbers({1}, t, d), numbers({40}, t, d), indices({40}, 1, d), 0, nullptr);
      check_both(numbers({}, t, d), numbers({}, t, d), zeros({}, {.dtype = i64_type, .device = d}),
                 0, nullptr);
      check_both(numbers({3, 4}, t, d), numbers({3, 0}, t, d),
                 zeros({3, 0}, {.dtype = i64_type, .device = d}), 1, nullptr);
    }
  check_ran(ran, {"cpu:reference", "cpu:threaded", "simt:naive", "simt:places", "simt:tiles"});
}

TEST_CASE("scatter kernels: long lines, and places that half of a line names") {
  for (Device d : kernel_devices()) {
    const i64 n = 1100;
    std::vector<i64> at;
    for (i64 k = 0; k < 2 * n; ++k) at.push_back(k % 2 ? 17 : k * k % 700);
    const Tensor index = tensor(at).reshape({2, n}).to(d);
    for (DType t : {f32, bf16})
      check_both(numbers({2, 700}, t, d), numbers({2, n}, t, d, 5), index, 1, nullptr);
    // Several runs of the sort, and of the columns that share an index.
    check_both(numbers({300, 5}, f32, d), numbers({n, 5}, f32, d, 5),
               indices({n, 1}, 300, d).expand({n, 5}), 0, nullptr);
    check_both(numbers({2, 300, 3}, f16, d), numbers({3, 600, 2}, f16, d, 5).transpose(0, 2),
               indices({1, 600, 3}, 300, d).expand({2, 600, 3}), 1, nullptr);
  }
}

TEST_CASE("gather and scatter kernels: a bad index raises the mailbox and stays in memory") {
  static constexpr OpInfo info{.name = "gather_test"};
  for (Device d : kernel_devices())
    for (i64 bad : {i64(6), i64(-1), INT64_MAX}) {
      const bool on_cpu = d.kind == DeviceKind::cpu;
      CAPTURE(device_kind_name(d.kind), bad);
      const auto raised = [&](i64 place) {
        MailboxRecord r{};
        CHECK(read_mailbox(d, r));
        clear_mailbox(d);
        CHECK(r.raised == i32(MailboxCode::index_out_of_range));
        CHECK(r.op_id == mailbox_op_id(info));
        CHECK(r.position == place);
        CHECK(r.value == bad);
        CHECK(r.limit == 6);
      };
      // Element by element, and rows of packs, whose first one names it.
      const Tensor x = to_tensor(random_values(6 * 8, 2), {6, 8}, f32, d);
      for (const bool wide : {false, true}) {
        const i64 columns = wide ? 8 : 1;
        const auto list = [&](i64 third) {
          return tensor({0, 5, third, 3}).to(d).reshape({4, 1}).expand({4, columns});
        };
        const Tensor index = list(bad), stand_in = list(0);
        Tensor out = zeros({4, columns}, {.device = d});
        GatherArgs g{view(out), view(x), view(stand_in), 0};
        std::vector<double> want;
        for_each_variant(d, g, [&] { want = to_doubles(out); });
        g.index = view(index), g.mailbox = mailbox_of(d), g.op_id = mailbox_op_id(info);
        out.fill_(0);
        for_each_variant(d, g, [&] {
          MailboxRecord r{};
          CHECK(read_mailbox(d, r));
          CHECK(r.position / columns == 2);
          raised(r.position);
          CHECK(to_doubles(out) == (on_cpu ? std::vector<double>(want.size(), 0.0) : want));
          out.fill_(0);
        });
      }
      const Tensor index = tensor({{0, 5, bad, 3}, {1, 1, 2, 0}}).to(d);
      const Tensor source = to_tensor({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}, f32, d);
      for (const DType t : {f32, i32_type})
        for (const ScatterMode mode : {ScatterMode::set, ScatterMode::add}) {
          const Tensor values = source.to(t);
          Tensor out = zeros({2, 6}, {.dtype = t, .device = d});
          ScatterArgs s{view(out), view(values), view(index), 1, mode};
          s.mailbox = mailbox_of(d), s.op_id = mailbox_op_id(info);
          for_each_variant(d, s, [&] {
            raised(2);
            const double six = mode == ScatterMode::add ? 11 : 6;
            CHECK(to_doubles(out) == (on_cpu ? std::vector<double>(12, 0.0)
                                             : std::vector<double>{1, 0, 0, 4, 0, 2,  //
                                                                   8, six, 7, 0, 0, 0}));
            out.fill_(0);
          });
        }
      // Nothing to read or to write to: the error alone.
      const Tensor nothing = zeros({0}, {.device = d}), one = tensor({bad}).to(d);
      Tensor out = ones({1}, {.device = d}), none = zeros({0}, {.device = d});
      GatherArgs g{view(out), view(nothing), view(one), 0, mailbox_of(d)};
      const auto said = [&] {
        MailboxRecord r{};
        CHECK(read_mailbox(d, r));
        CHECK(r.limit == 0);
        clear_mailbox(d);
      };
      for_each_variant(d, g, said);
      for (const ScatterMode mode : {ScatterMode::set, ScatterMode::add})
        for_each_variant(d, ScatterArgs{view(none), view(out), view(one), 0, mode, mailbox_of(d)},
                         said);
    }
}
