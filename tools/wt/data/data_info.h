// What is in a file or folder of data: shapes, types, counts, classes.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/data/data_kind.h"

namespace wt::tools {

struct DataPart {
  std::string name, dtype, shape;  // "train/images", "u8", "[60000, 28, 28]"; "" where it has none
  friend bool operator==(const DataPart&, const DataPart&) = default;
};

struct DataInfo {
  std::string path, format;        // as kind_name(), or nearer: "JPEG", "OBJ", "tokens, llm.c"
  std::string packed{};            // "gzip", "xz" or ""
  i64 bytes = 0;                   // on the disk
  i64 samples = -1, classes = -1;  // -1: has none
  std::vector<DataPart> parts{};
  std::vector<std::string> notes{};
  std::string json() const;  // one object
  std::string text() const;  // lines for people
};

// Throws what data_kind_of() and the reader of the format throw.
DataInfo data_info(const std::string& path);

}  // namespace wt::tools
