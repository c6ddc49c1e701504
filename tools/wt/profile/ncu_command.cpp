#include "warptape/tools/wt/profile/ncu_command.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "warptape/autograd/op_list.h"
#include "warptape/core/error.h"
#include "warptape/core/suggest.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/run.h"
#include "warptape/tools/wt/measure/op_facts.h"

namespace wt::tools {
namespace {

// Contracts whose kernels are one template of many formulas, by the formula.
struct Formula {
  const char *contract, *type;  // "PointwiseArgs<pw::Grad0<pw::Exp>>"
};
#define WT_ROW(contract, ...) {#contract, #__VA_ARGS__},
constexpr Formula kPointwise[] = {WT_POINTWISE_CONTRACTS(WT_ROW)};
constexpr Formula kReductions[] = {WT_REDUCTIONS(WT_ROW)};
#undef WT_ROW

// The __global__ functions of the others, and what the vendor's are called that may take their
// place.
struct Functions {
  const char *contract, *functions, *vendor = nullptr;
};
constexpr char kGemm[] = "gemm|cutlass|nvjet|cublas";
constexpr char kCudnn[] = "cudnn|cutlass|xmma|fprop|dgrad|wgrad|implicit|winograd";
constexpr char kLayerNorm[] = "layer_norm_(naive|warp|block)";
constexpr char kAttentionBackward[] = "attention_(whole|queries_\\w+|keys_\\w+)";
constexpr Functions kFunctions[] = {
    {"activation_inverse", "activation_inverse_elements"},
    {"add_layer_norm_forward", kLayerNorm},
    {"add_layer_norm_backward_input", kLayerNorm},
    {"add_rms_norm_forward", kLayerNorm},
    {"add_rms_norm_backward_input", kLayerNorm},
    {"attention_forward", "attention_(naive|flash|mma)", "sdpa|flash|fmha|cudnn"},
    {"attention_backward", kAttentionBackward, "sdpa|flash|fmha|cudnn"},
    {"avg_pool_backward", "avg_pool_backward", "pooling|cudnn"},
    {"avg_pool_forward", "avg_pool", "pooling|cudnn"},
    {"batch_cursor", "batch_cursor_kernel"},
    {"bincount", "bincount_\\w+|radix_\\w+"},
    {"bit_gate", "bit_gate_\\w+"},
    {"bit_pack", "bit_pack_\\w+"},
    {"cdist_backward", "cdist_backward_\\w+"},
    {"cdist_forward", "cdist_(naive|tiles)"},
    {"channel_norm_backward", "channel_(norm_backward_naive|means|backward_\\w+)",
     "bn_bw|bnorm|cudnn"},
    {"channel_norm_forward", "channel_norm_(naive|planes|columns)", "bn_fw|bnorm|cudnn"},
    {"channel_norm_sums", "channel_(norm_sums_naive|sums_\\w+)"},
    {"channel_stats", "channel_stats_\\w+"},
    {"cholesky", "cholesky_\\w+"},
    {"conv_backward_input", "conv_(input_\\w+|mma|tiled|pack_weights)", kCudnn},
    {"conv_backward_weight", "conv_(weight_\\w+|bias_gradient)", kCudnn},
    {"conv_forward", "conv_(naive|channels|mma|tiled|pack_weights)", kCudnn},
    {"copy", "copy_\\w+|cast_\\w+"},
    {"cross_entropy_backward", "cross_entropy_backward_\\w+"},
    {"cross_entropy_forward", "cross_entropy_(naive|rows|total\\w*)"},
    {"ctc_backward", "ctc_(backward_naive|beta_block|gradient)"},
    {"ctc_forward", "ctc_(forward_\\w+|sum)"},
    {"dropout", "dropout_\\w+"},
    {"eigh", "eigh_\\w+"},
    {"embedding_backward",
     "embedding_(backward_\\w+|keys|ranges)|sort_(count_digits|scan_counts|place)"},
    {"embedding_forward", "embedding_(naive|elements)"},
    {"exponent_counts", "count_\\w+_kernel"},
    {"fft", "fft_\\w+"},
    {"fill", "fill_\\w+"},
    {"gather", "gather_\\w+"},
    {"grad_norm", "norm_\\w+_kernel"},
    {"grad_scale", "scale_kernel"},
    {"grad_unscale", "unscale_\\w+_kernel"},
    {"image_batch", "image_batch_kernel"},
    {"image_color", "image_color_kernel"},
    {"image_erase", "image_erase_kernel"},
    {"image_mix", "image_mix_kernel"},
    {"image_warp", "image_warp_kernel"},
    {"index_put", "index_(put_\\w+|clear_winners|find_winners)"},
    {"index_rows", "index_rows_tuples"},
    {"layer_norm_backward_input", kLayerNorm},
    {"layer_norm_backward_params", "layer_norm_(backward_params_naive|columns|parts)"},
    {"layer_norm_forward", kLayerNorm},
    {"loss_add", "loss_add_kernel"},
    {"loss_scale_update", "scale_update_kernel"},
    {"loss_seed", "seed_kernel"},
    {"lu", "lu_\\w+"},
    {"matmul", "matmul_\\w+", kGemm},
    {"max_pool_backward", "max_pool_backward", "pooling|cudnn"},
    {"max_pool_forward", "max_pool", "pooling|cudnn"},
    {"max_pool_gather", "max_pool_gather"},
    {"mse_backward", "mse_gradient\\w*"},
    {"mse_forward", "mse_sum\\w*"},
    {"multinomial", "multinomial_\\w+"},
    {"muon_direction", "direction_kernel"},
    {"muon_normalize", "normalize_kernel"},
    {"muon_polynomial", "polynomial_(bf16_)?kernel"},
    {"nll_backward", "nll_(backward_\\w+|zeros)"},
    {"nll_forward", "nll_sum\\w*"},
    {"qr", "qr_\\w+"},
    {"random_fill", "random_fill_\\w+"},
    {"resize", "resize_(taps|first|naive|by_taps|packs)"},
    {"resize_backward", "resize_(backward_\\w+|taps|first)"},
    {"rms_norm_backward_input", kLayerNorm},
    {"rms_norm_forward", kLayerNorm},
    {"row_batch", "row_batch_elements"},
    {"running_stats", "running_stats_naive"},
    {"scan", "scan_(naive|ahead|block)"},
    {"scatter", "scatter_\\w+|sort_(count_digits|scan_counts|place)"},
    {"sequence", "sequence_naive"},
    {"softmax_backward", "softmax_backward_\\w+"},
    {"softmax_forward", "softmax_(naive|column|warp|block)"},
    {"solve_triangular", "solve_\\w+"},
    {"sort", "sort_(naive|block|select|keys|results)|radix_\\w+"},
    {"step_advance", "advance_(cohorts_)?kernel"},
    {"step_decide", "decide_\\w+_kernel"},
    {"step_restore", "restore_(bytes_)?kernel"},
    {"svd", "svd_\\w+"},
    {"token_batch", "token_batch_elements"},
    {"unfold_backward", "unfold_backward_\\w+"},
};

// "PointwiseArgs<pw::Grad1<pw::Pow>>": how the kernel of pw::Grad<pw::Pow, 1> is printed.
std::string pointwise_regex(std::string_view type) {
  const std::size_t last = type.rfind("pw::") + 4;
  const std::string name(type.substr(last, type.find('>') - last));
  std::string formula = "[a-z:]*" + name;
  if (const std::size_t at = type.find("Grad"); at != type.npos)
    formula = str("[a-z:]*Grad<", formula, ", *(\\(int\\))?", type[at + 4], ">");
  return "pointwise(_naive)?<" + formula + ",";
}

// "adam_step": of the rule AdamRule.
std::string rule_regex(std::string_view contract) {
  std::string name(contract.substr(0, contract.size() - std::string_view("_step").size()));
  name[0] = char(name[0] - 'a' + 'A');
  return "rule_(cohorts_)?kernel<[a-z:]*" + name + "Rule,";
}

template <class Rows>
auto* find_row(const Rows& rows, const std::string& contract) {
  const auto at = std::find_if(std::begin(rows), std::end(rows),
                               [&](const auto& row) { return contract == row.contract; });
  return at == std::end(rows) ? nullptr : &*at;
}

const ContractInfo* find_contract(const std::string& name) {
  for (const ContractInfo& c : all_contracts())
    if (name == c.name) return &c;
  return nullptr;
}

// cuda's sources are simt's too, and a build without a toolkit has those.
DeviceKind kind_of(const ContractInfo& c) {
  return c.count(DeviceKind::cuda) > 0 ? DeviceKind::cuda : DeviceKind::simt;
}

void check_variant(const ContractInfo& c, const std::string& variant) {
  std::vector<std::string> names;
  for (int i = 0; i < c.count(kind_of(c)); ++i) names.push_back(c.variant(kind_of(c), i).name);
  if (names.empty() || std::find(names.begin(), names.end(), variant) != names.end()) return;
  throw UsageError(str("[ncu] ", c.name, " has no variant '", printable(variant), "' on cuda",
                       did_you_mean(variant, names)));
}

bool is_operator(const std::string& name) {
  return std::any_of(all_ops().begin(), all_ops().end(),
                     [&](const OpInfo* o) { return name == o->name; });
}

struct Wanted {
  std::string label;                   // a word for the report's file
  std::vector<std::string> contracts;  // whose kernels are looked at
  std::string variant;                 // contract:variant; empty: what the library takes
};

bool take_suffix(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

// Without what only says where: "conv2.linear.backward <- net.cpp:57" is "linear" and backward.
Wanted wanted_of(std::string name) {
  name = name.substr(0, name.find(" <- "));
  const bool backward = take_suffix(name, ".backward");
  if (const std::size_t dot = name.rfind('.'); dot != name.npos) name = name.substr(dot + 1);
  const std::size_t colon = name.find(':');
  const std::string first = name.substr(0, colon);
  if (const ContractInfo* c = find_contract(first)) {
    if (colon != name.npos) {
      check_variant(*c, name.substr(colon + 1));
      return {first, {first}, name};
    }
    if (!is_operator(first)) return {first, {first}, ""};
  }
  if (is_operator(name)) {
    std::vector<std::string> contracts = contracts_of_operator(name), gradients;
    std::copy_if(contracts.begin(), contracts.end(), std::back_inserter(gradients),
                 [](const std::string& c) { return c.find("_backward") != c.npos; });
    if (backward && !gradients.empty()) contracts = std::move(gradients);
    return {name + (backward ? "_backward" : ""), std::move(contracts), ""};
  }
  std::vector<std::string> known;
  for (const OpInfo* o : all_ops()) known.push_back(o->name);
  for (const ContractInfo& c : all_contracts()) known.push_back(c.name);
  throw UsageError(
      str("[ncu] no operator is called '", printable(name), "'", did_you_mean(name, known)));
}

}  // namespace

std::string kernel_regex(const std::string& contract) {
  if (const Formula* f = find_row(kPointwise, contract))
    return "[ :](" + pointwise_regex(f->type) + ")";
  if (const Formula* f = find_row(kReductions, contract))
    return str("[ :](reduce_(naive|rows|columns|parts)<[a-z:]*", f->type, ",)");
  if (const Functions* f = find_row(kFunctions, contract)) {
    const std::string ours = str("[ :](", f->functions, ")[<(]");
    return f->vendor ? str("(", ours, "|", f->vendor, ")") : ours;
  }
  if (contract.ends_with("_step") && find_contract(contract))
    return "[ :](" + rule_regex(contract) + ")";
  return "";
}

std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_-./=:,+", c);
  };
  if (!text.empty() && text.find('\0') == text.npos &&
      std::all_of(text.begin(), text.end(), is_plain))
    return text;
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

std::string ncu_command(const std::string& op, const NcuOptions& options) {
  const Wanted wanted = wanted_of(op);
  std::vector<std::string> names;
  for (const std::string& contract : wanted.contracts) {
    const std::string one = kernel_regex(contract);
    if (!one.empty() && std::find(names.begin(), names.end(), one) == names.end())
      names.push_back(one);
  }
  if (names.empty())
    throw UsageError(
        str("[ncu] ", wanted.label, " launches no kernel: there is nothing to look at"));
  std::string regex;
  for (const std::string& one : names) regex += (regex.empty() ? "" : "|") + one;
  std::string out = "env WT_NVTX=1 ";
  if (!wanted.variant.empty()) out += "WT_KERNEL=" + wanted.variant + " ";
  return out + str("ncu --set full --import-source yes --nvtx --target-processes all",
                   " --kernel-name-base demangled --kernel-name ", shell_word("regex:" + regex),
                   " --launch-skip ", options.skip, " --launch-count ", options.count,
                   " --force-overwrite --export ", wanted.label, " ", options.program);
}

}  // namespace wt::tools
