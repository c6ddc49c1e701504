// What `wt grade` holds a kernel against: the library's own kernels have to be right by it, all of
// them, and a result with an error planted in it must not be.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/activation_inverse.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tools/grade/contracts.h"
#include "warptape/tools/wt/grade/compare.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

using Images = std::vector<std::vector<u8>>;
constexpr u8 kPoison = 0x45;
// Of an operand on the device: canaries lie in the last bytes before it, and in the first behind.
constexpr i64 kBefore = 256, kBehind = kZoneBytes;

Problem problem_of(const GradedOp& op, const Plan& plan, u64 seed) {
  Draws draws(seed);
  Problem p = op.make(plan, draws);
  p.data.contract = contract_number(op.contract);
  lay_out(p);
  op.solve(p);
  return p;
}

// The operands on simt.
class OnDevice {
 public:
  OnDevice(const Problem& p, const Images& begun) : problem_(p), begun_(begun) {
    for (size_t i = 0; i < begun.size(); ++i) {
      const OperandLayout& o = p.data.operand[i];
      blocks_.emplace_back();
      views_.emplace_back();
      if (!o.there()) continue;
      std::vector<u8> bytes(size_t(kBefore), kCanary);
      bytes.insert(bytes.end(), begun[i].begin(), begun[i].end());
      bytes.insert(bytes.end(), size_t(kBehind), kCanary);
      blocks_[i] = tensor(bytes).to(Device::simt());
      views_[i] = {wt_test::view(blocks_[i]).as<u8>() + kBefore + o.begin, &o.geometry};
    }
  }
  const View* views() const { return views_.data(); }
  Images ended() const {
    Images all(blocks_.size());
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (!problem_.data.operand[i].there()) continue;
      all[i] = blocks_[i].to_vector<u8>();
      all[i].erase(all[i].begin(), all[i].begin() + (kBefore - kZoneBytes));
    }
    return all;
  }

 private:
  const Problem& problem_;
  const Images& begun_;
  std::vector<Tensor> blocks_;
  std::vector<View> views_;
};

// Every variant of the library that takes the problem; `ran` gets their names.
template <class Args>
void run_variants(const Problem& p, std::set<std::string>& ran) {
  const Variants<Args>* const list = ContractTable<Args>::rows[int(DeviceKind::simt)];
  REQUIRE(list != nullptr);
  const Images begun = images_of(p, kPoison);
  for (int i = 0; i < list->count; ++i) {
    const Variant<Args>& v = list->rows[i];
    INFO(v.name << ", " << p.label);
    const OnDevice operands(p, begun);
    const Args args = ArgsOf<Args>::make(p.data, operands.views());
    if (refusal(v, args, Device::simt())) continue;
    Launch l;
    l.device = Device::simt();
    const i64 bytes = v.workspace ? v.workspace(args) : 0;
    const Tensor workspace = empty({bytes}, {.dtype = DType::u8, .device = Device::simt()});
    if (bytes) l.workspace = wt_test::view(workspace).data;
    v.launch(args, l);
    const std::optional<Fault> fault = find_fault(p, begun, operands.ended(), {});
    INFO((fault ? fault->text : ""));
    CHECK_FALSE(fault.has_value());
    ran.insert(v.name);
  }
}

template <class Args>
void check_all_ran(const std::set<std::string>& ran) {
  const Variants<Args>* const list = ContractTable<Args>::rows[int(DeviceKind::simt)];
  REQUIRE(list != nullptr);
  for (int i = 0; i < list->count; ++i) {
    INFO(list->rows[i].name);
    CHECK(ran.count(list->rows[i].name) == 1);
  }
}

