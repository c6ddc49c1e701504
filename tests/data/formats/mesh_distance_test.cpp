#include "warptape/data/mesh_distance.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;

namespace {

const TensorOptions kHost{.device = Device::cpu()};

// f(x, y, z) on a grid of [-1, 1]^3.
template <class F>
Tensor on_grid(i64 n, const F& f) {
  std::vector<double> v;
  const auto at = [n](i64 k) { return -1 + 2 * double(k) / double(n - 1); };
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j < n; ++j)
      for (i64 k = 0; k < n; ++k) v.push_back(f(at(i), at(j), at(k)));
  return tensor(v, kHost).reshape({n, n, n});
}

// A closed surface has each side once in either direction; sides that lack their other half.
i64 open_sides(const data::Mesh& m) {
  std::map<std::pair<i64, i64>, i64> sides;
  const std::vector<i64> f = m.faces.to_vector<i64>();
  for (size_t i = 0; i < f.size(); i += 3)
    for (size_t k = 0; k < 3; ++k) {
      const i64 a = f[i + k], b = f[i + (k + 1) % 3];
      a < b ? ++sides[{a, b}] : --sides[{b, a}];
    }
  return std::count_if(sides.begin(), sides.end(), [](const auto& s) { return s.second != 0; });
}

// By the divergence theorem: above 0 where faces look outwards.
double volume(const data::Mesh& m) {
  const std::vector<float> v = m.vertices.to_vector<float>();
  const std::vector<i64> f = m.faces.to_vector<i64>();
  double sum = 0;
  for (size_t i = 0; i < f.size(); i += 3) {
    const auto at = [&](size_t k, size_t c) { return double(v[size_t(3 * f[i + k]) + c]); };
    sum += at(0, 0) * (at(1, 1) * at(2, 2) - at(1, 2) * at(2, 1)) +
           at(0, 1) * (at(1, 2) * at(2, 0) - at(1, 0) * at(2, 2)) +
           at(0, 2) * (at(1, 0) * at(2, 1) - at(1, 1) * at(2, 0));
  }
  return sum / 6;
}

// The cube [-1/2, 1/2]^3, faces outwards.
data::Mesh cube() {
  std::vector<float> v;
  for (int i = 0; i < 8; ++i)
    v.insert(v.end(), {i & 1 ? .5f : -.5f, i & 2 ? .5f : -.5f, i & 4 ? .5f : -.5f});
  const std::vector<i64> f = {0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5, 0, 1, 5, 0, 5, 4,
                              2, 6, 7, 2, 7, 3, 0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6};
  return {tensor(v, kHost).reshape({8, 3}), tensor(f, kHost).reshape({12, 3})};
}
// Its distance, below 0 inside.
double cube_distance(double x, double y, double z) {
  const double q[3] = {std::fabs(x) - .5, std::fabs(y) - .5, std::fabs(z) - .5};
  const double most = std::max({q[0], q[1], q[2]});
  if (most <= 0) return most;
  return std::hypot(std::max(q[0], 0.0), std::max(q[1], 0.0), std::max(q[2], 0.0));
}

}  // namespace

TEST_CASE("row 50: distances to a mesh are those of the shape, below 0 inside", "[mesh]") {
  manual_seed(2);
  const Tensor p = rand({400, 3}, {.dtype = DType::f64, .device = Device::cpu()}) * 4 - 2;
  const data::MeshDistance distance(cube());
  const std::vector<float> d = distance(p).to_vector<float>(),
                           w = distance.winding(p).to_vector<float>();
  const std::vector<double> at = p.to_vector<double>();
  int inside = 0;
  for (size_t i = 0; i < d.size(); ++i) {
    const double want = cube_distance(at[3 * i], at[3 * i + 1], at[3 * i + 2]);
    CAPTURE(i, want, d[i]);
    CHECK(std::fabs(d[i] - want) < 1e-6);
    CHECK(std::fabs(w[i] - (want < 0 ? 1 : 0)) < 0.02);
    inside += want < 0;
  }
  CHECK(inside > 2);
}

TEST_CASE("row 50: on a mesh of many faces the tree finds what looking at all of them finds",
          "[mesh]") {
  manual_seed(3);
  const data::Mesh torus = data::marching_cubes(on_grid(
      24, [](double x, double y, double z) { return std::hypot(std::hypot(x, z) - .6, y) - .25; }));
  const Tensor p = rand({100, 3}, kHost) * 2 - 1;
  const std::vector<float> d = data::MeshDistance(torus)(p).to_vector<float>();
  std::vector<double> best(100, 1e9);
  for (i64 f = 0; f < torus.faces.size(0); ++f) {
    // A tree of one leaf.
    const data::Mesh one{torus.vertices, torus.faces.narrow(0, f, 1).contiguous()};
    const std::vector<float> to = data::MeshDistance(one)(p).to_vector<float>();
    for (size_t i = 0; i < 100; ++i) best[i] = std::min(best[i], std::fabs(double(to[i])));
  }
  const std::vector<float> at = p.to_vector<float>();
  for (size_t i = 0; i < 100; ++i) {
    CHECK(std::fabs(std::fabs(double(d[i])) - best[i]) < 1e-6);
    const double exact = std::hypot(std::hypot(double(at[3 * i]), double(at[3 * i + 2])) - .6,
                                    double(at[3 * i + 1])) -
                         .25;
    CHECK(std::fabs(d[i] - exact) < 0.02);
  }
}

TEST_CASE("marching cubes counts faces without an area", "[mesh]") {
  // One corner lies at the level: its three edges pass it at one point.
  const Tensor v = tensor({-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 0.0}, kHost);
  const data::Mesh m = data::marching_cubes(v.reshape({2, 2, 2}));
  CHECK(m.faces.size(0) == 1);
  CHECK(m.degenerate == 1);
}

