// What the files of Compose share. Internal.
#pragma once
#include "warptape/data/transforms.h"

namespace wt::data {

[[noreturn]] void refuse_transform(const std::string& why, const std::string& hint = {});
// "RandomCrop(32, padding=4)".
std::string transform_name(const Transform& t);

}  // namespace wt::data
