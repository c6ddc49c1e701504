// What an entry of kernels/pointwise.h is: a struct with the value and one derivative an operand,
// written once as templates. With float or double they are the forward and the fused backward
// kernel on all three devices; with Tensor the derivative is a chain of differentiable operators,
// which is what create_graph needs. 16-bit types compute in float, integers in their own type.
#pragma once
#include "warptape/core/op_info.h"
#include "warptape/kernels/pointwise_math.h"

namespace wt {

// What an entry's derivatives read beside the gradient of the output.
enum PointwiseNeeds : int { kNeedsNone = 0, kNeedsA = 1, kNeedsB = 2, kNeedsOut = 4 };

namespace pw {

// The dtypes of the operands. floating: integers and bool are converted to the default dtype;
// numeric: not bool; integers: those alone; bits: integers and bool.
enum class Domain : u8 { floating, numeric, any, integers, bits };
constexpr bool has_floats(Domain d) { return d <= Domain::any; }
constexpr bool has_integers(Domain d) { return d != Domain::floating; }
constexpr bool has_bool(Domain d) { return d == Domain::any || d == Domain::bits; }

// The facts of an entry beside its formulas.
template <Domain D, Derivative V, Autocast A = Autocast::none>
struct Kind {
  static constexpr Domain kDomain = D;
  static constexpr Derivative kDerivative = V;
  static constexpr Autocast kAutocast = A;
  static constexpr bool kPredicate = false;  // the output is bool
  static constexpr bool kSelects = false;    // operand 0 is bool
  static constexpr bool kAngle = false;      // operand 0 is an angle, which may be too large for
                                             // vector code; its derivative asks for it again
  static constexpr bool kLong = false;       // dozens of steps an element: AVX-512 pays
  static constexpr bool kHot = false;        // the operator is inlined whole: for the tape's gates
  static constexpr bool kSignOfOutput = false;  // of the output, the derivative asks only for that
  // The derivatives have kernels of their own. False: each is a differentiable operator or two, and
  // an operand may be a Scalar there.
  static constexpr bool kFused = true;
  static constexpr int kNeeds0 = kNeedsNone, kNeeds1 = kNeedsNone;
};
using Smooth = Kind<Domain::floating, Derivative::smooth>;
using Wide = Kind<Domain::floating, Derivative::smooth, Autocast::f32>;  // loses much in 16 bits
using Binary = Kind<Domain::floating, Derivative::smooth, Autocast::promote>;
using Piecewise = Kind<Domain::numeric, Derivative::piecewise>;
struct Predicate : Kind<Domain::any, Derivative::none, Autocast::promote> {
  static constexpr bool kPredicate = true;
};

// The same, with kLong.
template <class K>
struct Long : K {
  static constexpr bool kLong = true;
};

// The value sees x (or a, b); the derivative also gy, the gradient of the output, and y, the
// output, as far as `needs` says.
#define WT_UNARY(Name, kind, needs, value_of_x, gradient)                                    \
  struct Name : kind {                                                                       \
    static constexpr int kArity = 1, kNeeds0 = needs;                                        \
    template <class T>                                                                       \
    WT_FORMULA static T value(T x) {                                                         \
      return value_of_x;                                                                     \
    }                                                                                        \
    template <class T>                                                                       \
    WT_FORMULA static T d0(T gy, [[maybe_unused]] const T& x, [[maybe_unused]] const T& y) { \
      return gradient;                                                                       \
    }                                                                                        \
  }
#define WT_BINARY(Name, kind, needs0, needs1, value_of_ab, gradient0, gradient1)           \
  struct Name : kind {                                                                     \
    static constexpr int kArity = 2, kNeeds0 = needs0, kNeeds1 = needs1;                   \
    template <class T>                                                                     \
    WT_FORMULA static T value(T a, T b) {                                                  \
      return value_of_ab;                                                                  \
    }                                                                                      \
    template <class T>                                                                     \
    WT_FORMULA static T d0(T gy, [[maybe_unused]] const T& a, [[maybe_unused]] const T& b, \
                           [[maybe_unused]] const T& y) {                                  \
      return gradient0;                                                                    \
    }                                                                                      \
    template <class T>                                                                     \
    WT_FORMULA static T d1(T gy, [[maybe_unused]] const T& a, [[maybe_unused]] const T& b, \
                           [[maybe_unused]] const T& y) {                                  \
      return gradient1;                                                                    \
    }                                                                                      \
  }
#define WT_UNARY_PREDICATE(Name, value_of_x) \
  struct Name : Predicate {                  \
    static constexpr int kArity = 1;         \
    template <class T>                       \
    WT_FORMULA static bool value(T x) {      \
      return value_of_x;                     \
    }                                        \
  }
#define WT_BINARY_PREDICATE(Name, value_of_ab) \
  struct Name : Predicate {                    \
    static constexpr int kArity = 2;           \
    template <class T>                         \
    WT_FORMULA static bool value(T a, T b) {   \
      return value_of_ab;                      \
    }                                          \
  }

}  // namespace pw
}  // namespace wt
