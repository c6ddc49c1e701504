// Problems taken from operators: an operator is called at the sizes of a benchmark, under an
// observer that copies the arguments of the contract in question as it is launched.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "warptape/bench/gpu/maker.h"

namespace wt::bench {

// What an operator is given. Of the problem's dtype are normal ones, positive ones, those above 1
// and those between -1 and 1.
enum class Fill { normal, positive, above_one, within_one, zeros, index, lengths, truth };
struct Given {
  Shape shape;
  Fill fill = Fill::normal;
  i64 limit = 0;  // index: they lie in [0, limit); lengths: all are this long
};

// An operator's call. If its forward does not launch the contract, the gradients of its operands
// do.
struct Call {
  std::string text;  // of its sizes
  std::vector<Given> given;
  std::function<Tensor(const std::vector<Tensor>&)> run;
};

struct CallRow {
  std::vector<std::string> contracts;  // a row of the benchmark each
  std::vector<DType> dtypes;
  std::vector<Shape> small, host, real;  // sizes, of which `call` knows what they mean
  std::function<Call(const Shape&)> call;
  // Of sizes that are another form than the first numbers of a text. Null: they are those.
  std::function<std::optional<Call>(const std::string& text)> call_of_text{};
};

// What a launch reads and writes, as its contract's line says (kernels/dispatch/run_operands.h).
// Views borrow their geometry from the operator: copies take its place. Outputs get memory of their
// own, which nobody has written yet.
class Operands {
 public:
  template <std::same_as<View>... V>
  Operands& in(V&... views) {
    (own(views), ...);
    return *this;
  }
  template <std::same_as<View>... V>
  Operands& out(V&... views) {
    ((own(views), out(views.data, extent(views), views ? views.dtype() : DType::u8)), ...);
    return *this;
  }
  Operands& in(const void*, i64, DType) { return *this; }
  Operands& sensitive() { return *this; }  // benchmarks have operands of their own
  Operands& out(void*& data, i64 elements, DType t) {
    if (data) written_.push_back({&data, nullptr, elements, t});
    data = nullptr;
    return *this;
  }
  // Launched again, it works on its own results.
  Operands& inout(View& v) {
    own(v);
    written_.push_back({nullptr, v.data, extent(v), v.dtype()});
    in_place_ = true;
    return *this;
  }
  // Of the arguments that were listed, at the place where they were.
  std::vector<Tensor> make_outputs(Device d) const;
  bool in_place() const { return in_place_; }

 private:
  struct Written {
    void** to_be_set;
    void* there;  // where it is not to be set
    i64 elements;
    DType dtype;
  };
  void own(View& v);
  static i64 extent(const View& v);
  std::deque<Geometry> geometries_;
  std::vector<Written> written_;
  bool in_place_ = false;
};

// The arguments of a contract's first launch in a call, copied to `args`; what they point to lives
// as long as p, whose outputs are those of set 0.
using ListOperands = void (*)(void* args, Operands& o);
void take_launch(Problem& p, const Call& call, int set, void* args, size_t size, ListOperands list);

struct Launchers {
  struct Row {
    const detail::ErasedContract* contract;
    ListOperands list;
  };
  std::map<std::string_view, Row> by_contract;
  // `List`, a lambda without captures, names the operands of Args.
  template <class Args, class List>
  void add(List) {
    static_assert(std::is_trivially_copyable_v<Args>);
    add({&ContractTable<Args>::erased, [](void* memory, Operands& o) {
           Args& args = *static_cast<Args*>(memory);
           List{}(args, o);
           // It lies on the operator's stack; the indices are good.
           if constexpr (requires { args.mailbox; }) args.mailbox = nullptr;
         }});
  }
  void add(const Row& row);
};

Problem launched(const std::string& contract, const Call& call, Device d, DType t, int sets);

void add_launchers(Launchers& to);
void add_pointwise_launchers(Launchers& to);

void add_call_rows(std::vector<CallRow>& rows);
void add_conv_call_rows(std::vector<CallRow>& rows);
void add_pointwise_call_rows(std::vector<CallRow>& rows);

}  // namespace wt::bench
