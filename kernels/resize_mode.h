// How resizing reads between elements.
#pragma once
#include "warptape/core/types.h"

namespace wt {

enum class ResizeMode : u8 { nearest, linear, nearest_exact };

}  // namespace wt
