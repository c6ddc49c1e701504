// What you write in double_backward.cpp. The lab's checks call these functions and nothing else.
#pragma once
#include <functional>

#include "warptape/core/tensor.h"

namespace twice {

using wt::Tensor;

// --- 1. An operator with a backward of its own ---

// x exp(-x^2 / 2), element by element: one node on the tape, made by wt::apply(), whose derivatives
// of every order are right.
Tensor ripple(const Tensor& x);

// --- 2. Derivatives that are part of a formula ---

// d y_i / d x_i for each row: x is [n, d] and requires a gradient, y is [n, 1], and row i of y was
// computed from row i of x (and from weights) alone. The result, [n, d], is on the tape: it can be
// differentiated by x and by the weights. Zeros where y does not depend on x at all.
Tensor derivative(const Tensor& y, const Tensor& x);

// A field u(t, x): takes points [n, 2] of (t, x) and gives [n, 1], each row from its own point.
using Field = std::function<Tensor(const Tensor& points)>;

// u_t + u u_x - nu u_xx at each of the points, [n, 1]: zero where u obeys the equation of Burgers.
// `points` [n, 2] requires no gradient.
Tensor residual(const Field& u, const Tensor& points, double nu);

// What a network u is trained by: the mean of the squared residuals at `inside`, plus the mean
// of (u - values)^2 at `known`. One element; backward() gives the gradient of all of it.
Tensor physics_loss(const Field& u, const Tensor& inside, double nu, const Tensor& known,
                    const Tensor& values);

// --- 3. Second derivatives without the matrix ---

// A function of one vector.
using Function = std::function<Tensor(const Tensor&)>;

// H v, where H are the second derivatives of f at x and f gives one element; x and v are [n] and
// require no gradient. n may be in the thousands: there is no room for n x n numbers.
Tensor hessian_product(const Function& f, const Tensor& x, const Tensor& v);

// The challenge: J v, where J [m, n] are the derivatives of f at x, f gives [m], x and v are [n].
// However large m is, two backwards are enough, and there is no room for J.
Tensor push_forward(const Function& f, const Tensor& x, const Tensor& v);

}  // namespace twice
