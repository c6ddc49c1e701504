// The only file that includes NVTX's header.
#include "warptape/core/nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_AS_SYSTEM_HEADER
#include <nvtx3/nvToolsExt.h>

namespace wt::nvtx::detail {
namespace {

nvtxDomainHandle_t handle(void* domain) { return static_cast<nvtxDomainHandle_t>(domain); }

constexpr Api kApi = {.domain = [](const char* name) -> void* { return nvtxDomainCreateA(name); },
                      .name_category =
                          [](void* domain, u32 category, const char* name) {
                            nvtxDomainNameCategoryA(handle(domain), category, name);
                          },
                      .push =
                          [](void* domain, const char* text, u32 category, u32 argb) {
                            nvtxEventAttributes_t a{};
                            a.version = NVTX_VERSION, a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
                            a.category = category;
                            a.colorType = NVTX_COLOR_ARGB, a.color = argb;
                            a.messageType = NVTX_MESSAGE_TYPE_ASCII, a.message.ascii = text;
                            nvtxDomainRangePushEx(handle(domain), &a);
                          },
                      .pop = [](void* domain) { nvtxDomainRangePop(handle(domain)); }};

}  // namespace

const Api* header_api() { return &kApi; }

}  // namespace wt::nvtx::detail

#else

namespace wt::nvtx::detail {
const Api* header_api() { return nullptr; }
}  // namespace wt::nvtx::detail

#endif
