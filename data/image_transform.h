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
#include <initializer_list>
#include <memory>
#include <variant>

#include "warptape/core/macros.h"

namespace wt::data {

class Compose;  // data/transforms.h, with all that follow

struct RandomCrop;
struct CenterCrop;
struct RandomResizedCrop;
struct Resize;
struct RandomHorizontalFlip;
struct ToTensor;
struct Normalize;
struct Cutout;
struct RandomRotation;
struct RandomAffine;
struct ColorJitter;
struct RandomGrayscale;
struct RandAugment;
struct RandomErasing;

using Transform =
    std::variant<RandomCrop, CenterCrop, RandomResizedCrop, Resize, RandomHorizontalFlip, ToTensor,
                 Normalize, Cutout, RandomRotation, RandomAffine, ColorJitter, RandomGrayscale,
                 RandAugment, RandomErasing>;

// A Compose, or none. Copies share it.
class WT_API ImageTransform {
 public:
  ImageTransform() = default;
  ImageTransform(const Compose& c);  // NOLINT: implicit by design
  // As Compose{...} of the same list, with its errors; none for an empty one.
  ImageTransform(std::initializer_list<Transform> list);

  bool empty() const { return !compose_; }
  const Compose& operator*() const { return *compose_; }  // not of an empty one
  const Compose* operator->() const { return compose_.get(); }

 private:
  std::shared_ptr<const Compose> compose_;
};

}  // namespace wt::data
