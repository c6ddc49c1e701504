// What can be saved of the pointwise list. Its contracts differ in their entries alone, so one
// class saves all: it sees arguments as their views and the scalars behind these.
#include <cstddef>
#include <type_traits>

#include "warptape/kernels/dispatch/run_saved_lists.h"
#include "warptape/kernels/pointwise.h"

namespace wt::detail {
namespace {

void saved_parameters(pw::Clamp& f, LaunchFields& to) { to(f.lo, f.hi, f.lo_int, f.hi_int); }
void saved_parameters(pw::Elu& f, LaunchFields& to) { to(f.alpha); }
void saved_parameters(pw::LeakyRelu& f, LaunchFields& to) { to(f.slope); }
void saved_parameters(pw::NanToNum& f, LaunchFields& to) { to(f.nan, f.posinf, f.neginf); }
void saved_parameters(pw::Softplus& f, LaunchFields& to) { to(f.beta, f.threshold); }

// An elementwise contract, the type of the entry erased.
struct Row {
  const ErasedContract* contract;
  const void* initial;  // default arguments
  int arity;
  bool is_predicate, selects;
  void (*parameters)(void* args, LaunchFields& f);  // null: the entry has none
};

template <class Args>
struct RowOf;
template <class F>
struct RowOf<PointwiseArgs<F>> {
  using Args = PointwiseArgs<F>;
  // What Pointwise relies on.
  static_assert(offsetof(Args, in) == sizeof(View));
  static_assert(offsetof(Args, scalar) == (1 + F::kArity) * sizeof(View));
  static_assert(offsetof(Args, scalar_int) == offsetof(Args, scalar) + sizeof(double));
  static constexpr Args kInitial{};
  static void parameters(void* args, LaunchFields& f) {
    saved_parameters(static_cast<Args*>(args)->f, f);
  }
  static consteval Row made() {
    Row row{
        &ContractTable<Args>::erased, &kInitial, F::kArity, F::kPredicate, F::kSelects, nullptr};
    if constexpr (!std::is_empty_v<F>) row.parameters = parameters;
    return row;
  }
};

class Pointwise final : public SavedLaunch {
 public:
  Pointwise(const Row& row, const void* args)
      : SavedLaunch(*row.contract, args ? args : row.initial), row_(row) {}

  void fields(LaunchFields& f) override {
    char* const scalars = static_cast<char*>(args()) + (1 + row_.arity) * sizeof(View);
    f(*reinterpret_cast<double*>(scalars), *reinterpret_cast<i64*>(scalars + sizeof(double)));
    if (row_.parameters) row_.parameters(args(), f);
  }
  void operands(LaunchOperands& o) override {
    View* const views = static_cast<View*>(args());
    o.out(views[0]);
    for (int i = 1; i <= row_.arity; ++i) o.in(views[i]);
  }
  const char* why_not_fields() const override { return nullptr; }
  const char* why_not() const override;
  void report_to(MailboxRecord*, u32) override {}

 private:
  const Row& row_;
};

const char* Pointwise::why_not() const {
  const View *const views = static_cast<const View*>(args()), &out = views[0];
  if (!out) return "there is no output";
  const View* first = nullptr;  // of those that are computed with
  int absent = 0;
  for (int i = 0; i < row_.arity; ++i) {
    const View& v = views[1 + i];
    const bool selects = row_.selects && i == 0;
    if (!v) {
      if (++absent > 1 || row_.arity == 1 || selects) return "an operand is missing";
      continue;
    }
    if (!broadcasts(v, out)) return "an operand does not broadcast to the output";
    if (selects ? v.dtype() != DType::boolean : first && v.dtype() != first->dtype())
      return "operands differ in dtype";
    if (!selects && !first) first = &v;
  }
  const DType result = row_.is_predicate ? DType::boolean : first ? first->dtype() : out.dtype();
  return out.dtype() == result ? nullptr : "the output has another dtype";
}

}  // namespace

void add_saved_pointwise(SavedLists& to) {
#define WT_POINTWISE_SAVED(contract, Args) RowOf<Args>::made(),
  static constexpr Row kRows[] = {WT_POINTWISE_FORWARD_CONTRACTS(WT_POINTWISE_SAVED)};
#undef WT_POINTWISE_SAVED
  for (const Row& row : kRows)
    to.by_contract[row.contract->name] = {
        &row, [](const void* of, const void* args) -> std::unique_ptr<AnyLaunch> {
          return std::make_unique<Pointwise>(*static_cast<const Row*>(of), args);
        }};
}

}  // namespace wt::detail
