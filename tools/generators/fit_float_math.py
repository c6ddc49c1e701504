#!/usr/bin/env python3
"""Coefficients of kernels/common/float_math.h and common/normal_math.h: minimax polynomials by Remez' exchange (E. Remes, 1934).

For each function f(x) ~ p(x) on [a, b], the largest weighted error max |w(x) (f(x) - p(x))| is
levelled on a reference of degree + 2 points. Then coefficients are rounded to float one by one,
from the constant term up, and the others fitted again, so that one rounding makes up for another.
Needs mpmath. Usage: fit_float_math.py [NAME...]. Prints the coefficients, constant term first, and
the error in units of 2^-24."""
import struct
import sys

import usage

usage.answer(__doc__)

import mpmath as mp  # noqa: E402

mp.mp.dps = 40


def to_float(v):
    return mp.mpf(struct.unpack("f", struct.pack("f", float(v)))[0])


def solve(points, f, w, powers, fixed):
    """Levels the error on `points`: coefficients of the powers that are not fixed."""
    free = [k for k in powers if k not in fixed]
    a = mp.matrix(len(points), len(free) + 1)
    b = mp.matrix(len(points), 1)
    for i, x in enumerate(points):
        for j, k in enumerate(free):
            a[i, j] = x**k
        a[i, len(free)] = (-1) ** i / w(x)
        b[i] = f(x) - sum(c * x**k for k, c in fixed.items())
    s = mp.lu_solve(a, b)
    c = dict(fixed)
    c.update({k: s[j] for j, k in enumerate(free)})
    return c


def remez(f, a, b, degree, w, fixed=None, grid=600, rounds=12):
    fixed = dict(fixed or {})
    powers = list(range(degree + 1))
    n = degree + 1 - len(fixed) + 1
    a, b = mp.mpf(a), mp.mpf(b)
    xs = [a + (b - a) * (1 - mp.cos(mp.pi * i / grid)) / 2 for i in range(grid + 1)]
    fs = [f(x) for x in xs]
    ws = [w(x) for x in xs]
    value = dict(zip(xs, fs))
    weight = dict(zip(xs, ws))
    points = [xs[round(i * grid / (n - 1))] for i in range(n)]
    best = None
    for _ in range(rounds):
        c = solve(points, value.get, weight.get, powers, fixed)
        e = [ws[i] * (fs[i] - sum(c[k] * x**k for k in powers)) for i, x in enumerate(xs)]
        worst = max(abs(v) for v in e)
        if best is None or worst < best[1]:
            best = (c, worst)
        # the largest error of every stretch of one sign
        extremes = [0]
        for i in range(1, len(xs)):
            if (e[i] > 0) == (e[extremes[-1]] > 0):
                if abs(e[i]) > abs(e[extremes[-1]]):
                    extremes[-1] = i
            else:
                extremes.append(i)
        while len(extremes) > n:
            extremes.pop(0 if abs(e[extremes[0]]) < abs(e[extremes[-1]]) else -1)
        if len(extremes) < n:
            break
        points = [xs[i] for i in extremes]
    return best


def fit(name, f, a, b, degree, w, exact=(), rounded=True):
    fixed = {k: to_float(v) for k, v in dict(exact).items()}
    c, worst = remez(f, a, b, degree, w, fixed)
    if rounded:
        for k in range(degree + 1):
            if k in fixed:
                continue
            c, worst = remez(f, a, b, degree, w, fixed, grid=300, rounds=6)
            fixed[k] = to_float(c[k])
        c = fixed
        grid = [mp.mpf(a) + (mp.mpf(b) - mp.mpf(a)) * i / 2000 for i in range(2001)]
        worst = max(abs(w(x) * (f(x) - sum(c[k] * x**k for k in c))) for x in grid)
    print(f"{name}: error {mp.nstr(worst * 2**24, 4)} units of 2^-24")
    for k in range(degree + 1):
        print(f"  {float(c[k]).hex() if rounded else mp.nstr(c[k], 18)}  {mp.nstr(c[k], 9)}")


def even(f, limit):
    """f(sqrt(s)), whose limit at 0 is given."""
    return lambda s: limit if s < mp.mpf(10) ** -14 else f(mp.sqrt(s))


def at_0(f, limit):
    return lambda x: limit if abs(x) < mp.mpf(10) ** -12 else f(x)


def floor(w):
    """Weights that vanish at 0 would leave the solver without a scale."""
    return lambda x: max(w(x), mp.mpf(10) ** -9)


THIRD = mp.mpf(1) / 3
TURN = 2 * mp.pi
LN_HALF = mp.mpf("0.3467")  # half of ln 2, and a little
EXP = at_0(lambda r: (mp.exp(r) - 1 - r) / r**2, mp.mpf(1) / 2)
LOG = at_0(lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3, THIRD)

