# Headers that were installed before they had rooms. What a program includes by the old path is a line that
# includes the new one, in the build's and in the installed tree; none of ours includes these.

set(WT_MOVED_HEADERS "")      # by their new paths: installed, as the other public headers are
set(WT_FORWARDING_HEADERS "")  # the lines
function(wt_moved_header old new)
  string(CONCAT text "// Has moved.\n#pragma once\n#include \"warptape/${new}\"  // IWYU pragma: export\n")
  set(file "${WARPTAPE_GENERATED_DIR}/warptape/${old}")
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
  set(WT_MOVED_HEADERS ${WT_MOVED_HEADERS} ${new} PARENT_SCOPE)
  set(WT_FORWARDING_HEADERS ${WT_FORWARDING_HEADERS} "${file}" PARENT_SCOPE)
endfunction()
# wt_moved_headers(FROM TO names...)
macro(wt_moved_headers from to)
  foreach(name ${ARGN})
    wt_moved_header(${from}/${name}.h ${to}/${name}.h)
  endforeach()
endmacro()

wt_moved_headers(kernels/common kernels/copy sequence_kind)
wt_moved_headers(kernels kernels/dispatch
  run_first_use run_first_use_file run_first_use_lists run_first_use_values run_inner
  run_matmul_epilogue run_operands run_slices run_tune_file run_tuned)
wt_moved_headers(kernels/common kernels/fft fft_side)
wt_moved_headers(kernels/common kernels/image
  augment_draws batch_order color_draws erase_draws image_draws image_layout mix_draws warp_draws)
wt_moved_headers(kernels/common kernels/linalg metric)
wt_moved_headers(kernels kernels/linalg dense_slices)
wt_moved_headers(kernels kernels/optim optim_rule_more)
wt_moved_headers(kernels kernels/pointwise
  activation_inverse_math pointwise_entry pointwise_formulas pointwise_list)
wt_moved_headers(kernels/common kernels/random random_kind)
wt_moved_header(kernels/common/loss_scale.h kernels/optim/loss_scale_state.h)
