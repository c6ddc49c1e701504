#include "warptape/tools/wt/recipes/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/core/operators.h"
#include "warptape/data/mesh_distance.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;
constexpr double kWithin = 0.95;

// The name without what read_mesh() knows it by; empty for another file.
std::string mesh_name(std::string name) {
  for (const char* packing : {".gz", ".xz"})
    if (name.ends_with(packing)) name.resize(name.size() - 3);
  for (const char* ending : {".obj", ".off", ".ply"})
    if (name.ends_with(ending) && name.size() > 4) return name.substr(0, name.size() - 4);
  return {};
}

std::vector<fs::path> mesh_files(const char* recipe, const std::string& data, i64 count) {
  if (data.empty())
    throw UsageError(str(recipe,
                         " needs --data FOLDER with meshes (.obj, .off, .ply)\n  Try "
                         "--data synthetic, which makes some"));
  std::error_code ec;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(data, ec), end; !ec && it != end; it.increment(ec))
    if (!mesh_name(it->path().filename().string()).empty()) files.push_back(it->path());
  if (ec)
    throw DataError(str(printable_path(data), ": cannot be read: ", ec.message(),
                        "\n  Expected a folder with meshes (.obj, .off, .ply)"));
  if (i64(files.size()) < count)
    throw UsageError(str(printable_path(data), ": has ", files.size(), " meshes (.obj, .off, ",
                         ".ply), the recipe asks for ", count,
                         files.size() > 1 ? str("\n  Try --set shapes=", files.size()) : ""));
  std::sort(files.begin(), files.end());
  files.resize(size_t(count));
  return files;
}

// What a shape is called: the file's name without its ending, unless another one has it, and as a
// terminal may show it.
std::string name_beside(const std::vector<std::string>& taken, const std::string& file) {
  const auto is_free = [&](const std::string& name) {
    return std::find(taken.begin(), taken.end(), name) == taken.end();
  };
  if (std::string name = printable(mesh_name(file)); is_free(name)) return name;
  const std::string whole = printable(file);
  std::string name = whole;
  for (int k = 2; !is_free(name); ++k) name = str(whole, '-', k);  // they were cut
  return name;
}

// The surface of a ball, a torus or a box, each of another size.
data::Mesh made_shape(i64 which) {
  constexpr i64 kGrid = 40;
  const double size = 1 - 0.08 * double(which / 3);
  std::vector<float> values;
  const auto at = [](i64 k) { return -1 + 2 * double(k) / (kGrid - 1); };
  for (i64 i = 0; i < kGrid; ++i)
    for (i64 j = 0; j < kGrid; ++j)
      for (i64 k = 0; k < kGrid; ++k) {
        const double x = at(i), y = at(j), z = at(k);
        const double ring = std::hypot(x, z) - 0.6 * size;
        const double off[3] = {std::fabs(x) - 0.7 * size, std::fabs(y) - 0.4, std::fabs(z) - 0.5};
        values.push_back(float(which % 3 == 0   ? std::hypot(x, y, z) - 0.7 * size
                               : which % 3 == 1 ? std::hypot(ring, y) - 0.25
                                                : *std::max_element(off, off + 3)));
      }
  return data::marching_cubes(
      tensor(values, {.device = Device::cpu()}).reshape({kGrid, kGrid, kGrid}));
}

data::Mesh within_sphere(data::Mesh m) {
  m.vertices = data::to_unit_sphere(m.vertices) * kWithin;
  return m;
}

}  // namespace

void check_shapes(const char* recipe, const std::string& data, i64 count) {
  if (data != kSyntheticData) (void)mesh_files(recipe, data, count);
}

Shapes read_shapes(const char* recipe, const std::string& data, i64 count) {
  Shapes s;
  if (data == kSyntheticData) {
    for (i64 i = 0; i < count; ++i) {
      constexpr const char* kNames[] = {"ball", "torus", "box"};
      s.names.push_back(str(kNames[i % 3], i < 3 ? "" : str("-", i / 3 + 1)));
      s.meshes.push_back(within_sphere(made_shape(i)));
    }
    return s;
  }
  for (const fs::path& file : mesh_files(recipe, data, count)) {
    data::Mesh m = data::read_mesh(file.string());
    if (m.faces.size(0) <= m.degenerate)
      throw DataError(str(printable_path(file.string()), ": has no face with an area"));
    s.names.push_back(name_beside(s.names, file.filename().string()));
    s.meshes.push_back(within_sphere(std::move(m)));
  }
  return s;
}

