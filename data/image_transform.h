// What a dataset of images does to each of them: the `.transform` of its options.
//
//   #include "warptape/data/transforms.h"
//   data::Cifar10 train{root, {.transform = data::Compose{data::RandomCrop{32, 4},
//                                                         data::RandomHorizontalFlip{},
//                                                         data::ToTensor{}}, .seed = 1}};
//
// As torchvision's: it is given the pixels as they lie in the file, u8, and stands in place of what
// the dataset does without one (standardising). x is what it gives, f32. What is drawn for a sample
// depends on (seed, epoch, sample) alone, so that every epoch sees another picture, and it is the
// same in every batch, for any number of a Loader's workers and after a resume.
#pragma once
#include <concepts>
#include <memory>

#include "warptape/core/macros.h"

namespace wt::data {

class Compose;  // data/transforms.h, with what it is made of

// A Compose, or none. Copies share it.
class WT_API ImageTransform {
 public:
  ImageTransform() = default;
  // A copy of c, which all copies of this share.
  ImageTransform(const Compose& c);  // NOLINT: implicit by design
  // {ToTensor{}, ...}: as Compose{...} of the same list, with its errors.
  template <class First, class... Rest>
  requires(!std::same_as<First, Compose> && !std::same_as<First, ImageTransform>)
      ImageTransform(const First& first, const Rest&... rest)  // NOLINT: implicit by design
      : ImageTransform(compose_of(first, rest...)) {}

  // Whether there is none, so that the dataset does what it does by itself.
  bool empty() const { return !compose_; }
  // The Compose. Not of an empty one.
  const Compose& operator*() const { return *compose_; }
  // The same, null for an empty one.
  const Compose* operator->() const { return compose_.get(); }

 private:
  std::shared_ptr<const Compose> compose_;
};

}  // namespace wt::data
