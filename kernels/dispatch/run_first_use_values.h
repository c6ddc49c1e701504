// What two launches of a contract wrote, compared. Host code only.
#pragma once
#include <concepts>
#include <cstddef>
#include <vector>

#include "warptape/core/device_type.h"
#include "warptape/core/geometry.h"

namespace wt::detail {

// What a launch reads and writes: gets a contract's line of kernels/dispatch/run_operands.h.
class Touched {
 public:
  struct Block {  // from the first element to the last one; strides leave out some between them
    char* data;
    i64 elements;
    DType dtype;
    i64 bytes() const { return elements * item_size(dtype); }
  };
  template <class... V>
  requires(std::same_as<V, View>&&...) Touched& out(V&... views) {
    (add(outs, views), ...);
    return *this;
  }
  template <class... V>
  requires(std::same_as<V, View>&&...) Touched& in(V&... views) {
    (add(ins, views), ...);
    return *this;
  }
  Touched& inout(View& v) { return out(v); }
  Touched& sensitive() {
    is_sensitive = true;
    return *this;
  }
  template <class T>
  Touched& out(T*& data, i64 elements, DType t) {
    return add(outs, data, elements, t);
  }
  template <class T>
  Touched& in(T*& data, i64 elements, DType t) {
    return add(ins, data, elements, t);
  }

  std::vector<Block> outs, ins;
  std::vector<const void*> pointers;  // where those to the blocks stand: in the arguments
  bool is_sensitive = false;          // right results may differ by more than rounding

 private:
  template <class T>
  Touched& add(std::vector<Block>& to, T*& data, i64 elements, DType t) {
    if (!data) return *this;
    pointers.push_back(&data);
    if (elements > 0)
      to.push_back(
          {static_cast<char*>(const_cast<void*>(static_cast<const void*>(data))), elements, t});
    return *this;
  }
  Touched& add(std::vector<Block>& to, View& v);
};

// Bytes of blocks, one behind the other: the next one of eight bytes begins where it may.
using Bytes = std::vector<char>;
std::size_t bytes_of(const std::vector<Touched::Block>& blocks);
void read_blocks(Device d, const std::vector<Touched::Block>& blocks, Bytes& to);
void write_blocks(Device d, const std::vector<Touched::Block>& blocks, const Bytes& bytes);

enum class Verdict : u8 {
  agrees,
  differs,
  unknown,  // values that are not finite differ: overflows depend on the order of sums
};
struct Comparison {
  Verdict verdict = Verdict::agrees;
  double error = 0;  // the largest difference beside the root mean square of its operand
};
// Of elements that either launch changed. With `terms` summands a result and operands as large as
// `largest`, rounding explains a difference of
//   tolerance(dtype) (|want| + rms(want)) + 8 eps sqrt(terms) largest:
// the first term is what 16-bit storage and shorter formulas cost, the second what is left where
// summands cancel.
Comparison compare_blocks(const std::vector<Touched::Block>& blocks, const Bytes& before,
                          const Bytes& got, const Bytes& want, double terms, double largest);
// The scale of a result's summands: the largest operand, or the product of the two largest where
// there are sums of products.
double largest_summand(Device d, const std::vector<Touched::Block>& ins, double terms);

}  // namespace wt::detail