// --- the picture ---

namespace {

using Point = std::array<double, 3>;

// Turned by 30 degrees to the side, then by 20 towards the viewer, who looks along -z.
Point seen(const float* v) {
  constexpr double kSide = 0.5236, kUp = 0.3491;
  const double x = std::cos(kSide) * v[0] - std::sin(kSide) * v[2];
  const double z = std::sin(kSide) * v[0] + std::cos(kSide) * v[2];
  return {x, std::cos(kUp) * v[1] - std::sin(kUp) * z, std::sin(kUp) * v[1] + std::cos(kUp) * z};
}

// Brightness of a face, alike from both sides: not every mesh looks outwards everywhere.
double light_on(const Point (&p)[3]) {
  const auto side = [&](int i, int k) { return p[i][size_t(k)] - p[0][size_t(k)]; };
  const double n[3] = {side(1, 1) * side(2, 2) - side(1, 2) * side(2, 1),
                       side(1, 2) * side(2, 0) - side(1, 0) * side(2, 2),
                       side(1, 0) * side(2, 1) - side(1, 1) * side(2, 0)};
  const double length = std::hypot(n[0], n[1], n[2]);
  if (!(length > 0)) return 0;
  const double towards = (0.35 * n[0] + 0.45 * n[1] + 0.82 * n[2]) / length;
  return 0.25 + 0.75 * std::fabs(towards);
}

struct Canvas {
  i64 side;
  std::vector<double> depth, light;
  explicit Canvas(i64 n) : side(n), depth(size_t(n * n), -1e9), light(size_t(n * n), -1) {}
  double pixel(double v) const { return (v + 1) / 2 * double(side) - 0.5; }

  void fill(const Point (&p)[3]) {
    double x[3], y[3];
    for (int i = 0; i < 3; ++i) x[i] = pixel(p[i][0]), y[i] = pixel(-p[i][1]);
    const double area = (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]);
    if (area == 0) return;
    const double bright = light_on(p);
    const auto first = [&](double v) { return std::max<i64>(0, i64(std::ceil(v))); };
    const auto last = [&](double v) { return std::min<i64>(side - 1, i64(std::floor(v))); };
    for (i64 r = first(std::min({y[0], y[1], y[2]})); r <= last(std::max({y[0], y[1], y[2]})); ++r)
      for (i64 c = first(std::min({x[0], x[1], x[2]})); c <= last(std::max({x[0], x[1], x[2]}));
           ++c) {
        const double u =
            ((double(c) - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (double(r) - y[0])) / area;
        const double v =
            ((x[1] - x[0]) * (double(r) - y[0]) - (double(c) - x[0]) * (y[1] - y[0])) / area;
        if (u < 0 || v < 0 || u + v > 1) continue;
        const double z = p[0][2] + u * (p[1][2] - p[0][2]) + v * (p[2][2] - p[0][2]);
        const size_t at = size_t(r * side + c);
        if (z <= depth[at]) continue;
        depth[at] = z;
        light[at] = bright;
      }
  }
};

}  // namespace

Tensor mesh_picture(const data::Mesh& mesh, i64 side) {
  Canvas canvas(side);
  const float* const v = mesh.vertices.data<float>();
  const i64* const f = mesh.faces.data<i64>();
  for (i64 i = 0; i < mesh.faces.size(0); ++i)
    canvas.fill({seen(v + 3 * f[3 * i]), seen(v + 3 * f[3 * i + 1]), seen(v + 3 * f[3 * i + 2])});
  constexpr double kColour[3] = {150, 185, 230}, kAround = 246;
  Tensor out = empty({3, side, side}, {.dtype = DType::u8, .device = Device::cpu()});
  for (i64 k = 0; k < 3; ++k)
    for (i64 i = 0; i < side * side; ++i) {
      const double l = canvas.light[size_t(i)];
      out.mutable_data<u8>()[k * side * side + i] = u8(l < 0 ? kAround : l * kColour[k]);
    }
  return out;
}

}  // namespace wt::tools