TEST_CASE("row 50: samples lie near the surface and everywhere, with their distances", "[mesh]") {
  const data::DistanceSamplesOptions o{.points = 1000, .near = 0.8, .spread = 0.03, .seed = 4};
  const Tensor s = data::sample_distances(cube(), o);
  CHECK(s.shape() == Shape{1000, 4});
  const std::vector<float> v = s.to_vector<float>();
  int near = 0, inside = 0;
  for (size_t i = 0; i < v.size(); i += 4) {
    CHECK(std::fabs(v[i + 3] - cube_distance(v[i], v[i + 1], v[i + 2])) < 1e-6);
    near += std::fabs(v[i + 3]) < 0.1;
    inside += v[i + 3] < 0;
  }
  CHECK(near > 780);
  CHECK(near < 900);
  CHECK(inside > 300);
  CHECK(inside < 700);
  CHECK(v == data::sample_distances(cube(), o).to_vector<float>());
  CHECK(v !=
        data::sample_distances(cube(), {.points = 1000, .near = 0.8, .spread = 0.03, .seed = 5})
            .to_vector<float>());
}

TEST_CASE("row 50: every way in which a surface passes a cube is closed and looks outwards",
          "[mesh]") {
  // A cube of random signs in a grid whose border is outside has all 256 kinds of cells around it.
  manual_seed(5);
  for (int run = 0; run < 20; ++run) {
    Tensor v = randn({8, 8, 8}, {.dtype = DType::f64, .device = Device::cpu()});
    const Tensor inner = on_grid(8, [](double x, double y, double z) {
      return std::max({std::fabs(x), std::fabs(y), std::fabs(z)}) < 0.99 ? 0.0 : 10.0;
    });
    const data::Mesh m = data::marching_cubes(v + inner);
    CHECK(m.faces.size(0) > 100);
    CHECK(open_sides(m) == 0);
    CHECK(volume(m) > 0);
  }
  // Each single corner, outwards too.
  for (i64 c = 0; c < 27; ++c) {
    std::vector<double> one(27, 1.0);
    one[size_t(c)] = -1;
    const data::Mesh m = data::marching_cubes(tensor(one, kHost).reshape({3, 3, 3}));
    if (c == 13) CHECK(std::fabs(volume(m) - 8 * 0.125 / 6) < 1e-6);
    if (c == 13) CHECK(open_sides(m) == 0);
    CHECK(m.faces.size(0) > 0);
  }
}

TEST_CASE("row 50: the surface of a ball's distances is a ball", "[mesh]") {
  const data::Mesh m = data::marching_cubes(
      on_grid(32, [](double x, double y, double z) { return std::hypot(x, y, z) - 0.7; }));
  const std::vector<float> v = m.vertices.to_vector<float>();
  for (size_t i = 0; i < v.size(); i += 3)
    CHECK(std::fabs(std::hypot(v[i], v[i + 1], v[i + 2]) - 0.7) < 1e-3);
  CHECK(std::fabs(volume(m) - 4 / 3.0 * 3.14159265 * 0.343) < 0.01);
  CHECK(open_sides(m) == 0);
  CHECK(m.vertices.size(0) - m.faces.size(0) / 2 == 2);  // Euler's number of a sphere
  // Another level is another ball; written and read back, it has the same bits.
  const TempDir dir;
  data::write_obj(dir / "ball.obj", m);
  const data::Mesh back = data::read_obj(dir / "ball.obj");
  CHECK(back.vertices.to_vector<float>() == v);
  CHECK(back.faces.to_vector<i64>() == m.faces.to_vector<i64>());
}

TEST_CASE("row 50: what is no surface and no grid is refused", "[mesh]") {
  const data::Mesh points{cube().vertices, zeros({0, 3}, {.dtype = DType::i64})};
  CHECK_THROWS_AS(data::MeshDistance(points), UsageError);
  data::Mesh wrong = cube();
  wrong.faces = wrong.faces + 1;
  CHECK_THROWS_AS(data::MeshDistance(wrong), IndexError);
  const data::MeshDistance distance(cube());
  CHECK_THROWS_AS(distance(zeros({3})), ShapeError);
  CHECK_THROWS_AS(distance(zeros({2, 3}, {.dtype = DType::i64})), DtypeError);
  CHECK_THROWS_AS(data::sample_distances(cube(), {.points = 0}), UsageError);
  CHECK_THROWS_AS(data::sample_distances(cube(), {.near = 1.5}), UsageError);
  CHECK_THROWS_AS(data::marching_cubes(zeros({2, 2})), ShapeError);
  CHECK_THROWS_AS(data::marching_cubes(zeros({2, 1, 2})), ShapeError);
  CHECK_THROWS_AS(data::marching_cubes(full({2, 2, 2}, NAN)), UsageError);
}

TEST_CASE("row 50: real meshes, closed or with holes: the surface's own points are at distance 0",
          "[mesh]") {
  for (const char* name : {"spot", "suzanne", "teapot"}) {
    const std::string path = test_data(std::string("meshes/") + name + ".obj");
    if (path.empty()) SKIP_TEST("no meshes in WT_TEST_DATA or shared/data");
    CAPTURE(name);
    data::Mesh m = data::read_mesh(path);
    m.vertices = data::to_unit_sphere(m.vertices);
    const data::MeshDistance distance(m);
    const Tensor on = data::sample_surface(m, 200).points;
    CHECK(max(abs(distance(on))).item() < 1e-6);
    const Tensor far = tensor({{0, 0, 3}, {0, 3, 0}, {-3, 0, 0}}, {.dtype = DType::f32});
    CHECK(min(distance(far)).item() > 1.5);  // outside, from every side
  }
}
