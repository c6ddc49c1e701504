// What `wt lab` reads before a student's file of a host lab, in the build tree precompiled: nearly
// all of the time that such a file takes. The headers of the labs include the same. Internal.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/tensor.h"
