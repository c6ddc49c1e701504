#include "warptape/data/mesh_distance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/core/str.h"
#include "warptape/data/formats/mesh_parts.h"

namespace wt::data {
namespace {

constexpr TensorOptions kHostF32{.dtype = DType::f32, .device = Device::cpu()};

using Corners = std::array<Vector, 3>;

double squared_to_segment(const Vector& p, const Vector& a, const Vector& b) {
  const Vector side = minus(b, a);
  const double all = dot(side, side);
  const double t = all > 0 ? std::clamp(dot(minus(p, a), side) / all, 0.0, 1.0) : 0;
  const Vector off = minus(p, plus(a, times(t, side)));
  return dot(off, off);
}

// To the plane where the foot lies within the triangle, else to the nearest side.
double squared_to_triangle(const Vector& p, const Corners& c) {
  const Vector n = cross(minus(c[1], c[0]), minus(c[2], c[0]));
  bool within = dot(n, n) > 0;
  for (size_t k = 0; within && k < 3; ++k)
    within = dot(cross(minus(c[(k + 1) % 3], c[k]), minus(p, c[k])), n) >= 0;
  if (within) {
    const double off = dot(minus(p, c[0]), n);
    return off * off / dot(n, n);
  }
  double best = squared_to_segment(p, c[0], c[1]);
  best = std::min(best, squared_to_segment(p, c[1], c[2]));
  return std::min(best, squared_to_segment(p, c[2], c[0]));
}

// Solid angle of a triangle seen from p, over 4 pi (van Oosterom and Strackee 1983).
double winding_of(const Vector& p, const Corners& t) {
  const Vector a = minus(t[0], p), b = minus(t[1], p), c = minus(t[2], p);
  const double la = norm(a), lb = norm(b), lc = norm(c);
  const double below = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb;
  return std::atan2(dot(a, cross(b, c)), below) / (2 * std::numbers::pi);
}

}  // namespace

struct MeshDistance::Tree {
  // A box of triangles [begin, end); the second child of an inner node, whose first one follows it.
  struct Node {
    Vector low, high;
    size_t begin = 0, end = 0, second = 0;
    Vector dipole{}, centre{};  // sum of area times normal; the area's centre
    double radius = 0;          // around it
  };
  static constexpr size_t kLeaf = 8;
  static constexpr double kFar = 2.5;  // radii from where on a node is a dipole
  std::vector<Corners> triangles;
  std::vector<Node> nodes;

  explicit Tree(std::vector<Corners> all) : triangles(std::move(all)) {
    build(0, triangles.size());
  }

  void build(size_t begin, size_t end) {
    const size_t at = nodes.size();
    nodes.push_back(node_of(begin, end));
    if (end - begin <= kLeaf) return;
    const Vector size = minus(nodes[at].high, nodes[at].low);
    const size_t axis = size_t(std::max_element(size.begin(), size.end()) - size.begin());
    const size_t middle = begin + (end - begin) / 2;
    const auto place = [axis](const Corners& c) { return c[0][axis] + c[1][axis] + c[2][axis]; };
    const auto from = triangles.begin();
    std::nth_element(from + std::ptrdiff_t(begin), from + std::ptrdiff_t(middle),
                     from + std::ptrdiff_t(end),
                     [&](const Corners& a, const Corners& b) { return place(a) < place(b); });
    build(begin, middle);
    nodes[at].second = nodes.size();
    build(middle, end);
  }

  Node node_of(size_t begin, size_t end) const {
    Node n{triangles[begin][0], triangles[begin][0], begin, end};
    double area = 0;
    for (size_t i = begin; i < end; ++i) {
      const Corners& c = triangles[i];
      const Vector normal = times(0.5, cross(minus(c[1], c[0]), minus(c[2], c[0])));
      const double own = norm(normal);
      n.dipole = plus(n.dipole, normal);
      n.centre = plus(n.centre, times(own / 3, plus(c[0], plus(c[1], c[2]))));
      area += own;
      for (const Vector& v : c)
        for (size_t k = 0; k < 3; ++k) {
          n.low[k] = std::min(n.low[k], v[k]);
          n.high[k] = std::max(n.high[k], v[k]);
        }
    }
    n.centre = area > 0 ? times(1 / area, n.centre) : times(0.5, plus(n.low, n.high));
    for (size_t i = begin; i < end; ++i)
      for (const Vector& v : triangles[i]) n.radius = std::max(n.radius, norm(minus(v, n.centre)));
    return n;
  }

  static double squared_to_box(const Node& n, const Vector& p) {
    double sum = 0;
    for (size_t k = 0; k < 3; ++k) {
      const double off = std::max({n.low[k] - p[k], 0.0, p[k] - n.high[k]});
      sum += off * off;
    }
    return sum;
  }