# name: what is fitted, function, from, to, degree, weight, rounded to float
FITS = {
    "exp": ("e^r = 1 + r + r^2 p(r)", EXP, -LN_HALF, LN_HALF, 4,
            floor(lambda r: r**2 / mp.exp(r)), True),
    "expm1": ("the same, relative to e^r - 1", EXP, -LN_HALF, LN_HALF, 5,
              floor(at_0(lambda r: abs(r * r / (mp.exp(r) - 1)), 0)), True),
    "log": ("log(1 + f) = f - f^2 / 2 + f^3 p(f)", LOG, mp.sqrt(0.5) - 1, mp.sqrt(2) - 1, 8,
            floor(at_0(lambda f: abs(f**3 / mp.log(1 + f)), 0)), True),
    "tanh": ("tanh x = x + x s p(s), s = x^2", even(lambda x: (mp.tanh(x) - x) / x**3, -THIRD),
             0, 0.625**2, 4, floor(lambda s: s), True),
    "sinh": ("sinh x = x + x s p(s), s = x^2", even(lambda x: (mp.sinh(x) - x) / x**3, THIRD / 2),
             0, 1, 3, floor(lambda s: s), True),
    "erf": ("erf x = x + x p(s)", even(lambda x: mp.erf(x) / x - 1, 2 / mp.sqrt(mp.pi) - 1),
            0, 0.75**2, 5, even(lambda x: x / mp.erf(x), mp.sqrt(mp.pi) / 2), True),
    "erfc": ("erfc t = e^-p(t)", lambda t: -mp.log(mp.erfc(t)), 0.75, 3.95, 6,
             lambda t: mp.erfc(t) / mp.erf(t), True),
    "sin": ("sin r = r + r s p(s)", even(lambda r: (mp.sin(r) / r - 1) / r**2, -THIRD / 2),
            0, 0.79**2, 2, floor(even(lambda r: r**3 / mp.sin(r), 0)), True),
    "cos": ("cos r = 1 - s / 2 + s^2 p(s)",
            even(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4, mp.mpf(1) / 24),
            0, 0.79**2, 2, floor(even(lambda r: r**4 / mp.cos(r), 0)), True),
    "tan": ("tan r = r + r s p(s), double", even(lambda r: (mp.tan(r) / r - 1) / r**2, THIRD),
            0, 0.79**2, 6, floor(even(lambda r: r**3 / mp.tan(r), 0)), False),
    "atan": ("atan q = q + q s p(s)", even(lambda q: (mp.atan(q) / q - 1) / q**2, -THIRD),
             0, 1, 8, floor(even(lambda q: q**3 / mp.atan(q), 0)), True),
    "asin": ("asin x = x + x s p(s), s = x^2", even(lambda x: (mp.asin(x) / x - 1) / x**2, THIRD / 2),
             0, mp.mpf(1) / 4, 4, floor(even(lambda x: x**3 / mp.asin(x), 0)), True),
    "log2": ("log((1 + z) / (1 - z)) = z (2 + s p(s)), s = z^2, double",
             even(lambda z: (2 * mp.atanh(z) / z - 2) / z**2, 2 * THIRD),
             0, mp.mpf("0.1716") ** 2, 5, floor(lambda s: s), False),
    "log_double": ("log((1 + z) / (1 - z)) = z (2 + s p(s)), s = z^2, double",
                   even(lambda z: (2 * mp.atanh(z) / z - 2) / z**2, 2 * THIRD),
                   0, mp.mpf("0.1716") ** 2, 6, floor(lambda s: s), False),
    "sin_turn": ("sin 2 pi t = 2 pi t + t s p(s), s = t^2, double",
                 even(lambda t: (mp.sin(TURN * t) / t - TURN) / t**2, -(TURN**3) / 6),
                 0, mp.mpf(1) / 64, 5, floor(lambda s: s), False),
    "cos_turn": ("cos 2 pi t = 1 + s p(s), double",
                 even(lambda t: (mp.cos(TURN * t) - 1) / t**2, -(TURN**2) / 2),
                 0, mp.mpf(1) / 64, 6, floor(lambda s: s), False),
    "exp2": ("2^r = 1 + r p(r), double", at_0(lambda r: (mp.mpf(2) ** r - 1) / r, mp.log(2)),
             -0.5, 0.5, 6, floor(abs), False),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FITS:
        what, f, a, b, degree, w, rounded = FITS[name]
        fit(f"{name}: {what}", f, a, b, degree, w, rounded=rounded)
