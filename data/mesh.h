// Triangle meshes and point clouds from OBJ, OFF, PLY and XYZ files, and points on their surface.
//
//   const data::Mesh bunny = data::read_mesh("bunny.obj");
//   const data::SurfacePoints p = data::sample_surface(bunny, 2048);
//   const Tensor x = data::to_unit_sphere(p.points);
#pragma once
#include <string>

#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data {

// Triangles in space, or points without any.
struct Mesh {
  Tensor vertices;     // [V, 3] f32 on the cpu
  Tensor faces;        // [F, 3] i64, each index in [0, V); [0, 3] for points alone
  i64 degenerate = 0;  // faces of no area; they are kept, and sample_surface() never draws one
};

// What all readers of meshes have in common. The files are plain, gzip or xz; text is ASCII with
// spaces or tabs, also behind a byte order mark of UTF-8. A polygon becomes a fan of triangles
// around its first vertex; one of two vertices is no face and is refused, since it cannot be told
// from one that has lost some. Coordinates must be finite and fit into f32. What a format can say
// beyond vertices and faces (normals, colours, groups) is checked in its form and left out. Throws
// DataError with path and byte, in text also the line.

// The mesh of a Wavefront OBJ file: v, f with v, v/vt, v//vn and v/vt/vn (and v/, v//, v/vt/),
// negative ones counted from the last vertex before the face. What a face names must come before
// it. No line continuation, no free-form curves and surfaces: their points (vp) are left out, they
// themselves refused. Throws DataError.
WT_API Mesh read_obj(const std::string& path, const ParseLimits& limits = {});
// The mesh of a file in the Object File Format, ASCII, three coordinates a vertex; its header word
// may be joined to the first count (OFF490 518 0), and have ST, C and N before it. Further numbers
// of a vertex or face (normals, colours, texture coordinates) are left out. 4OFF, nOFF and binary
// OFF are refused. Throws DataError.
WT_API Mesh read_off(const std::string& path, const ParseLimits& limits = {});
// The mesh of a file in the Polygon File Format 1.0: ascii, binary_little_endian and
// binary_big_endian. `vertex` must have x, y and z, `face` a list vertex_indices or vertex_index,
// unless there are none of it; of `tristrips` such lists are strips of triangles, which -1 ends,
// and triangles that name a vertex twice only join parts of a strip. Other elements and properties
// are skipped, and line ends behind binary data. Throws DataError.
WT_API Mesh read_ply(const std::string& path, const ParseLimits& limits = {});
// The points of a file with lines of x, y, z and as many further numbers in each; '#' begins a
// comment. The mesh has no faces. Throws DataError.
WT_API Mesh read_xyz(const std::string& path, const ParseLimits& limits = {});
// The mesh of a file of any of these formats, by the name's ending .obj, .off, .ply or .xyz, before
// .gz or .xz. Throws UsageError for another ending, DataError.
WT_API Mesh read_mesh(const std::string& path, const ParseLimits& limits = {});

// Points on a mesh's surface, on the cpu.
struct SurfacePoints {
  Tensor points;   // [n, 3] f32
  Tensor normals;  // [n, 3] f32 of length 1, to the side that sees the face counter-clockwise
  Tensor faces;    // [n] i64, the face that each lies on
};
// n points uniformly distributed over the area. Point i depends on (mesh, seed, i) alone, by Philox
// stream `user`. Throws UsageError for n < 0, a mesh without area and tensors that are not a
// mesh's, IndexError for a face of vertices that are not there.
WT_API SurfacePoints sample_surface(const Mesh& mesh, i64 n, u64 seed = 0);

// Points [N, 3] f32 on the cpu, moved and scaled evenly to the cube [-1/2, 1/2]^3, which the
// bounding box's longest side fills. Points that are all the same become 0. Throws ShapeError,
// DtypeError.
WT_API Tensor to_unit_cube(const Tensor& points);
// Points [N, 3] f32 on the cpu, moved and scaled evenly so that their mean is 0 and the farthest
// one at distance 1 (ModelNet's usual form). Points that are all the same become 0. Throws
// ShapeError, DtypeError.
WT_API Tensor to_unit_sphere(const Tensor& points);

}  // namespace wt::data
