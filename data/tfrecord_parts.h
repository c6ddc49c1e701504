// What readers of TFRecord files share. Internal.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wt::data {

// The file of this name, or those that a pattern names ('*', '?', '[]' in the last part of the
// path), sorted. DataError if there is none.
std::vector<std::string> files_of_pattern(const std::string& pattern);

// Whether a file (its first 12 bytes are enough) begins with a record: a length and the check sum
// of it.
bool begins_with_tfrecord(std::string_view head);
// Whether it is a zlib stream, as TensorFlow's "ZLIB" writes it, and no plain file whose first
// length looks like one.
bool is_zlib_tfrecord(const std::string& path);

}  // namespace wt::data
