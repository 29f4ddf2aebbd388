# void FN(u8 *base: rdi, size_t blocks: rsi)        System V ABI, Intel syntax
#
# Fills blocks of 512 bytes with ones in ascending order, base aligned to 64,
# blocks > 0. Ones and not zeros: some cores skip writing zeros over zeros. The
# _nt variants write past the caches; they end without a fence, and the few lines
# still in the write-combining buffers follow by themselves.
#
# Facts per iteration (one block): 512 bytes, 8 to 32 stores, no loads.

.macro jostle_store_avx512 store:req
    vpternlogd zmm0, zmm0, zmm0, 0xff
    .p2align 5
2:
    \store [rdi], zmm0
    \store [rdi + 64], zmm0
    \store [rdi + 128], zmm0
    \store [rdi + 192], zmm0
    \store [rdi + 256], zmm0
    \store [rdi + 320], zmm0
    \store [rdi + 384], zmm0
    \store [rdi + 448], zmm0
    add rdi, 512
    dec rsi
    jnz 2b
    vzeroupper
.endm

.macro jostle_store_avx2 store:req
    vpcmpeqd ymm0, ymm0, ymm0
    shl rsi, 1
    .p2align 5
2:
    \store [rdi], ymm0
    \store [rdi + 32], ymm0
    \store [rdi + 64], ymm0
    \store [rdi + 96], ymm0
    \store [rdi + 128], ymm0
    \store [rdi + 160], ymm0
    \store [rdi + 192], ymm0
    \store [rdi + 224], ymm0
    add rdi, 256
    dec rsi
    jnz 2b
    vzeroupper
.endm

.macro jostle_store_sse2 store:req
    pcmpeqd xmm0, xmm0
    shl rsi, 2
    .p2align 5
2:
    \store [rdi], xmm0
    \store [rdi + 16], xmm0
    \store [rdi + 32], xmm0
    \store [rdi + 48], xmm0
    \store [rdi + 64], xmm0
    \store [rdi + 80], xmm0
    \store [rdi + 96], xmm0
    \store [rdi + 112], xmm0
    add rdi, 128
    dec rsi
    jnz 2b
.endm

.text
.p2align 5
.globl jostle_stream_store_avx512
jostle_stream_store_avx512:
    jostle_store_avx512 vmovdqa64
    ret

.p2align 5
.globl jostle_stream_store_nt_avx512
jostle_stream_store_nt_avx512:
    jostle_store_avx512 vmovntdq
    ret

.p2align 5
.globl jostle_stream_store_avx2
jostle_stream_store_avx2:
    jostle_store_avx2 vmovdqa
    ret

.p2align 5
.globl jostle_stream_store_nt_avx2
jostle_stream_store_nt_avx2:
    jostle_store_avx2 vmovntdq
    ret

.p2align 5
.globl jostle_stream_store_sse2
jostle_stream_store_sse2:
    jostle_store_sse2 movdqa
    ret

.p2align 5
.globl jostle_stream_store_nt_sse2
jostle_stream_store_nt_sse2:
    jostle_store_sse2 movntdq
    ret
