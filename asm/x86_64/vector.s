# void FN(f64 lanes[registers][width]: rdi, u64 rounds: rsi, f64 factor: xmm0, f64 step: xmm1)
#                                                System V ABI, Intel syntax
#
# Independent chains of packed double-precision work, one in each vector
# register but the constants, rounds > 0.
#
# `avx512`: 30 registers of 8, each x = x * factor + x in one rounding. Cores
# with 512-bit units add on the ports they multiply on, so that nothing but
# fused multiply-adds is issued; `step` is not used.
# `avx2`: 14 registers of 4. Even ones as above, odd ones x = x + step, then
# x = x - step: where adders have ports of their own they are busy too.
# `sse2`: 14 registers of 2. As avx2, but the even ones are x = x * factor.
#
# Facts per iteration (one round): avx512 60 instructions in 2 rows, 960
# floating-point operations; avx2 56 in 4 rows, 336; sse2 56 in 4 rows, 112.
# No loads, no stores.

.macro jostle_vector_avx512_row
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    vfmadd231pd zmm\r, zmm\r, zmm0
    .endr
.endm

.text
.p2align 6
.globl jostle_vector_avx512
jostle_vector_avx512:
    vbroadcastsd zmm0, xmm0
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    vmovupd zmm\r, [rdi + 64 * \r - 128]
    .endr
    .p2align 6
2:
    jostle_vector_avx512_row
    jostle_vector_avx512_row
    dec rsi
    jnz 2b
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    vmovupd [rdi + 64 * \r - 128], zmm\r
    .endr
    vzeroupper
    ret

.macro jostle_vector_avx2_pair even, odd, move
    vfmadd231pd ymm\even, ymm\even, ymm0
    \move ymm\odd, ymm\odd, ymm1
.endm

.macro jostle_vector_avx2_row move
    jostle_vector_avx2_pair 2, 3, \move
    jostle_vector_avx2_pair 4, 5, \move
    jostle_vector_avx2_pair 6, 7, \move
    jostle_vector_avx2_pair 8, 9, \move
    jostle_vector_avx2_pair 10, 11, \move
    jostle_vector_avx2_pair 12, 13, \move
    jostle_vector_avx2_pair 14, 15, \move
.endm

.p2align 6
.globl jostle_vector_avx2
jostle_vector_avx2:
    vbroadcastsd ymm0, xmm0
    vbroadcastsd ymm1, xmm1
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovupd ymm\r, [rdi + 32 * \r - 64]
    .endr
    .p2align 6
2:
    jostle_vector_avx2_row vaddpd
    jostle_vector_avx2_row vsubpd
    jostle_vector_avx2_row vaddpd
    jostle_vector_avx2_row vsubpd
    dec rsi
    jnz 2b
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovupd [rdi + 32 * \r - 64], ymm\r
    .endr
    vzeroupper
    ret

.macro jostle_vector_sse2_pair even, odd, move
    mulpd xmm\even, xmm0
    \move xmm\odd, xmm1
.endm

.macro jostle_vector_sse2_row move
    jostle_vector_sse2_pair 2, 3, \move
    jostle_vector_sse2_pair 4, 5, \move
    jostle_vector_sse2_pair 6, 7, \move
    jostle_vector_sse2_pair 8, 9, \move
    jostle_vector_sse2_pair 10, 11, \move
    jostle_vector_sse2_pair 12, 13, \move
    jostle_vector_sse2_pair 14, 15, \move
.endm

.p2align 6
.globl jostle_vector_sse2
jostle_vector_sse2:
    unpcklpd xmm0, xmm0
    unpcklpd xmm1, xmm1
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movupd xmm\r, [rdi + 16 * \r - 32]
    .endr
    .p2align 6
2:
    jostle_vector_sse2_row addpd
    jostle_vector_sse2_row subpd
    jostle_vector_sse2_row addpd
    jostle_vector_sse2_row subpd
    dec rsi
    jnz 2b
    .irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movupd [rdi + 16 * \r - 32], xmm\r
    .endr
    ret