// What a kernel leaves in memory that writes these numbers.
Images images_with(const Problem& p, const std::vector<std::vector<double>>& results) {
  Images all = images_of(p, kPoison);
  for (size_t i = 0; i < all.size(); ++i) {
    const Operand& o = p.operands[i];
    if (!p.data.operand[i].there()) continue;
    const std::vector<i64> places = element_places(p.data.operand[i]);
    if (o.written)
      for (size_t e = 0; e < places.size(); ++e)
        store_element(results[i][e], o.dtype, all[i].data() + places[e]);
    all[i].insert(all[i].begin(), size_t(kZoneBytes), kCanary);
    all[i].insert(all[i].end(), size_t(kZoneBytes), kCanary);
  }
  return all;
}

// A right one.
Images right_images(const Problem& p) {
  std::vector<std::vector<double>> results;
  for (const Operand& o : p.operands) results.push_back(o.want);
  return images_with(p, results);
}

std::optional<Fault> fault_of(const Problem& p, const Images& ended) {
  return find_fault(p, images_of(p, kPoison), ended, {});
}

// --- contracts that only a lab has, by the library's kernels one after the other ---

Tensor on_simt(const Operand& o) {
  const std::vector<float> values(o.values.begin(), o.values.end());
  return tensor(values).reshape(o.shape).to(Device::simt());
}
std::vector<double> numbers(const Tensor& t) {
  if (t.dtype() != DType::u8) return t.to_vector<double>();
  const std::vector<u8> bytes = t.to_vector<u8>();
  return {bytes.begin(), bytes.end()};
}

void run_bias_gelu(const Problem& p) {
  const Tensor z = on_simt(p.operands[0]) + on_simt(p.operands[2]), y = gelu(z);
  const Tensor bits = empty({(z.numel() + 7) / 8}, {.dtype = DType::u8, .device = Device::simt()});
  run(BitPackArgs{wt_test::view(bits), wt_test::view(z), turning_point(InvertedActivation::gelu),
                  false},
      Launch{.device = Device::simt()});
  const std::optional<Fault> fault = fault_of(p, images_with(p, {numbers(y), numbers(bits), {}}));
  INFO(p.label << (fault ? ": " + fault->text : ""));
  CHECK_FALSE(fault.has_value());
}
void run_bias_gelu_backward(const Problem& p) {
  const Tensor g = on_simt(p.operands[0]), y = on_simt(p.operands[1]);
  const std::vector<u8> bytes(p.operands[2].values.begin(), p.operands[2].values.end());
  const Tensor bits = tensor(bytes).to(Device::simt()), z = zeros_like(y), gx = zeros_like(y);
  const Launch l{.device = Device::simt()};
  run(ActivationInverseArgs{wt_test::view(z), wt_test::view(y), wt_test::view(bits),
                            InvertedActivation::gelu},
      l);
  PointwiseArgs<pw::Grad0<pw::Gelu>> slope;
  slope.out = wt_test::view(gx), slope.in[0] = wt_test::view(g), slope.in[1] = wt_test::view(z);
  run(slope, l);
  const std::optional<Fault> fault = fault_of(p, images_with(p, {numbers(gx), {}, {}}));
  INFO(p.label << (fault ? ": " + fault->text : ""));
  CHECK_FALSE(fault.has_value());
}

void run_contract(const GradedOp& op, const Problem& p, std::set<std::string>& ran) {
#define WT_RUN(name_, ...) \
  if (op.contract == #name_) return run_variants<__VA_ARGS__>(p, ran);
  WT_LIBRARY_CONTRACTS(WT_RUN)
#undef WT_RUN
  if (op.contract == "bias_gelu") return run_bias_gelu(p);
  if (op.contract == "bias_gelu_backward") return run_bias_gelu_backward(p);
  FAIL(op.contract << " is no contract");
}

// What of a problem is written and has a right value: operand, place in its image, element.
struct Spot {
  size_t operand;
  i64 place;
  size_t element;
};
std::vector<Spot> spots(const Problem& p) {
  std::vector<Spot> all;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    if (!o.written || o.absent) continue;
    const std::vector<i64> places = element_places(p.data.operand[i]);
    for (const size_t e : {size_t{0}, places.size() / 2, places.size() - 1})
      if (e < places.size() && o.bound[e] >= 0) all.push_back({i, kZoneBytes + places[e], e});
  }
  return all;
}

