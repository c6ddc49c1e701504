// What a forward transform of one length needs: factors, roots of unity, and for lengths with large
// prime factors the chirp. Internal to the cpu's transforms.
#pragma once
#include <memory>
#include <vector>

#include "warptape/core/types.h"

namespace wt {

// Real and imaginary parts apart: loops over neighbours are then vector code.
template <class C>
struct SplitComplex {
  C *re, *im;
};
template <class C>
struct SplitValues {
  std::vector<C> re, im;
  explicit SplitValues(size_t n = 0) : re(n), im(n) {}
};

// A length whose prime factors are at most 31 is worked off in stages, one a factor (Stockham's
// order: Cochran et al. 1967, "What is the fast Fourier transform?"). Of another length n the
// transform is a convolution with a chirp (Bluestein 1970), which is two transforms of a smooth
// length of at least 2 n - 1.
template <class C>
struct FftPlan {
  i64 n = 1;                   // of the transform
  i64 length = 1;              // that the stages work on
  std::vector<i64> radices{};  // of the stages
  SplitValues<C> roots{};      // exp(-2 pi i t / length)
  SplitValues<C> chirp{};      // exp(-pi i j^2 / n); empty where n is worked on itself
  SplitValues<C> filter{};     // the transform of its conjugate, divided by `length`
  explicit FftPlan(i64 n);
};

// What the stages of a transform of n numbers work on.
i64 fft_length(i64 n);

// The plan of a length, from those that were used last or made anew.
template <class C>
std::shared_ptr<const FftPlan<C>> fft_plan(i64 n);

// The transforms of `lanes` rows at once: number j of row b is at j * lanes + b. x and `other` have
// room for plan.length numbers a row; the result is in the one that is returned.
template <class C>
SplitComplex<C> fft_run(const FftPlan<C>& plan, SplitComplex<C> x, SplitComplex<C> other,
                        i64 lanes);

}  // namespace wt
