// The library's functions against the host's, within CUDA's documented error bounds (in units of the
// last place), large arguments of sin and cos included; and arithmetic with a rounding of its choice.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#define CHECK(call)                                             \
  if (const cudaError_t e = (call); e != cudaSuccess) {         \
    std::printf("math_functions: %s\n", cudaGetErrorString(e)); \
    return 1;                                                   \
  }

// x, a function of it, and how far it may be off. Both types use the same names.
#define FUNCTIONS(F)                   \
  F(sin(x), 2)                         \
  F(cos(x), 2)                         \
  F(tan(x), 4)                         \
  F(exp(x), 2)                         \
  F(exp2(x), 2)                        \
  F(expm1(x), 2)                       \
  F(log(fabs(x)), 2)                   \
  F(log2(fabs(x)), 2)                  \
  F(log10(fabs(x)), 3)                 \
  F(log1p(fabs(x)), 2)                 \
  F(sqrt(fabs(x)), 0)                  \
  F(cbrt(x), 2)                        \
  F(atan(x), 2)                        \
  F(atan2(x, T(0.7)), 3)               \
  F(asin(x / (fabs(x) + 1)), 4)        \
  F(sinh(x / 64), 3)                   \
  F(tanh(x), 2)                        \
  F(erf(x), 2)                         \
  F(erfc(x / 64), 5)                   \
  F(tgamma(fabs(x) / 16 + T(0.5)), 10) \
  F(pow(fabs(x), T(1.7)), 9)           \
  F(hypot(x, T(3)), 3)                 \
  F(fmod(x, T(0.3)), 0)                \
  F(floor(x), 0)                       \
  F(rint(x * 3), 0)                    \
  F(round(x * 2), 0)                   \
  F(trunc(x * 5), 0)                   \
  F(copysign(T(2), x), 0)              \
  F(ldexp(x, 5), 0)                    \
  F(fma(x, x, -x), 0)                  \
  F(T(1) / (x + T(0.25)), 0)           \
  F(nextafter(x, T(100)), 0)           \
  F(remainder(x, T(0.7)), 0)

template <class T>
__global__ void evaluate(const T* in, T* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T x = in[i];
#define WRITE(expression, ulp) \
  out[i] = expression;         \
  out += n;
  FUNCTIONS(WRITE)
}

// The distance in places of T; the exact value is given in a wider type.
template <class T>
double places(T got, double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : 1e9;
  const T near = T(exact);
  if (got == near) return 0;
  if (std::isinf(got) || std::isinf(near)) return 1e9;
  const double unit = std::fabs(double(near)) - std::fabs(double(std::nextafter(near, T(0))));
  return std::fabs(double(got) - exact) / (unit > 0 ? unit : 1e-300);
}

