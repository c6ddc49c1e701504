// Transforms as text on a command line.
#pragma once
#include <string>
#include <vector>

#include "warptape/data/transforms.h"

namespace wt::tools {

// "RandomCrop(32, padding=4), RandomHorizontalFlip": names and numbers, which may be named, in the
// order of data/transforms.h's members, but for those that make numbers of pixels:
// RandomCrop(size[, padding]), CenterCrop(size), RandomResizedCrop(size[, least area, most area]),
// Resize(size), RandomHorizontalFlip[(p)], RandomRotation(degrees), RandomAffine(degrees[,
// translate, least scale, most scale, shear]), ColorJitter(brightness[, contrast, saturation,
// hue]), RandomGrayscale[(p)], RandAugment[(ops, magnitude)], Cutout(side), RandomErasing[(p)].
// Throws UsageError with the near name, and the place of what it cannot read.
std::vector<data::Transform> transforms_of(const std::string& text);

}  // namespace wt::tools
