// PNG by libspng, written whole or not at all.
#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/data/image.h"
#if WARPTAPE_HAS_SPNG
#include <spng.h>

#include <cstdlib>
#include <memory>
#endif

namespace wt::data {

std::string png_of(const Tensor& image) {
  if (image.ndim() != 3 || image.size(2) < 1 || image.size(2) > 4 || image.numel() == 0)
    throw ShapeError(
        str("[png_of] expected pixels [H, W, C] of 1 to 4 channels, got ", describe(image)));
  if (image.dtype() != DType::u8)
    throw DtypeError(str("[png_of] expected u8, got ", dtype_name(image.dtype())));
#if WARPTAPE_HAS_SPNG
  const Tensor pixels = image.to(Device::cpu()).contiguous();
  static constexpr spng_color_type kKinds[] = {
      SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, SPNG_COLOR_TYPE_TRUECOLOR,
      SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(SPNG_CTX_ENCODER),
                                                                    spng_ctx_free);
  if (!context) throw OutOfMemory("libspng has no memory");
  const auto check = [](int status) {
    if (status == SPNG_EMEM) throw OutOfMemory("libspng has no memory for the image");
    if (status != 0) throw DataError(str("[png_of] ", spng_strerror(status)));
  };
  spng_ihdr header{};
  header.height = u32(pixels.size(0)), header.width = u32(pixels.size(1));
  header.bit_depth = 8, header.color_type = u8(kKinds[pixels.size(2) - 1]);
  check(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  check(spng_set_ihdr(context.get(), &header));
  check(spng_encode_image(context.get(), pixels.data<u8>(), size_t(pixels.numel()), SPNG_FMT_PNG,
                          SPNG_ENCODE_FINALIZE));
  size_t size = 0;
  int status = 0;
  const std::unique_ptr<void, decltype(&std::free)> png(
      spng_get_png_buffer(context.get(), &size, &status), std::free);
  check(status);
  return {static_cast<const char*>(png.get()), size};
#else
  throw NotAvailable(str("[png_of] this build has no libspng: ", why_without("spng")));
#endif
}

void write_png(const std::string& path, const Tensor& image) {
  write_file_atomically(path, png_of(image));
}

}  // namespace wt::data
