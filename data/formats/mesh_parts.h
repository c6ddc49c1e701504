// What the files about meshes share. Internal.
#pragma once
#include <array>
#include <cfloat>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "warptape/core/input_file.h"
#include "warptape/data/lines.h"
#include "warptape/data/mesh.h"

namespace wt::data {

using Vector = std::array<double, 3>;
inline Vector plus(const Vector& a, const Vector& b) {
  return {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
}
inline Vector minus(const Vector& a, const Vector& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
inline Vector times(double s, const Vector& a) { return {s * a[0], s * a[1], s * a[2]}; }
inline double dot(const Vector& a, const Vector& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
inline Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
inline double norm(const Vector& a) { return std::sqrt(dot(a, a)); }

// One that a program has made may be anything. Throws as mesh.h says, in the name of who asks.
void check_mesh(const char* name, const Mesh& m);

// Faces of no area.
i64 count_degenerate(const std::vector<float>& points, const std::vector<i64>& triangles);

// Collects a mesh. Errors are at `byte` of the file and begin with `where`, "line 3: " or nothing.
class MeshBuilder {
 public:
  explicit MeshBuilder(const std::string& path) : path_(path) {}
  i64 vertices() const { return i64(points_.size() / 3); }
  i64 faces() const { return i64(triangles_.size() / 3); }

  void vertex(const double (&xyz)[3], u64 byte, const std::string& where) {
    for (const double x : xyz) {
      if (!(std::abs(x) <= double(FLT_MAX)))
        data_error(path_, byte, str(where, "coordinate ", x, " is not finite in f32"));
      points_.push_back(float(x));
    }
  }
  void face(std::span<const i64> polygon, u64 byte, const std::string& where) {
    if (polygon.size() < 3)
      data_error(path_, byte, str(where, "a face of ", polygon.size(), " vertices, 3 are needed"));
    check_vertices(polygon, byte, where);
    for (size_t k = 2; k < polygon.size(); ++k)
      triangles_.insert(triangles_.end(), {polygon[0], polygon[k - 1], polygon[k]});
  }
  void check_vertices(std::span<const i64> some, u64 byte, const std::string& where) const {
    for (const i64 i : some)
      if (i < 0 || i >= vertices())
        data_error(path_, byte,
                   str(where, "vertex ", i, " of a face is outside [0, ", vertices(), ")"));
  }
  Mesh finish() const;

 private:
  const std::string& path_;
  std::vector<float> points_;
  std::vector<i64> triangles_;
};

inline std::string at_line_of(const Line& line) { return str("line ", line.number, ": "); }

// The three first words from `first` on, as a vertex.
inline void add_vertex(MeshBuilder& mesh, const Lines& lines, const Line& line,
                       const std::vector<std::string_view>& words, size_t first) {
  double xyz[3];
  for (size_t k = 0; k < 3; ++k)
    xyz[k] = lines.number<double>(line, words[first + k], "coordinate");
  mesh.vertex(xyz, line.byte, at_line_of(line));
}

}  // namespace wt::data
