// The fast variants of kernels/optim/optim_rule.cpp (optim/optim_rule_cpu.cpp): f32, with AVX2 and
// threads.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/optim_rule.h"

namespace wt {

// Writes a.half for the parameters [begin, end), where there is one.
void write_half(const RuleArgs& a, i64 begin, i64 end);

const char* sgd_step_why_not(const SgdStepArgs& a);
void sgd_step_avx2(const SgdStepArgs& a, const Launch& l);
const char* adamw_step_why_not(const AdamwStepArgs& a);
void adamw_step_avx2(const AdamwStepArgs& a, const Launch& l);
const char* adam_step_why_not(const AdamStepArgs& a);
void adam_step_avx2(const AdamStepArgs& a, const Launch& l);
const char* adagrad_step_why_not(const AdagradStepArgs& a);
void adagrad_step_avx2(const AdagradStepArgs& a, const Launch& l);
const char* rmsprop_step_why_not(const RmspropStepArgs& a);
void rmsprop_step_avx2(const RmspropStepArgs& a, const Launch& l);
const char* lion_step_why_not(const LionStepArgs& a);
void lion_step_avx2(const LionStepArgs& a, const Launch& l);
const char* nadam_step_why_not(const NadamStepArgs& a);
void nadam_step_avx2(const NadamStepArgs& a, const Launch& l);
const char* radam_step_why_not(const RadamStepArgs& a);
void radam_step_avx2(const RadamStepArgs& a, const Launch& l);
const char* adamax_step_why_not(const AdamaxStepArgs& a);
void adamax_step_avx2(const AdamaxStepArgs& a, const Launch& l);
const char* adadelta_step_why_not(const AdadeltaStepArgs& a);
void adadelta_step_avx2(const AdadeltaStepArgs& a, const Launch& l);
const char* rprop_step_why_not(const RpropStepArgs& a);
void rprop_step_avx2(const RpropStepArgs& a, const Launch& l);
const char* muon_step_why_not(const MuonStepArgs& a);
void muon_step_avx2(const MuonStepArgs& a, const Launch& l);
const char* ema_step_why_not(const EmaStepArgs& a);
void ema_step_avx2(const EmaStepArgs& a, const Launch& l);

}  // namespace wt
