// Signed distances to the surface of a triangle mesh, and meshes from signed distances.
//
//   const data::MeshDistance bunny(data::read_mesh("bunny.obj"));
//   const Tensor d = bunny(points);                              // [N, 3] -> [N], below 0 inside
//   const Tensor s = data::sample_distances(mesh, {.points = 10'000});
//   const data::Mesh again = data::marching_cubes(values);       // [n, n, n] -> the surface at 0
#pragma once
#include <memory>
#include <string>

#include "warptape/data/mesh.h"

namespace wt::data {

// Signed distances of points to a mesh: exact, found in a tree of boxes; the sign is that of the
// winding number (Jacobson et al. 2013), which far triangles enter as dipoles (Barill et al. 2018),
// so that it is right inside of closed meshes whose faces look outwards and a sensible guess where
// there are holes. About log(faces) work a point, on the calling thread. Copies share the tree.
class WT_API MeshDistance {
 public:
  // Builds the tree of boxes. Throws UsageError for a mesh without faces or with tensors that are
  // no mesh's, IndexError for faces of vertices that are not there.
  explicit MeshDistance(const Mesh& mesh);
  // Distances of points [N, 3], f32 or f64 on any device: [N] f32 on the cpu, in the mesh's units,
  // below 0 inside. Throws ShapeError, DtypeError.
  Tensor operator()(const Tensor& points) const;
  // How often the surface goes around each point, [N] f32: 1 inside of a closed mesh, 0 outside.
  // Throws as above.
  Tensor winding(const Tensor& points) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

// Where sample_distances() puts its points.
struct DistanceSamplesOptions {
  i64 points = 10'000;   // all of them, at least 1
  double near = 0.9;     // of them so many lie near the surface, half by `spread`, half by a third
  double spread = 0.05;  // deviation of the distance, in the mesh's units
  double reach = 1;      // the others are uniform in [-reach, reach]^3
  u64 seed = 0;          // of Philox's key
};
// Points and their signed distances as DeepSDF takes them: [points, 4] f32 on the cpu, x, y, z, d.
// A point depends on (mesh, options, its number) alone, by Philox stream `user`. Throws what
// MeshDistance and sample_surface throw, UsageError for options out of range.
WT_API Tensor sample_distances(const Mesh& mesh, const DistanceSamplesOptions& o = {});
WT_API Tensor sample_distances(const Mesh& mesh, const MeshDistance& distance,
                               const DistanceSamplesOptions& o = {});

// Which surface marching_cubes() makes, and where it lies.
struct MarchingCubesOptions {
  double level = 0;           // the value on the surface
  double low = -1, high = 1;  // the coordinates of the first and last value along each axis
};
// The surface where values [nx, ny, nz] (f32 or f64, x first, each at least 2) pass `level`, below
// it inside: Lorensen and Cline's (1987), each edge that passes it with one vertex by linear
// interpolation. Where a square's corners are inside crosswise, those inside stay apart, on both
// sides of the square, so the surface is closed wherever it does not leave the grid. Faces look
// outwards. Throws UsageError for values that are not finite, ShapeError and DtypeError for others.
WT_API Mesh marching_cubes(const Tensor& values, const MarchingCubesOptions& o = {});

// The mesh as Wavefront OBJ, which read_obj() reads back with the same bits.
WT_API std::string obj_text(const Mesh& mesh);
// Writes obj_text() into a file, whole or not at all. Throws CheckpointError.
WT_API void write_obj(const std::string& path, const Mesh& mesh);

}  // namespace wt::data
