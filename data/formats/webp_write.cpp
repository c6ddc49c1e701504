// WebP files by libwebp (https://developers.google.com/speed/webp/docs/api).
#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/data/image_parts.h"
#if WARPTAPE_HAS_WEBP
#include <webp/encode.h>
#endif

namespace wt::data {

#if WARPTAPE_HAS_WEBP
namespace {

// libwebp's picture and the file that comes of it.
struct Picture {
  WebPPicture picture;
  WebPMemoryWriter file;
  Picture() {
    WebPMemoryWriterInit(&file);
    if (!WebPPictureInit(&picture))
      throw NotAvailable("the libwebp that is installed is not the one that this was built for");
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &file;
  }
  ~Picture() {
    WebPPictureFree(&picture);
    WebPMemoryWriterClear(&file);
  }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  void check(int went_well) const {
    if (went_well) return;
    if (picture.error_code == VP8_ENC_ERROR_OUT_OF_MEMORY ||
        picture.error_code == VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY)
      throw OutOfMemory("libwebp has no memory for the image");
    throw DataError(str("[webp_of] libwebp's error ", int(picture.error_code)));
  }
};

// Grey in all three channels; RGB and RGBA as they are.
std::vector<u8> colours_of(const Tensor& pixels) {
  const i64 channels = pixels.size(2), to = channels == 1 ? 3 : 4;
  const i64 n = pixels.size(0) * pixels.size(1);
  const u8* const from = pixels.data<u8>();
  if (channels > 2) return {from, from + n * channels};
  std::vector<u8> out(size_t(n * to));
  for (i64 i = 0; i < n; ++i) {
    for (i64 c = 0; c < 3; ++c) out[size_t(i * to + c)] = from[i * channels];
    if (channels == 2) out[size_t(i * to + 3)] = from[i * channels + 1];
  }
  return out;
}

}  // namespace
#endif

std::string webp_of(const Tensor& image, const WebpOptions& o) {
  const Tensor pixels = detail::pixels_to_write("webp_of", image, 4, 16'383);
  detail::check_quality("webp_of", o.quality, 0);
#if WARPTAPE_HAS_WEBP
  WebPConfig config;
  if (!WebPConfigInit(&config))
    throw NotAvailable("the libwebp that is installed is not the one that this was built for");
  config.quality = float(o.quality);
  config.lossless = o.lossless, config.exact = o.lossless;
  Picture p;
  p.picture.height = int(pixels.size(0)), p.picture.width = int(pixels.size(1));
  p.picture.use_argb = o.lossless;
  const std::vector<u8> colours = colours_of(pixels);
  const bool alpha = pixels.size(2) % 2 == 0;
  const int row = p.picture.width * (alpha ? 4 : 3);
  p.check(alpha ? WebPPictureImportRGBA(&p.picture, colours.data(), row)
                : WebPPictureImportRGB(&p.picture, colours.data(), row));
  p.check(WebPEncode(&config, &p.picture));
  return {reinterpret_cast<const char*>(p.file.mem), p.file.size};
#else
  throw NotAvailable(str("[webp_of] this build has no libwebp: ", why_without("webp")));
#endif
}

}  // namespace wt::data