  void nearest(size_t at, const Vector& p, double& best) const {
    const Node& n = nodes[at];
    if (n.second == 0) {
      for (size_t i = n.begin; i < n.end; ++i)
        best = std::min(best, squared_to_triangle(p, triangles[i]));
      return;
    }
    size_t first = at + 1, second = n.second;
    double near = squared_to_box(nodes[first], p), far = squared_to_box(nodes[second], p);
    if (far < near) std::swap(first, second), std::swap(near, far);
    if (near < best) nearest(first, p, best);
    if (far < best) nearest(second, p, best);
  }

  double winding(size_t at, const Vector& p) const {
    const Node& n = nodes[at];
    const Vector off = minus(n.centre, p);
    const double distance = norm(off);
    if (distance > kFar * n.radius)
      return dot(n.dipole, off) / (4 * std::numbers::pi * distance * distance * distance);
    if (n.second > 0) return winding(at + 1, p) + winding(n.second, p);
    double sum = 0;
    for (size_t i = n.begin; i < n.end; ++i) sum += winding_of(p, triangles[i]);
    return sum;
  }

  double distance(const Vector& p) const {
    double best = INFINITY;
    nearest(0, p, best);
    return winding(0, p) > 0.5 ? -std::sqrt(best) : std::sqrt(best);
  }
};

namespace {

template <class F>
Tensor at_each(const Tensor& points, const F& f) {
  if (points.ndim() != 2 || points.size(1) != 3)
    throw ShapeError(str("[MeshDistance] points must be [N, 3], got ", points.shape()));
  if (points.dtype() != DType::f32 && points.dtype() != DType::f64)
    throw DtypeError(
        str("[MeshDistance] points must be f32 or f64, got ", dtype_name(points.dtype())));
  const std::vector<double> p = points.to_vector<double>();
  Tensor out = empty({points.size(0)}, kHostF32);
  float* const to = out.mutable_data<float>();
  for (size_t i = 0; i < p.size(); i += 3) to[i / 3] = float(f(Vector{p[i], p[i + 1], p[i + 2]}));
  return out;
}

}  // namespace

MeshDistance::MeshDistance(const Mesh& mesh) {
  check_mesh("MeshDistance", mesh);
  if (mesh.faces.size(0) == 0)
    throw UsageError("[MeshDistance] a mesh without faces has no surface to be distant from");
  const float* const v = mesh.vertices.data<float>();
  const i64* const f = mesh.faces.data<i64>();
  std::vector<Corners> all(size_t(mesh.faces.size(0)));
  for (size_t i = 0; i < 3 * all.size(); ++i)
    for (size_t k = 0; k < 3; ++k) all[i / 3][i % 3][k] = v[3 * f[i] + i64(k)];
  tree_ = std::make_shared<const Tree>(std::move(all));
}

Tensor MeshDistance::operator()(const Tensor& points) const {
  return at_each(points, [&](const Vector& p) { return tree_->distance(p); });
}
Tensor MeshDistance::winding(const Tensor& points) const {
  return at_each(points, [&](const Vector& p) { return tree_->winding(0, p); });
}

// --- samples ---

Tensor sample_distances(const Mesh& mesh, const DistanceSamplesOptions& o) {
  return sample_distances(mesh, MeshDistance(mesh), o);
}

Tensor sample_distances(const Mesh& mesh, const MeshDistance& distance,
                        const DistanceSamplesOptions& o) {
  if (o.points < 1 || !(o.near >= 0 && o.near <= 1) || !(o.spread > 0) || !(o.reach > 0))
    throw UsageError(
        str("[sample_distances] points must be at least 1, near in [0, 1], spread and "
            "reach above 0, got ",
            o.points, ", ", o.near, ", ", o.spread, " and ", o.reach));
  const i64 near = std::llround(o.near * double(o.points));
  const SurfacePoints surface = sample_surface(mesh, near, o.seed);
  const PhiloxKey key = philox_key(o.seed, RandomStream::user, 4);
  Tensor places = empty({o.points, 3}, kHostF32);
  float* const p = places.mutable_data<float>();
  for (i64 i = 0; i < o.points; ++i)
    for (i64 k = 0; k < 3; ++k) {
      const PhiloxBlock b = philox(key, u64(i), u64(k));
      const double u = uniform53(b.v[0], b.v[1]), v = uniform53(b.v[2], b.v[3]);
      // Box and Muller's normal number around the surface.
      const double normal = std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * std::numbers::pi * v);
      p[3 * i + k] = i < near ? surface.points.data<float>()[3 * i + k] +
                                    float(normal * (i % 2 ? o.spread : o.spread / 3))
                              : float(o.reach * (2 * u - 1));
    }
  const Tensor d = distance(places);
  Tensor out = empty({o.points, 4}, kHostF32);
  float* const to = out.mutable_data<float>();
  for (i64 i = 0; i < o.points; ++i) {
    std::copy_n(p + 3 * i, 3, to + 4 * i);
    to[4 * i + 3] = d.data<float>()[i];
  }
  return out;
}

}  // namespace wt::data
