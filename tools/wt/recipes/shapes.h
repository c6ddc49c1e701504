// Meshes that recipes about shapes learn from, and pictures of meshes.
#pragma once
#include <string>
#include <vector>

#include "warptape/data/mesh.h"

namespace wt::tools {

struct Shapes {
  // Of the files without folder and ending, or with it where another one has the name; each is
  // another one, and printable.
  std::vector<std::string> names;
  std::vector<data::Mesh> meshes;  // vertices around their mean, within 0.95 of it
};
// The first `count` meshes (.obj, .off, .ply, also .gz and .xz) of a folder by name, or balls, tori
// and boxes for --data synthetic. Throws UsageError without data and for a count that the folder
// does not have, DataError for a folder that cannot be read and for points without faces; `recipe`
// is who asks.
Shapes read_shapes(const char* recipe, const std::string& data, i64 count);
// What read_shapes() would take, without reading more than the folder.
void check_shapes(const char* recipe, const std::string& data, i64 count);

// u8 [3, side, side]: seen from a little above and to the right, without perspective, lit from
// there; what lies beyond [-1, 1] is cut.
Tensor mesh_picture(const data::Mesh& mesh, i64 side);

}  // namespace wt::tools
