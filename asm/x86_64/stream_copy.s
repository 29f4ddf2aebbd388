# void FN(const u8 *from: rdi, u8 *to: rsi, size_t blocks: rdx)
#                                                System V ABI, Intel syntax
#
# Copies blocks of 512 bytes in ascending order, both aligned to 64 and apart
# from each other, blocks > 0, with stores that go past the caches; ends without
# a fence: the few lines still in the write-combining buffers follow by
# themselves.
#
# Facts per iteration (one block): 512 bytes read, 512 bytes written.

.text
.p2align 5
.globl jostle_stream_copy_avx512
jostle_stream_copy_avx512:
    .p2align 5
2:
    vmovdqa64 zmm0, [rdi]
    vmovdqa64 zmm1, [rdi + 64]
    vmovdqa64 zmm2, [rdi + 128]
    vmovdqa64 zmm3, [rdi + 192]
    vmovdqa64 zmm4, [rdi + 256]
    vmovdqa64 zmm5, [rdi + 320]
    vmovdqa64 zmm6, [rdi + 384]
    vmovdqa64 zmm7, [rdi + 448]
    vmovntdq [rsi], zmm0
    vmovntdq [rsi + 64], zmm1
    vmovntdq [rsi + 128], zmm2
    vmovntdq [rsi + 192], zmm3
    vmovntdq [rsi + 256], zmm4
    vmovntdq [rsi + 320], zmm5
    vmovntdq [rsi + 384], zmm6
    vmovntdq [rsi + 448], zmm7
    add rdi, 512
    add rsi, 512
    dec rdx
    jnz 2b
    vzeroupper
    ret

.p2align 5
.globl jostle_stream_copy_avx2
jostle_stream_copy_avx2:
    shl rdx, 1
    .p2align 5
2:
    vmovdqa ymm0, [rdi]
    vmovdqa ymm1, [rdi + 32]
    vmovdqa ymm2, [rdi + 64]
    vmovdqa ymm3, [rdi + 96]
    vmovdqa ymm4, [rdi + 128]
    vmovdqa ymm5, [rdi + 160]
    vmovdqa ymm6, [rdi + 192]
    vmovdqa ymm7, [rdi + 224]
    vmovntdq [rsi], ymm0
    vmovntdq [rsi + 32], ymm1
    vmovntdq [rsi + 64], ymm2
    vmovntdq [rsi + 96], ymm3
    vmovntdq [rsi + 128], ymm4
    vmovntdq [rsi + 160], ymm5
    vmovntdq [rsi + 192], ymm6
    vmovntdq [rsi + 224], ymm7
    add rdi, 256
    add rsi, 256
    dec rdx
    jnz 2b
    vzeroupper
    ret

.p2align 5
.globl jostle_stream_copy_sse2
jostle_stream_copy_sse2:
    shl rdx, 2
    .p2align 5
2:
    movdqa xmm0, [rdi]
    movdqa xmm1, [rdi + 16]
    movdqa xmm2, [rdi + 32]
    movdqa xmm3, [rdi + 48]
    movdqa xmm4, [rdi + 64]
    movdqa xmm5, [rdi + 80]
    movdqa xmm6, [rdi + 96]
    movdqa xmm7, [rdi + 112]
    movntdq [rsi], xmm0
    movntdq [rsi + 16], xmm1
    movntdq [rsi + 32], xmm2
    movntdq [rsi + 48], xmm3
    movntdq [rsi + 64], xmm4
    movntdq [rsi + 80], xmm5
    movntdq [rsi + 96], xmm6
    movntdq [rsi + 112], xmm7
    add rdi, 128
    add rsi, 128
    dec rdx
    jnz 2b
    ret