bool is_rejected(const Problem& p, Images ended, const Spot& at, double value) {
  store_element(value, p.operands[at.operand].dtype, ended[at.operand].data() + at.place);
  return fault_of(p, ended).has_value();
}

// A tenth of the largest result beside what is right; NaN, and what was there before.
void plant_values(const Problem& p, const Images& right) {
  for (const Spot& at : spots(p)) {
    const Operand& o = p.operands[at.operand];
    INFO(o.name << " element " << at.element);
    const double want = o.want[at.element];
    double largest = 1e-3;
    for (const double v : o.want)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    if (largest == 1e-3) largest = 10;  // nothing but zeros, of terms that are larger
    if (is_floating(o.dtype)) CHECK(is_rejected(p, right, at, std::isnan(want) ? 0 : std::nan("")));
    const double apart = std::max(largest / 10, is_floating(o.dtype) ? 0. : 1.);
    const bool above = o.dtype == DType::u8 && want + apart > 255;
    if (std::isfinite(want)) CHECK(is_rejected(p, right, at, above ? want - apart : want + apart));
    Images unwritten = right;
    std::fill_n(unwritten[at.operand].begin() + at.place, item_size(o.dtype), kPoison);
    CHECK(fault_of(p, unwritten).has_value());
  }
}

void plant_beside(const Problem& p, const Images& right) {
  for (size_t i = 0; i < right.size(); ++i) {
    if (!p.data.operand[i].there()) continue;
    INFO(p.operands[i].name);
    // Just outside at both ends; of what is read, also its first and its last byte.
    std::vector<i64> places{kZoneBytes - 1, i64(right[i].size()) - kZoneBytes};
    if (!p.operands[i].written && p.data.operand[i].bytes > 0)
      places.insert(places.end(), {kZoneBytes, places[1] - 1});
    for (const i64 place : places) {
      Images spoilt = right;
      spoilt[i][size_t(place)] ^= 1;
      const std::optional<Fault> fault = fault_of(p, spoilt);
      REQUIRE(fault.has_value());
      CHECK((fault->wrong == Wrong::beside || fault->wrong == Wrong::input));
    }
  }
}

bool simt_is_walked() {
  for (const Device& d : wt_test::kernel_devices())
    if (d.kind == DeviceKind::simt) return true;
  return false;
}

}  // namespace

TEST_CASE("wt grade: every kernel of the library is right by the grader's own results") {
  if (!simt_is_walked()) return;
  std::map<std::string, std::set<std::string>> all;  // of each contract
  for (const GradedOp& op : graded_ops()) {
    INFO(op.name);
    std::set<std::string>& ran = all[op.contract];
    Draws draws(7);
    std::vector<Plan> plans = op.plans(draws);
    plans.push_back(op.score);
    u64 seed = 100;
    for (const Plan& plan : plans) run_contract(op, problem_of(op, plan, ++seed), ran);
  }
#define WT_CHECK(name_, ...) check_all_ran<__VA_ARGS__>(all[#name_]);
  WT_LIBRARY_CONTRACTS(WT_CHECK)
#undef WT_CHECK
}

TEST_CASE("wt grade: an error planted in any operator's result, or beside it, is found") {
  for (const GradedOp& op : graded_ops()) {
    Draws draws(11);
    u64 seed = 300;
    for (const Plan& plan : op.plans(draws)) {
      const Problem p = problem_of(op, plan, ++seed);
      INFO(op.name << ", " << p.label);
      const Images right = right_images(p);
      const std::optional<Fault> fault = fault_of(p, right);
      INFO((fault ? fault->text : ""));
      REQUIRE_FALSE(fault.has_value());
      plant_values(p, right);
      plant_beside(p, right);
    }
  }
}

}  // namespace wt::grade
