# u64 FN(u64 state: rdi, u64 blocks: rsi)        System V ABI, Intel syntax
#
# Runs `blocks` blocks of code, above zero, each of which picks the next by a
# random number, from the first on. Returns the state of the generator, which
# depends on every block and branch it came through: a test compares it with
# plain Rust.
#
# The region holds 256 blocks of one cache line, half an L1 instruction cache
# of 32 KiB. A block multiplies the state by 0x5851f42d4c957f2d (Knuth's MMIX)
# and adds an odd number of its own; of the upper 16 bits one each decides two
# conditional jumps, and eight the target of the indirect one. The instructions
# a conditional jump leaves out change the state, so that no block runs like
# the other.
#
# Facts per block: 64 bytes of code, 2 conditional jumps that are taken half of
# the time, 1 indirect jump to one of 256 targets, 1 conditional jump that is
# not taken but at the end, no loads, no stores.

.text
.p2align 6
.globl jostle_branch
jostle_branch:
    mov rax, rdi
    movabs r9, 0x5851f42d4c957f2d
    lea r10, [rip + jostle_branch_region]
    jmp r10

.p2align 6
jostle_branch_region:
.set jostle_branch_slot, 0
.rept 256
.p2align 6
    imul rax, r9
    add rax, 2 * jostle_branch_slot + 1
    mov rcx, rax
    shr rcx, 48
    test cl, 1
    jz 2f
    add rax, r9
2:
    test cl, 2
    jz 3f
    xor rax, r9
3:
    shr ecx, 8
    shl ecx, 6
    add rcx, r10
    dec rsi
    jz jostle_branch_out
    jmp rcx
    .set jostle_branch_slot, jostle_branch_slot + 1
.endr
.p2align 6
jostle_branch_out:
    ret
