// The key of a class: reports that are made with it are recognised when somebody edited them. It
// lies in what a teacher hands out, so that it holds against an editor, not against somebody who
// takes this program apart: --recheck does. Internal.
#pragma once
#include <string>

#include "warptape/core/types.h"

namespace wt::labs {

struct ClassKey {
  std::string id{};   // short; in reports
  std::string key{};  // 64 hexadecimal digits; empty: none
  u64 seed = 0;       // of the teacher's file alone
  // Of pack.json alone: the warptape that the hidden cases beside it were compiled with.
  std::string version{};
};

ClassKey new_class(u64 seed);
// The teacher's file. DataError.
ClassKey read_class(const std::string& path);
std::string class_json(const ClassKey& c);
// Of a folder of labs: pack.json; without one there is no key.
ClassKey key_of_labs(const std::string& labs);
std::string pack_json(const ClassKey& c);

}  // namespace wt::labs
