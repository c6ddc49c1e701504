// What `wt grade` reads before a student's file, in the build tree precompiled: what every file of
// kernels includes. Internal.
#pragma once
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/contract.h"
