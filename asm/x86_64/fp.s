# void FN(f64 lanes[14]: rdi, u64 rounds: rsi, f64 factor: xmm0, f64 step: xmm1)
#                                                System V ABI, Intel syntax
#
# Fourteen independent chains of scalar double-precision work, one in each
# register but the two constants, rounds > 0. Even lanes are multiplied, odd
# lanes take a step forth in one row and back in the next: some cores add on
# other ports than they multiply on, and both are kept busy.
#
# Even lanes: `fma` x = x * factor + x in one rounding; `sse2` x = x * factor.
# Odd lanes: x = x + step, then x = x - step.
#
# Facts per iteration (one round, 4 rows): 56 scalar instructions, half of
# them multiplications, no loads, no stores.

.macro jostle_fp_fma_pair even, odd, move
    vfmadd231sd xmm\even, xmm\even, xmm0
    \move xmm\odd, xmm\odd, xmm1
.endm

.macro jostle_fp_fma_row move
    jostle_fp_fma_pair 2, 3, \move
    jostle_fp_fma_pair 4, 5, \move
    jostle_fp_fma_pair 6, 7, \move
    jostle_fp_fma_pair 8, 9, \move
    jostle_fp_fma_pair 10, 11, \move
    jostle_fp_fma_pair 12, 13, \move
    jostle_fp_fma_pair 14, 15, \move
.endm

.text
.p2align 6
.globl jostle_fp_fma
jostle_fp_fma:
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovsd xmm\r, [rdi + 8 * \r - 16]
    .endr
    .p2align 6
2:
    jostle_fp_fma_row vaddsd
    jostle_fp_fma_row vsubsd
    jostle_fp_fma_row vaddsd
    jostle_fp_fma_row vsubsd
    dec rsi
    jnz 2b
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovsd [rdi + 8 * \r - 16], xmm\r
    .endr
    vzeroupper
    ret

.macro jostle_fp_sse2_pair even, odd, move
    mulsd xmm\even, xmm0
    \move xmm\odd, xmm1
.endm

.macro jostle_fp_sse2_row move
    jostle_fp_sse2_pair 2, 3, \move
    jostle_fp_sse2_pair 4, 5, \move
    jostle_fp_sse2_pair 6, 7, \move
    jostle_fp_sse2_pair 8, 9, \move
    jostle_fp_sse2_pair 10, 11, \move
    jostle_fp_sse2_pair 12, 13, \move
    jostle_fp_sse2_pair 14, 15, \move
.endm

.p2align 6
.globl jostle_fp_sse2
jostle_fp_sse2:
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movsd xmm\r, [rdi + 8 * \r - 16]
    .endr
    .p2align 6
2:
    jostle_fp_sse2_row addsd
    jostle_fp_sse2_row subsd
    jostle_fp_sse2_row addsd
    jostle_fp_sse2_row subsd
    dec rsi
    jnz 2b
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movsd [rdi + 8 * \r - 16], xmm\r
    .endr
    ret
