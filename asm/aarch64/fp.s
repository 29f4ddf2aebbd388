// void FN(f64 lanes[22]: x0, u64 rounds: x1, f64 factor: d0, f64 step: d1)        AAPCS64
//
// Twenty-two independent chains of scalar double-precision work, one in each
// register that the caller does not want back, rounds > 0.
//
// Even lanes: x = x * factor + x in one rounding. Odd lanes: x = x + step in
// one row, x = x - step in the next.
//
// Tested under emulation alone (scripts/check-aarch64): the result, not the
// speed.
//
// Facts per iteration (one round, 2 rows): 44 scalar instructions, half of
// them fused multiply-adds, no loads, no stores.

.macro jostle_fp_pair even, odd, move
    fmadd d\even, d\even, d0, d\even
    \move d\odd, d\odd, d1
.endm

.macro jostle_fp_row move
    jostle_fp_pair 2, 3, \move
    jostle_fp_pair 4, 5, \move
    jostle_fp_pair 6, 7, \move
    jostle_fp_pair 16, 17, \move
    jostle_fp_pair 18, 19, \move
    jostle_fp_pair 20, 21, \move
    jostle_fp_pair 22, 23, \move
    jostle_fp_pair 24, 25, \move
    jostle_fp_pair 26, 27, \move
    jostle_fp_pair 28, 29, \move
    jostle_fp_pair 30, 31, \move
.endm

.text
.p2align 6
.globl jostle_fp_neon
jostle_fp_neon:
    ldp d2, d3, [x0]
    ldp d4, d5, [x0, #16]
    ldp d6, d7, [x0, #32]
    ldp d16, d17, [x0, #48]
    ldp d18, d19, [x0, #64]
    ldp d20, d21, [x0, #80]
    ldp d22, d23, [x0, #96]
    ldp d24, d25, [x0, #112]
    ldp d26, d27, [x0, #128]
    ldp d28, d29, [x0, #144]
    ldp d30, d31, [x0, #160]
2:
    jostle_fp_row fadd
    jostle_fp_row fsub
    subs x1, x1, #1
    b.ne 2b
    stp d2, d3, [x0]
    stp d4, d5, [x0, #16]
    stp d6, d7, [x0, #32]
    stp d16, d17, [x0, #48]
    stp d18, d19, [x0, #64]
    stp d20, d21, [x0, #80]
    stp d22, d23, [x0, #96]
    stp d24, d25, [x0, #112]
    stp d26, d27, [x0, #128]
    stp d28, d29, [x0, #144]
    stp d30, d31, [x0, #160]
    ret
