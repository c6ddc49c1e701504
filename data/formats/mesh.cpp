#include "warptape/data/mesh.h"

#include <algorithm>

#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/data/formats/mesh_parts.h"

namespace wt::data {
namespace {

constexpr TensorOptions kHostPoints{.dtype = DType::f32, .device = Device::cpu()};

struct Triangle {
  Vector a, u, v;  // a corner and the sides from there
  Vector normal() const { return cross(u, v); }
};
Triangle triangle_of(const float* points, const i64* corners) {
  const auto at = [&](i64 i) {
    return Vector{points[3 * i], points[3 * i + 1], points[3 * i + 2]};
  };
  const Vector a = at(corners[0]);
  return {a, minus(at(corners[1]), a), minus(at(corners[2]), a)};
}

Tensor checked_points(const char* name, const Tensor& points) {
  if (points.ndim() != 2 || points.size(1) != 3)
    throw ShapeError(str("[", name, "] points must be [N, 3], got ", points.shape()));
  if (points.dtype() != DType::f32)
    throw DtypeError(str("[", name, "] points must be f32, got ", dtype_name(points.dtype())));
  return points.to(Device::cpu()).contiguous();
}

// (p - centre) / size
Tensor moved(const Tensor& points, const Vector& centre, double size) {
  Tensor out = empty(points.shape(), kHostPoints);
  const float* from = points.data<float>();
  float* to = out.mutable_data<float>();
  for (i64 i = 0; i < points.numel(); ++i)
    to[i] = float((double(from[i]) - centre[size_t(i % 3)]) / (size > 0 ? size : 1));
  return out;
}

}  // namespace

void check_mesh(const char* name, const Mesh& m) {
  const auto host = [](const Tensor& t, DType dtype) {
    return t.defined() && t.ndim() == 2 && t.size(1) == 3 && t.dtype() == dtype &&
           t.device() == Device::cpu() && t.is_contiguous();
  };
  if (!host(m.vertices, DType::f32) || !host(m.faces, DType::i64))
    throw UsageError(str("[", name,
                         "] a mesh needs vertices f32 [V, 3] and faces i64 [F, 3], contiguous on "
                         "the cpu, got ",
                         describe(m.vertices), " and ", describe(m.faces)));
  const i64 vertices = m.vertices.size(0);
  const i64* corners = m.faces.data<i64>();
  for (i64 k = 0; k < m.faces.numel(); ++k)
    if (corners[k] < 0 || corners[k] >= vertices)
      throw IndexError(str("[", name, "] vertex ", corners[k], " of face ", k / 3,
                           " is outside [0, ", vertices, ")"));
}

i64 count_degenerate(const std::vector<float>& points, const std::vector<i64>& triangles) {
  i64 count = 0;
  for (size_t f = 0; f + 2 < triangles.size(); f += 3)
    count += !(norm(triangle_of(points.data(), triangles.data() + f).normal()) > 0);
  return count;
}

Mesh MeshBuilder::finish() const {
  Mesh m;
  const CategoryScope scope(Category::dataset);
  m.vertices = tensor(points_, kHostPoints).view({vertices(), 3});
  m.faces = tensor(triangles_, {.dtype = DType::i64, .device = Device::cpu()}).view({faces(), 3});
  m.degenerate = count_degenerate(points_, triangles_);
  return m;
}

Mesh read_mesh(const std::string& path, const ParseLimits& limits) {
  std::string_view name = path;
  for (const std::string_view packing : {".gz", ".xz"})
    if (name.ends_with(packing)) name.remove_suffix(packing.size());
  if (name.ends_with(".obj")) return read_obj(path, limits);
  if (name.ends_with(".off")) return read_off(path, limits);
  if (name.ends_with(".ply")) return read_ply(path, limits);
  if (name.ends_with(".xyz")) return read_xyz(path, limits);
  throw UsageError("[read_mesh] " + printable_path(path) +
                   " ends in neither .obj nor .off, .ply or .xyz");
}

SurfacePoints sample_surface(const Mesh& mesh, i64 n, u64 seed) {
  if (n < 0) throw UsageError(str("[sample_surface] n must not be negative, got ", n));
  check_mesh("sample_surface", mesh);
  const float* points = mesh.vertices.data<float>();
  const i64* corners = mesh.faces.data<i64>();
  std::vector<double> sums;  // of the areas of faces [0, i]
  double sum = 0;
  for (i64 f = 0; f < mesh.faces.size(0); ++f)
    sums.push_back(sum += norm(triangle_of(points, corners + 3 * f).normal()));
  if (n > 0 && !(sum > 0))
    throw UsageError(str("[sample_surface] a mesh of ", sums.size(), " faces without area"));
  SurfacePoints s{empty({n, 3}, kHostPoints), empty({n, 3}, kHostPoints),
                  empty({n}, {.dtype = DType::i64, .device = Device::cpu()})};
  const PhiloxKey key = philox_key(seed, RandomStream::user, 3);
  for (i64 i = 0; i < n; ++i) {
    const PhiloxBlock b = philox(key, u64(i), 0), c = philox(key, u64(i), 1);
    // Below the whole sum, and the first sum above it is never that of a face without area.
    const double at = uniform53(b.v[0], b.v[1]) * sum;
    const i64 f = std::upper_bound(sums.begin(), sums.end(), at) - sums.begin();
    const Triangle t = triangle_of(points, corners + 3 * f);
    // Half of the parallelogram is folded onto the other one.
    double u = uniform53(b.v[2], b.v[3]), v = uniform53(c.v[0], c.v[1]);
    if (u + v > 1) u = 1 - u, v = 1 - v;
    const Vector normal = t.normal();
    const double length = norm(normal);
    for (size_t k = 0; k < 3; ++k) {
      s.points.mutable_data<float>()[3 * i + i64(k)] = float(t.a[k] + u * t.u[k] + v * t.v[k]);
      s.normals.mutable_data<float>()[3 * i + i64(k)] = float(normal[k] / length);
    }
    s.faces.mutable_data<i64>()[i] = f;
  }
  return s;
}

Tensor to_unit_cube(const Tensor& points) {
  const Tensor from = checked_points("to_unit_cube", points);
  if (from.size(0) == 0) return from.clone();
  const float* p = from.data<float>();
  Vector low{p[0], p[1], p[2]}, high = low, centre{};
  for (i64 i = 0; i < from.numel(); ++i) {
    low[size_t(i % 3)] = std::min(low[size_t(i % 3)], double(p[i]));
    high[size_t(i % 3)] = std::max(high[size_t(i % 3)], double(p[i]));
  }
  double longest = 0;
  for (size_t k = 0; k < 3; ++k) {
    centre[k] = (low[k] + high[k]) / 2;
    longest = std::max(longest, high[k] - low[k]);
  }
  return moved(from, centre, longest);
}

Tensor to_unit_sphere(const Tensor& points) {
  const Tensor from = checked_points("to_unit_sphere", points);
  const float* p = from.data<float>();
  Vector mean{};
  for (i64 i = 0; i < from.numel(); ++i) mean[size_t(i % 3)] += double(p[i]) / double(from.size(0));
  double farthest = 0;
  for (i64 i = 0; i < from.numel(); i += 3)
    farthest = std::max(farthest, norm(minus({p[i], p[i + 1], p[i + 2]}, mean)));
  return moved(from, mean, farthest);
}

}  // namespace wt::data
