// Binary exponents of gradients: what 16 bits keep of them, without a loss scale and with one.
//
//   const GradientExponents e = step.gradient_exponents();     // after a step, skipped or not
//   e.total().in(f16).lost;                                    // the share that becomes zero
//   std::puts(e.text().c_str());                               // a map: a row a parameter
#pragma once
#include <string>
#include <vector>

#include "warptape/core/dtype.h"
#include "warptape/core/frame.h"
#include "warptape/optim/optimizer.h"

namespace wt {

// What becomes of the elements in a floating dtype, as shares of all elements; the rest is held
// with all digits. Known to within one exponent: of those between 65504 and 65536 none counts as
// too large for f16, of those that are exactly half of its smallest number none as lost.
struct DTypeShares {
  double zero = 0;       // zero already
  double lost = 0;       // rounded to zero
  double subnormal = 0;  // held with fewer digits
  double overflow = 0;   // infinite, or would be
  double nan = 0;        // NaN already
};

// How many elements of a gradient have which floor(log2 |x|).
struct ExponentRow {
  std::string name;         // the parameter
  std::vector<i64> counts;  // kExponentBins (kernels/exponent_counts.h)

  // All elements that were counted; 0 of a parameter without a gradient.
  WT_API i64 elements() const;
  // zeros(), infinite() and nans(): those of them that are 0, inf of either sign and NaN.
  WT_API i64 zeros() const;
  WT_API i64 infinite() const;
  WT_API i64 nans() const;
  // Elements with exponents from `low` to `high`, both included.
  WT_API i64 between(int low, int high) const;
  // What becomes of the elements times `scale`, of which the power of two counts that is not above
  // it. Throws UsageError for a dtype that is not floating, and unless 0 < scale < infinity.
  WT_API DTypeShares in(DType t, double scale = 1) const;
};

// How GradientExponents::text() draws.
struct ExponentTextOptions {
  bool colour = false;  // ANSI, 256 colours; else the characters " .:-=+*#%@"
  int columns = 48;     // of the map, at most
  int rows = 40;        // parameters, at most: those that f16 loses most of
};

// The exponents of a step's whole gradient: that of the mean loss, before clipping, which the
// update multiplies by the rate.
struct GradientExponents {
  std::vector<ExponentRow> rows;  // in the order of the parameters; without elements: no gradient
  double scale = 1;               // the loss scale that backward ran with; 1: none
  i64 attempt = -1;               // number of the step, from 0; -1: of no step

  // All rows together, under the name "all".
  WT_API ExponentRow total() const;
  // The largest power of two that leaves every finite element finite in that dtype; 0 where there
  // is no element that is neither zero nor inf or NaN.
  WT_API double largest_scale(DType t) const;
  // A map of exponents, columns, by parameters, rows, with what f16 loses of each without the scale
  // and with it; below it what f16 holds.
  WT_API std::string text(const ExponentTextOptions& options = {}) const;
};

namespace optim {

// Counts the exponents of the gradients that lie in the parameters of `opt`, each divided by
// `divisor` first (what backward began with, times the number of items that losses were summed
// over). One kernel an arena; waits for the device. Throws UsageError where no gradient has been
// written since zero_grad(), and unless divisor is finite and not 0; NumericError where a backward
// failed half way; PlacementError on meta; NotAvailable for an optimizer whose state is in parts.
WT_API GradientExponents gradient_exponents(Optimizer& opt, double divisor = 1,
                                            Frame at = Frame::here());

namespace detail {

// The exponents that a map shows, `each` to a column; the first column has all smaller ones too.
struct ExponentWindow {
  int low = 0, columns = 1, each = 1;
  int first(int column) const { return low + column * each; }
  // The share of a row's elements in a column.
  WT_API double share(const ExponentRow& row, int column) const;
};
// From the exponent that one element in 500 is below to the largest one.
WT_API ExponentWindow exponent_window(const GradientExponents& e, int most_columns);
// What a dtype makes of elements of that exponent times the scale: 'x' zero, '~' a number with
// fewer digits, '-' one with all of them, '^' infinity.
WT_API char held(DType t, int exponent, double scale);
// The rows to show where there is room for `most`: with elements, in their order, those that f16
// loses most of.
WT_API std::vector<const ExponentRow*> worst_rows(const GradientExponents& e, int most);
// "0", "<0.1", "3.1", "100": per cent.
WT_API std::string percent_of(double share);

}  // namespace detail
}  // namespace optim
}  // namespace wt