template <class T>
int check(const char* name) {
  std::vector<T> in;
  for (int i = -40; i <= 40; ++i) in.push_back(T(i) * T(0.37) + T(0.011));
  for (T big : {1e3, 54321.9, 1e6, 3.3e9, 2e15}) {
    in.push_back(big);
    in.push_back(-big);
  }
  in.push_back(T(1e-30));
  const int n = int(in.size());
  int functions = 0;
#define COUNT(expression, ulp) ++functions;
  FUNCTIONS(COUNT)
  std::vector<T> out(n * functions);
  T *din, *dout;
  CHECK(cudaMalloc(&din, n * sizeof(T)));
  CHECK(cudaMalloc(&dout, out.size() * sizeof(T)));
  CHECK(cudaMemcpy(din, in.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  evaluate<<<2, 64>>>(din, dout, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), dout, out.size() * sizeof(T), cudaMemcpyDeviceToHost));
  using std::fabs;
  const T* got = out.data();
  // Inner values in T on the host, too: the device rounds them as well.
#define COMPARE(expression, ulp)                                                               \
  for (int i = 0; i < n; ++i) {                                                                \
    const T x = in[i];                                                                         \
    if (const double off = places<T>(got[i], double(expression)); off > ulp + (ulp ? 1 : 0)) { \
      std::printf("math_functions: %s: %s of %.17g is %.17g, off by %.3g places\n", name,      \
                  #expression, double(x), double(got[i]), off);                                \
      return 1;                                                                                \
    }                                                                                          \
  }                                                                                            \
  got += n;
  FUNCTIONS(COMPARE)
  CHECK(cudaFree(din));
  CHECK(cudaFree(dout));
  return 0;
}

__global__ void roundings(float a, float b, double c, double d, float* f, double* g) {
  f[0] = __fadd_rd(a, b);
  f[1] = __fadd_ru(a, b);
  f[2] = __fmul_rz(a, b);
  f[3] = __fdiv_ru(a, b);
  f[4] = __fsqrt_rd(b);
  f[5] = __fmaf_rz(a, b, -a);
  f[6] = __frcp_rn(b);
  f[7] = __double2float_ru(c);
  f[8] = __int2float_rz(16777219);
  f[9] = __saturatef(a * 100);
  f[10] = __fdividef(a, b);
  f[11] = __sinf(a) * __cosf(a) + __expf(b) + __logf(b) + __powf(a, b) + __exp10f(b);
  g[0] = __dadd_rd(c, d);
  g[1] = __dmul_ru(c, d);
  g[2] = __ddiv_rz(c, d);
  g[3] = __fma_rn(c, d, -c);
  g[4] = __dsqrt_ru(d);
  g[5] = rsqrt(d);
}

int check_roundings() {
  // 1/3 and 1/10 as float and double, whose sums and products are not exact.
  const float a = 1.0f / 3, b = 0.1f;
  const double c = 1.0 / 3, d = 0.1;
  float* f;
  double* g;
  CHECK(cudaMalloc(&f, 12 * sizeof(float)));
  CHECK(cudaMalloc(&g, 6 * sizeof(double)));
  roundings<<<1, 1>>>(a, b, c, d, f, g);
  CHECK(cudaGetLastError());
  float x[12];
  double y[6];
  CHECK(cudaMemcpy(x, f, sizeof x, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(y, g, sizeof y, cudaMemcpyDeviceToHost));
  const double sum = double(a) + b, product = double(a) * b, quotient = double(a) / b;
  const auto below = [](float r, double exact) {
    return r <= exact && std::nextafter(r, 1e9f) > exact;
  };
  const auto above = [](float r, double exact) {
    return r >= exact && std::nextafter(r, -1e9f) < exact;
  };
  const double fast = std::sin(a) * std::cos(a) + std::exp(b) + std::log(b) + std::pow(a, b) +
                      std::pow(10.0, double(b));
  const bool right[] = {below(x[0], sum),
                        above(x[1], sum),
                        below(x[2], product),
                        above(x[3], quotient),
                        below(x[4], std::sqrt(double(b))),
                        above(x[5], product - a),
                        x[6] == 1.0f / b,
                        above(x[7], c),
                        x[8] == 16777218.0f,
                        x[9] == 1.0f,
                        std::fabs(x[10] - quotient) < 1e-5,
                        std::fabs(x[11] - fast) < 1e-5,
                        y[0] <= c + d && y[0] >= std::nextafter(c + d, 0.0),
                        y[1] >= c * d && y[1] <= std::nextafter(c * d, 1.0),
                        y[2] <= c / d && y[2] >= std::nextafter(c / d, 0.0),
                        y[3] == std::fma(c, d, -c),
                        y[4] >= std::sqrt(d) && y[4] <= std::nextafter(std::sqrt(d), 1.0),
                        std::fabs(y[5] - 1 / std::sqrt(d)) < 1e-14};
  for (size_t i = 0; i < sizeof right; ++i) {
    if (!right[i]) {
      std::printf("math_functions: rounding %d is wrong\n", int(i));
      return 1;
    }
  }
  return 0;
}

int main() {
  if (check<float>("float") || check<double>("double") || check_roundings()) return 1;
  std::printf("math_functions: ok\n");
}
