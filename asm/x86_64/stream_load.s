# u64 FN(const u8 *base: rdi, size_t blocks: rsi)        System V ABI, Intel syntax
#
# Reads blocks of 512 bytes in ascending order, base aligned to 64, blocks > 0,
# and folds everything read by exclusive or into one 64-bit word. The fold is
# what makes the loads impossible to drop and lets a test compare with the
# plain Rust twin; two vector XORs per cycle are more than L2 can feed.
#
# Facts per iteration (one block): 512 bytes, 8 to 32 loads, no stores.

.text
.p2align 5
.globl jostle_stream_load_avx512
jostle_stream_load_avx512:
    vpxorq zmm0, zmm0, zmm0
    vpxorq zmm1, zmm1, zmm1
    vpxorq zmm2, zmm2, zmm2
    vpxorq zmm3, zmm3, zmm3
    vpxorq zmm4, zmm4, zmm4
    vpxorq zmm5, zmm5, zmm5
    vpxorq zmm6, zmm6, zmm6
    vpxorq zmm7, zmm7, zmm7
    .p2align 5
2:
    vpxorq zmm0, zmm0, [rdi]
    vpxorq zmm1, zmm1, [rdi + 64]
    vpxorq zmm2, zmm2, [rdi + 128]
    vpxorq zmm3, zmm3, [rdi + 192]
    vpxorq zmm4, zmm4, [rdi + 256]
    vpxorq zmm5, zmm5, [rdi + 320]
    vpxorq zmm6, zmm6, [rdi + 384]
    vpxorq zmm7, zmm7, [rdi + 448]
    add rdi, 512
    dec rsi
    jnz 2b
    vpxorq zmm0, zmm0, zmm1
    vpxorq zmm2, zmm2, zmm3
    vpxorq zmm4, zmm4, zmm5
    vpxorq zmm6, zmm6, zmm7
    vpxorq zmm0, zmm0, zmm2
    vpxorq zmm4, zmm4, zmm6
    vpxorq zmm0, zmm0, zmm4
    vextracti64x4 ymm1, zmm0, 1
    vpxor ymm0, ymm0, ymm1
    vextracti128 xmm1, ymm0, 1
    vpxor xmm0, xmm0, xmm1
    vpsrldq xmm1, xmm0, 8
    vpxor xmm0, xmm0, xmm1
    vmovq rax, xmm0
    vzeroupper
    ret

.p2align 5
.globl jostle_stream_load_avx2
jostle_stream_load_avx2:
    vpxor ymm0, ymm0, ymm0
    vpxor ymm1, ymm1, ymm1
    vpxor ymm2, ymm2, ymm2
    vpxor ymm3, ymm3, ymm3
    .p2align 5
2:
    vpxor ymm0, ymm0, [rdi]
    vpxor ymm1, ymm1, [rdi + 32]
    vpxor ymm2, ymm2, [rdi + 64]
    vpxor ymm3, ymm3, [rdi + 96]
    vpxor ymm0, ymm0, [rdi + 128]
    vpxor ymm1, ymm1, [rdi + 160]
    vpxor ymm2, ymm2, [rdi + 192]
    vpxor ymm3, ymm3, [rdi + 224]
    vpxor ymm0, ymm0, [rdi + 256]
    vpxor ymm1, ymm1, [rdi + 288]
    vpxor ymm2, ymm2, [rdi + 320]
    vpxor ymm3, ymm3, [rdi + 352]
    vpxor ymm0, ymm0, [rdi + 384]
    vpxor ymm1, ymm1, [rdi + 416]
    vpxor ymm2, ymm2, [rdi + 448]
    vpxor ymm3, ymm3, [rdi + 480]
    add rdi, 512
    dec rsi
    jnz 2b
    vpxor ymm0, ymm0, ymm1
    vpxor ymm2, ymm2, ymm3
    vpxor ymm0, ymm0, ymm2
    vextracti128 xmm1, ymm0, 1
    vpxor xmm0, xmm0, xmm1
    vpsrldq xmm1, xmm0, 8
    vpxor xmm0, xmm0, xmm1
    vmovq rax, xmm0
    vzeroupper
    ret

.p2align 5
.globl jostle_stream_load_sse2
jostle_stream_load_sse2:
    pxor xmm0, xmm0
    pxor xmm1, xmm1
    pxor xmm2, xmm2
    pxor xmm3, xmm3
    mov rdx, rsi
    shl rdx, 3
    .p2align 5
2:
    pxor xmm0, [rdi]
    pxor xmm1, [rdi + 16]
    pxor xmm2, [rdi + 32]
    pxor xmm3, [rdi + 48]
    add rdi, 64
    dec rdx
    jnz 2b
    pxor xmm0, xmm1
    pxor xmm2, xmm3
    pxor xmm0, xmm2
    movdqa xmm1, xmm0
    psrldq xmm1, 8
    pxor xmm0, xmm1
    movq rax, xmm0
    ret
