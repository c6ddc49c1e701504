// A contract whose argument type is erased: what the ways of a launch that are not hot know of it
// (names of variants, tune files, first uses, slices, profiling). They are compiled once, and not
// once a contract in every file that launches it. kernels/dispatch/all.cpp makes one of each
// contract. Internal; host code only.
#pragma once
#include "warptape/kernels/dispatch/run_first_use.h"
#include "warptape/kernels/dispatch/run_sizes.h"
#include "warptape/kernels/dispatch/run_slices.h"
#include "warptape/kernels/dispatch/run_tuned.h"
#include "warptape/kernels/run.h"

namespace wt::detail {

// `variant` is one of the contract's, which is a Variant<Args>; `args` are its Args.
struct ErasedContract {
  struct List {
    const void* first;  // of an array of variants; null: not built
    int count;
  };
  struct Facts {
    DType dtype;
    u32 layout;
    i64 bytes;
    double flops;
  };
  const char* name;
  size_t args_size;
  const void* slices;   // the variant that loops over slices
  AgreedKinds* agreed;  // one for each kind of device
  List (*list)(DeviceKind d);
  VariantRow (*described)(const void* variant);
  // Null, or why it does not take the arguments; if it does, `rank` is what it ranks there.
  const char* (*refusal)(const void* variant, const void* args, const Device& d, int& rank);
  i64 (*workspace)(const void* variant, const void* args);
  void (*launch)(const void* variant, const void* args, const Launch& l);
  Facts (*facts)(const void* args);
  u64 (*sizes)(const void* args);  // a hash of what the operands measure, for benchmark()
  bool (*lead_slices)(void* args, const SlicedLaunch& s);

  int count(DeviceKind d) const { return list(d).count; }
  const void* variant(DeviceKind d, int row) const {
    return static_cast<const char*>(list(d).first) + row * kVariantSize;
  }
  int row(DeviceKind d, const void* variant) const {
    const auto* const first = static_cast<const char*>(list(d).first);
    return int((static_cast<const char*>(variant) - first) / kVariantSize);
  }
  static constexpr i64 kVariantSize = sizeof(Variant<int>);  // whatever the arguments
};

inline constexpr size_t kMostArgs = 4096;  // bytes of a contract's arguments

template <class Args>
inline constinit AgreedKinds agreed_kinds[kNumDeviceKinds];

// Once for all slices where the contract has a rule, else once a slice.
void launch_slices(const ErasedContract& c, const void* args, const Launch& given);

template <class Args>
struct Eraser {
  static const Args& args(const void* a) { return *static_cast<const Args*>(a); }
  static const Variant<Args>& of(const void* v) { return *static_cast<const Variant<Args>*>(v); }

  static void launch_slices(const Args& a, const Launch& l) {
    detail::launch_slices(ContractTable<Args>::erased, &a, l);
  }
  static constexpr Variant<Args> kSlices{.name = "slices", .launch = &launch_slices};

  static ErasedContract::List list(DeviceKind d) {
    const Variants<Args>* const variants = ContractTable<Args>::rows[int(d)];
    return variants ? ErasedContract::List{variants->rows, variants->count}
                    : ErasedContract::List{nullptr, 0};
  }
  static VariantRow described(const void* v) {
    return {of(v).name, of(v).rank, of(v).deterministic};
  }
  static const char* refusal(const void* v, const void* a, const Device& d, int& rank) {
    const char* const why = wt::refusal(of(v), args(a), d);
    if (!why) rank = of(v).rank_of ? of(v).rank_of(args(a)) : of(v).rank;
    return why;
  }
  static i64 workspace(const void* v, const void* a) {
    return of(v).workspace ? of(v).workspace(args(a)) : 0;
  }
  static void launch(const void* v, const void* a, const Launch& l) { of(v).launch(args(a), l); }
  static ErasedContract::Facts facts(const void* a) {
    return {args_dtype(args(a)), layout_of(args(a)), args(a).bytes(), double(args(a).flops())};
  }
  static u64 sizes(const void* a) { return sizes_of(args(a)); }
  static bool lead_slices(void* a, const SlicedLaunch& s) {
    return detail::lead_slices(*static_cast<Args*>(a), s);
  }
};

// What ContractTable<Args>::erased is.
template <class Args>
consteval ErasedContract erased_contract() {
  using E = Eraser<Args>;
  static_assert(sizeof(Args) <= kMostArgs && sizeof(Variant<Args>) == ErasedContract::kVariantSize);
  return {ContractTable<Args>::kName,
          sizeof(Args),
          &E::kSlices,
          agreed_kinds<Args>,
          E::list,
          E::described,
          E::refusal,
          E::workspace,
          E::launch,
          E::facts,
          E::sizes,
          E::lead_slices};
}

// The variant that the innermost override names for `contract`, or null when none does.
const char* overriding_variant(const char* contract);
// Before a launch while process_slow says that there are several streams or cuda devices: tells the
// allocator that `l.stream` uses every block that the arguments point into, and makes l.device the
// thread's current one. A current stream of another device is not l.device's: its default one is
// taken. `args`: any struct of arguments; each of its words that is the address of
// device memory counts, so nothing that a contract has can be forgotten, and what merely looks like
// one costs a block's reuse some time.
WT_COLD void prepare_launch(const void* args, size_t bytes, Launch& l);

// What a variant asks for at some arguments, for as long as this lives.
class LaunchWorkspace {
 public:
  LaunchWorkspace() = default;
  LaunchWorkspace(const LaunchWorkspace&) = delete;
  ~LaunchWorkspace();
  void* allocate_for(const ErasedContract& c, const void* variant, const void* args, Device d);

 private:
  Storage* storage_ = nullptr;
};

// Below 0: the variant may not be launched for the arguments.
int rank_for(const ErasedContract& c, const void* variant, const void* args, const Device& d);
// The variant that ranks highest, whatever is named or measured. Null: none takes the arguments.
const void* best_erased(const ErasedContract& c, const void* args, const Device& d);
// wt::choose and wt::run.
const void* choose_erased(const ErasedContract& c, const void* args, const Device& d,
                          const OpInfo* op);
void run_erased(const ErasedContract& c, const void* args, Launch l);

}  // namespace wt::detail
