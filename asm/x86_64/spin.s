# void FN(u64 ticks: rdi)        System V ABI, Intel syntax
#
# The placebo: spins on PAUSE until the time-stamp counter has moved by
# `ticks`. Touches no memory and issues next to nothing.

.text
.p2align 5
.globl jostle_spin_ticks
jostle_spin_ticks:
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rcx, rax
2:
    pause
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, rcx
    cmp rax, rdi
    jb 2b
    ret
