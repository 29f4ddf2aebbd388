// void FN(f64 lanes[22][2]: x0, u64 rounds: x1, f64 factor: d0)        AAPCS64
//
// Twenty-two independent chains of packed double-precision work, one in each
// register that the caller does not want back, rounds > 0: x = x * factor + x
// in one rounding.
//
// Tested under emulation alone (scripts/check-aarch64): the result, not the
// speed.
//
// Facts per iteration (one round, 2 rows): 44 instructions, 176 floating-point
// operations, no loads, no stores.

.macro jostle_vector_row
    .irp v, v2.2d, v3.2d, v4.2d, v5.2d, v6.2d, v7.2d, v16.2d, v17.2d, v18.2d, v19.2d, v20.2d, v21.2d, v22.2d, v23.2d, v24.2d, v25.2d, v26.2d, v27.2d, v28.2d, v29.2d, v30.2d, v31.2d
    fmla \v, \v, v0.d[0]
    .endr
.endm

.text
.p2align 6
.globl jostle_vector_neon
jostle_vector_neon:
    ldp q2, q3, [x0]
    ldp q4, q5, [x0, #32]
    ldp q6, q7, [x0, #64]
    ldp q16, q17, [x0, #96]
    ldp q18, q19, [x0, #128]
    ldp q20, q21, [x0, #160]
    ldp q22, q23, [x0, #192]
    ldp q24, q25, [x0, #224]
    ldp q26, q27, [x0, #256]
    ldp q28, q29, [x0, #288]
    ldp q30, q31, [x0, #320]
2:
    jostle_vector_row
    jostle_vector_row
    subs x1, x1, #1
    b.ne 2b
    stp q2, q3, [x0]
    stp q4, q5, [x0, #32]
    stp q6, q7, [x0, #64]
    stp q16, q17, [x0, #96]
    stp q18, q19, [x0, #128]
    stp q20, q21, [x0, #160]
    stp q22, q23, [x0, #192]
    stp q24, q25, [x0, #224]
    stp q26, q27, [x0, #256]
    stp q28, q29, [x0, #288]
    stp q30, q31, [x0, #320]
    ret
