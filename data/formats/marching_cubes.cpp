#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/str.h"
#include "warptape/data/formats/mesh_parts.h"
#include "warptape/data/mesh_distance.h"

namespace wt::data {
namespace {

// Corner c of a cube lies at its bits: x is bit 0, y bit 1, z bit 2. The faces, counter-clockwise
// seen from outside.
constexpr int kCubeFaces[6][4] = {{0, 4, 6, 2}, {1, 3, 7, 5}, {0, 1, 5, 4},
                                  {2, 6, 7, 3}, {0, 2, 3, 1}, {4, 5, 7, 6}};

// An edge by the pair of its corners: 8 a + b, a < b.
constexpr int edge_of(int a, int b) { return a < b ? 8 * a + b : 8 * b + a; }

// The loops in which a surface passes a cube whose corners in `inside` are below it. On each face
// the path from where the outline leaves the inside leads back to where it entered; neighbours see
// an edge from both ends, so that each edge begins one path.
std::vector<std::vector<int>> loops_of(unsigned inside) {
  const auto in = [&](int corner) { return (inside >> corner & 1) != 0; };
  int next[64];
  std::fill(next, next + 64, -1);
  for (const auto& face : kCubeFaces)
    for (int k = 0; k < 4; ++k) {
      if (!in(face[k]) || in(face[(k + 1) % 4])) continue;  // here it leaves
      int first = k;
      while (in(face[(first + 3) % 4])) first = (first + 3) % 4;
      next[edge_of(face[k], face[(k + 1) % 4])] = edge_of(face[first], face[(first + 3) % 4]);
    }
  std::vector<std::vector<int>> loops;
  for (int start = 0; start < 64; ++start) {
    if (next[start] < 0) continue;
    std::vector<int> loop;
    for (int at = start; next[at] >= 0;) {
      loop.push_back(at);
      at = std::exchange(next[at], -1);
    }
    loops.push_back(std::move(loop));
  }
  return loops;
}

using Loops = std::vector<std::vector<int>>;
const std::array<Loops, 256>& all_loops() {
  static const std::array<Loops, 256> kAll = [] {
    std::array<Loops, 256> all;
    for (unsigned c = 0; c < 256; ++c) all[c] = loops_of(c);
    return all;
  }();
  return kAll;
}

class Marcher {
 public:
  Marcher(std::vector<double> values, const Shape& shape, const MarchingCubesOptions& o)
      : o_(o), v_(std::move(values)), seen_(3 * v_.size(), -1) {
    for (int k = 0; k < 3; ++k) n_[k] = shape[size_t(k)];
  }

  Mesh run() {
    for (i64 x = 0; x + 1 < n_[0]; ++x)
      for (i64 y = 0; y + 1 < n_[1]; ++y)
        for (i64 z = 0; z + 1 < n_[2]; ++z) cube(x, y, z);
    const TensorOptions host{.device = Device::cpu()};
    Mesh m;
    m.vertices = tensor(points_, host).reshape({-1, 3});
    m.faces = tensor(faces_, host).reshape({-1, 3});
    m.degenerate = count_degenerate(points_, faces_);
    return m;
  }

 private:
  i64 place(i64 x, i64 y, i64 z) const { return (x * n_[1] + y) * n_[2] + z; }
  i64 corner(i64 cell, int c) const {
    return cell + (c & 1) * n_[1] * n_[2] + (c >> 1 & 1) * n_[2] + (c >> 2);
  }

  void cube(i64 x, i64 y, i64 z) {
    const i64 cell = place(x, y, z);
    unsigned inside = 0;
    for (int c = 0; c < 8; ++c) inside |= unsigned(v_[size_t(corner(cell, c))] < o_.level) << c;
    for (const std::vector<int>& loop : all_loops()[inside])
      for (size_t k = 2; k < loop.size(); ++k)
        for (const size_t e : {size_t(0), k, k - 1}) faces_.push_back(vertex(cell, loop[e]));
  }

  // The vertex on an edge of a cell; made once, where the first cell asks.
  i64 vertex(i64 cell, int edge) {
    const int a = edge / 8, b = edge % 8;
    const int axis = (b - a) == 1 ? 0 : (b - a) == 2 ? 1 : 2;
    const i64 from = corner(cell, a), to = corner(cell, b);
    i64& known = seen_[size_t(3 * from + axis)];
    if (known >= 0) return known;
    const double va = v_[size_t(from)], vb = v_[size_t(to)];
    const double part = (o_.level - va) / (vb - va);
    const i64 at[3] = {from / (n_[1] * n_[2]), from / n_[2] % n_[1], from % n_[2]};
    for (int k = 0; k < 3; ++k) {
      const double step = (o_.high - o_.low) / double(n_[k] - 1);
      points_.push_back(float(o_.low + step * (double(at[k]) + (k == axis ? part : 0))));
    }
    return known = i64(points_.size() / 3) - 1;
  }

  MarchingCubesOptions o_;
  std::vector<double> v_;
  i64 n_[3];
  std::vector<i64> seen_;
  std::vector<float> points_;
  std::vector<i64> faces_;
};

void append(std::string& text, const auto number) {
  char digits[32];
  text.append(" ").append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

}  // namespace

Mesh marching_cubes(const Tensor& values, const MarchingCubesOptions& o) {
  if (values.ndim() != 3 || values.size(0) < 2 || values.size(1) < 2 || values.size(2) < 2)
    throw ShapeError(
        str("[marching_cubes] values must be [nx, ny, nz], each at least 2, got ", values.shape()));
  if (values.dtype() != DType::f32 && values.dtype() != DType::f64)
    throw DtypeError(
        str("[marching_cubes] values must be f32 or f64, got ", dtype_name(values.dtype())));
  std::vector<double> v = values.to_vector<double>();
  for (size_t i = 0; i < v.size(); ++i)
    if (!std::isfinite(v[i]))
      throw UsageError(str("[marching_cubes] value ", i, " is ", v[i], ", not finite"));
  return Marcher(std::move(v), values.shape(), o).run();
}

std::string obj_text(const Mesh& m) {
  std::string text;
  const float* const v = m.vertices.data<float>();
  for (i64 i = 0; i < m.vertices.size(0); ++i) {
    text += "v";
    for (i64 k = 0; k < 3; ++k) append(text, v[3 * i + k]);
    text += "\n";
  }
  const i64* const f = m.faces.data<i64>();
  for (i64 i = 0; i < m.faces.size(0); ++i) {
    text += "f";
    for (i64 k = 0; k < 3; ++k) append(text, f[3 * i + k] + 1);
    text += "\n";
  }
  return text;
}

void write_obj(const std::string& path, const Mesh& mesh) {
  write_file_atomically(path, obj_text(mesh));
}

}  // namespace wt::data
