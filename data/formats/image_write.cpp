// Images into files, whole or not at all: PNG by libspng, and what all formats share.
#include <algorithm>

#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/data/image_parts.h"
#if WARPTAPE_HAS_SPNG
#include <spng.h>

#include <cstdlib>
#include <memory>
#endif

namespace wt::data {

Tensor detail::pixels_to_write(const char* what, const Tensor& image, i64 channels,
                               i64 longest_side) {
  if (image.ndim() != 3 || image.size(2) < 1 || image.size(2) > channels || image.numel() == 0)
    throw ShapeError(str("[", what, "] expected pixels [H, W, C] of 1 to ", channels,
                         " channels, got ", describe(image)));
  if (image.dtype() != DType::u8)
    throw DtypeError(str("[", what, "] expected u8, got ", dtype_name(image.dtype())));
  if (std::max(image.size(0), image.size(1)) > longest_side)
    throw ShapeError(str("[", what, "] the format has sides of at most ", longest_side,
                         " pixels, got ", describe(image)));
  return image.to(Device::cpu()).contiguous();
}

void detail::check_quality(const char* what, int quality, int least) {
  if (quality < least || quality > 100)
    throw UsageError(str("[", what, "] a quality from ", least, " to 100, got ", quality));
}

std::string png_of(const Tensor& image) {
  const Tensor pixels = detail::pixels_to_write("png_of", image, 4, i64{0x7fffffff});
#if WARPTAPE_HAS_SPNG
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
void write_jpeg(const std::string& path, const Tensor& image, const JpegOptions& o) {
  write_file_atomically(path, jpeg_of(image, o));
}
void write_webp(const std::string& path, const Tensor& image, const WebpOptions& o) {
  write_file_atomically(path, webp_of(image, o));
}

}  // namespace wt::data
