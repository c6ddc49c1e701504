// Random erasing on the cpu.
#include "warptape/kernels/image_erase.h"

#include "warptape/kernels/common/number.h"

namespace wt {
namespace {

void image_erase_reference(const ImageEraseArgs& a, const Launch&) {
  const i64 channels = a.images.size(1), rows = a.images.size(2), columns = a.images.size(3);
  for (i64 i = 0; i < a.count(); ++i) {
    const i64 id = a.ids ? a.ids[i] : i;
    const ErasedBox box = draw_erased_box(a.rule, a.seed, a.epoch, id, i32(rows), i32(columns));
    const PhiloxKey key = erase_noise_key(a.seed, a.epoch, id);
    for (i64 c = 0; c < channels; ++c)
      for (i64 y = box.top; y < box.bottom; ++y)
        for (i64 x = box.left; x < box.right; ++x)
          HostNumbers::put(
              a.images.dtype(), a.images.data,
              i * a.images.stride(0) + c * a.images.stride(1) + y * a.images.stride(2) +
                  x * a.images.stride(3),
              double(a.rule.noise ? erase_noise(key, (c * rows + y) * columns + x) : a.value[c]));
  }
}

}  // namespace

WT_VARIANTS(cpu, image_erase, ImageEraseArgs,
            {.name = "reference",
             .why_not = detail::bad_image_erase,
             .launch = image_erase_reference});

}  // namespace wt
