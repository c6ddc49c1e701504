// What a file or folder of data is: told by its content, by its name only where the content says
// nothing.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

enum class DataKind {
  idx,           // one file
  idx_folder,    // MNIST's or Fashion-MNIST's files
  cifar10,       // one file
  cifar100,      // one file
  cifar_folder,  // CIFAR-10's or CIFAR-100's files
  npy,
  npz,
  safetensors,
  tokens,
  shards,  // a folder or one of its files
  tfrecord,
  lmdb,  // a folder or its data.mdb
  image,
  image_folder,
  mesh,
  csv,
  text,
};

// "TFRecord", "folder of images", ...
const char* kind_name(DataKind kind);

// What `path` is. DataError for what is not there, cannot be read or is nothing that is known, with
// the list of what is.
DataKind data_kind_of(const std::string& path);

// Whether a file that begins so is an OFF mesh: also with letters for what a vertex has beside its
// place before the word, and a count joined to it.
bool begins_as_off(std::string_view head);
// An image's format by its first bytes: "JPEG", "PNG", "WebP", "PPM"; empty for another.
std::string_view image_format_of(std::string_view head);
// The first bytes as they lie, and "gzip", "zlib" (of TFRecord files), "xz" or "" by them.
std::string raw_head(const std::string& path, u64 n);
std::string packing_of(const std::string& path);

// `name` in a folder (of MNIST also with a dot before "idx"), or the same packed (.gz, .xz); empty
// where there is none.
std::string present_file(const std::string& folder, const std::string& name);
// CIFAR's files, {"data_batch_1", path}, ..., of a folder or its usual folder inside; `labels` is 1
// for CIFAR-10, 2 for CIFAR-100.
struct CifarFiles {
  int labels = 0;  // 0: none
  std::vector<std::pair<std::string, std::string>> train{}, test{};
};
CifarFiles cifar_files(const std::string& folder);

// A folder's image files with their class, the sub-folder's name, sorted; classes sorted. Files
// that lie in the folder itself have the class -1. Hidden ones and what is no image by its first
// bytes are left out and counted.
struct ImageFiles {
  std::vector<std::string> classes{};
  std::vector<std::pair<std::string, i64>> files{};
  i64 others = 0;
};
ImageFiles image_files(const std::string& folder);

}  // namespace wt::tools
