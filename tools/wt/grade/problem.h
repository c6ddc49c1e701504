// One launch with its right results: operands, their memory, and what must be in it afterwards.
// Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/shape.h"
#include "warptape/tools/grade/case.h"
#include "warptape/tools/wt/grade/element.h"

namespace wt::grade {

// How an operand lies in memory. dense: C order. offset: dense, but not at the begin of its memory.
// swapped: the last two axes change places. spread: every third element. padded: rows of the last
// axis lie in wider ones.
enum class Lie : u8 { dense, offset, swapped, spread, padded };
const char* lie_name(Lie lie);

struct Operand {
  std::string name;
  bool written = false;
  bool updated = false;  // written, and read before: it has values, too
  DType dtype = DType::f32;
  Shape shape{};
  Lie lie = Lie::dense;
  bool absent = false;
  std::vector<double> values{};  // of what is read, in logical order, as the dtype stores them
  // Of what is written. A bound below 0: any value will do.
  std::vector<double> want{}, bound{};
  // Above 0: what rounding left of elements [0, rest) stands in [rest, 2 rest). That may be 0, or
  // what makes the sum of both right, which is judged.
  i64 rest = 0;
};

// What an input's values are like.
enum class Values : u8 {
  usual,    // [-3, 3)
  large,    // [-100, 100): their exponentials overflow
  shifted,  // about 1000, close to each other: sums of squares cancel
  special,  // as usual, with some NaN and infinities
  ramp,     // [0.5, 1): long sums of them stand still in 16 bits
  whole,    // of 1 to 9, or of -9 to -1: f32 adds them exactly, so a term too few shows in any sum
};

// A launch to be made of a seed.
struct Plan {
  DType dtype = DType::f32;
  std::vector<i64> sizes{};  // the operator knows what they mean
  Lie lie = Lie::dense;
  Values values = Values::usual;
  int flag = 0;          // of the operator
  bool required = true;  // a variant that refuses it does not pass
};

struct Problem {
  std::string label{};  // "f32 [5, 257], axis 1"
  std::vector<Operand> operands{};
  Case data{};
  bool exact = false;  // no order of the operations rounds: right results have no bound of error
};

// Lays the operands out and fills in data.operand.
void lay_out(Problem& p);
// The element's place in the operand's memory, in bytes, by its number in logical order.
std::vector<i64> element_places(const OperandLayout& layout);
// What the operands' memory has before the launch. What is written has `poison` in every byte, and
// so have gaps between elements.
std::vector<std::vector<u8>> images_of(const Problem& p, u8 poison);

// Of what is read: values of this kind.
void fill(Operand& o, Values values, Draws& draws);
// An operand that is read, filled; and one that is written.
Operand input(const std::string& name, const Plan& plan, const Shape& shape, Draws& draws);
Operand output(const std::string& name, DType t, const Shape& shape, Lie lie = Lie::dense);
// One that is read before it is written.
Operand updated(Operand read);
Operand absent(const std::string& name);

}  // namespace wt::grade
