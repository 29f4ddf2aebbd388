# u64 FN(const u8 *base: rdi, u64 segment: rsi, u64 groups: rdx, u64 state: rcx)
#                                                System V ABI, Intel syntax
#
# Loads groups of eight whole lines of 64 bytes. The buffer is eight segments
# of `segment` lines, base aligned to 64, both counts above zero. A group is
# the same line of every segment; `state` moves on by the golden ratio before
# each group and its high product with `segment` is the line. The loads depend
# on nothing before them, so the core keeps both load ports busy; one index is
# paid for eight lines.
#
# Returns the exclusive or of all words of the last group, so that a test can
# see which lines a group loads without a fold in the loop.
#
# Facts per iteration (one group): 512 bytes, 8 to 32 loads, no stores.

.macro jostle_scatter_enter
    mov r8, rdx
    mov r9, rsi
    shl r9, 6
    lea r10, [r9 + r9*2]
    movabs r11, 0x9E3779B97F4A7C15
.endm

# rdx and rax point to the first and the fifth line of the next group.
.macro jostle_scatter_next
    add rcx, r11
    mov rax, rcx
    mul rsi
    shl rdx, 6
    add rdx, rdi
    lea rax, [rdx + r9*4]
.endm

.text
.p2align 5
.globl jostle_scatter_avx512
jostle_scatter_avx512:
    jostle_scatter_enter
    .p2align 5
2:
    jostle_scatter_next
    vmovdqa64 zmm0, [rdx]
    vmovdqa64 zmm1, [rdx + r9]
    vmovdqa64 zmm2, [rdx + r9*2]
    vmovdqa64 zmm3, [rdx + r10]
    vmovdqa64 zmm4, [rax]
    vmovdqa64 zmm5, [rax + r9]
    vmovdqa64 zmm6, [rax + r9*2]
    vmovdqa64 zmm7, [rax + r10]
    dec r8
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
.globl jostle_scatter_avx2
jostle_scatter_avx2:
    jostle_scatter_enter
    .p2align 5
2:
    jostle_scatter_next
    vmovdqa ymm0, [rdx]
    vmovdqa ymm1, [rdx + 32]
    vmovdqa ymm2, [rdx + r9]
    vmovdqa ymm3, [rdx + r9 + 32]
    vmovdqa ymm4, [rdx + r9*2]
    vmovdqa ymm5, [rdx + r9*2 + 32]
    vmovdqa ymm6, [rdx + r10]
    vmovdqa ymm7, [rdx + r10 + 32]
    vmovdqa ymm8, [rax]
    vmovdqa ymm9, [rax + 32]
    vmovdqa ymm10, [rax + r9]
    vmovdqa ymm11, [rax + r9 + 32]
    vmovdqa ymm12, [rax + r9*2]
    vmovdqa ymm13, [rax + r9*2 + 32]
    vmovdqa ymm14, [rax + r10]
    vmovdqa ymm15, [rax + r10 + 32]
    dec r8
    jnz 2b
    vpxor ymm0, ymm0, ymm1
    vpxor ymm2, ymm2, ymm3
    vpxor ymm4, ymm4, ymm5
    vpxor ymm6, ymm6, ymm7
    vpxor ymm8, ymm8, ymm9
    vpxor ymm10, ymm10, ymm11
    vpxor ymm12, ymm12, ymm13
    vpxor ymm14, ymm14, ymm15
    vpxor ymm0, ymm0, ymm2
    vpxor ymm4, ymm4, ymm6
    vpxor ymm8, ymm8, ymm10
    vpxor ymm12, ymm12, ymm14
    vpxor ymm0, ymm0, ymm4
    vpxor ymm8, ymm8, ymm12
    vpxor ymm0, ymm0, ymm8
    vextracti128 xmm1, ymm0, 1
    vpxor xmm0, xmm0, xmm1
    vpsrldq xmm1, xmm0, 8
    vpxor xmm0, xmm0, xmm1
    vmovq rax, xmm0
    vzeroupper
    ret

# Folds each line in one register: there are too few for a group.
.macro jostle_scatter_line register:req, address:vararg
    movdqa \register, [\address]
    pxor \register, [\address + 16]
    pxor \register, [\address + 32]
    pxor \register, [\address + 48]
.endm

.p2align 5
.globl jostle_scatter_sse2
jostle_scatter_sse2:
    jostle_scatter_enter
    .p2align 5
2:
    jostle_scatter_next
    jostle_scatter_line xmm0, rdx
    jostle_scatter_line xmm1, rdx + r9
    jostle_scatter_line xmm2, rdx + r9*2
    jostle_scatter_line xmm3, rdx + r10
    jostle_scatter_line xmm4, rax
    jostle_scatter_line xmm5, rax + r9
    jostle_scatter_line xmm6, rax + r9*2
    jostle_scatter_line xmm7, rax + r10
    dec r8
    jnz 2b
    pxor xmm0, xmm1
    pxor xmm2, xmm3
    pxor xmm4, xmm5
    pxor xmm6, xmm7
    pxor xmm0, xmm2
    pxor xmm4, xmm6
    pxor xmm0, xmm4
    movdqa xmm1, xmm0
    psrldq xmm1, 8
    pxor xmm0, xmm1
    movq rax, xmm0
    ret
