# u64 FN(u64 slot: rdi, u64 blocks: rsi, u64 passes: rdx)   System V ABI, Intel syntax
#
# Runs a chain of `blocks` blocks of code from the one in `slot` on, `passes`
# times over; all three above zero, slot below 4096. Returns the sum of the
# slots it came through, which a test compares with plain Rust.
#
# The region holds 4096 blocks of one cache line, and each leads to the next: what a core
# fetches ahead then belongs to the chain, too. With neighbours that do not
# belong to it, a chain of n blocks took the place of nearly 2n on a core that
# fetches the next line along. Each holds 46 no-operations beside the counting:
# more micro-operations than the micro-op caches of Intel's cores keep for one
# line, so that every pass fetches from L1i and decodes.
#
# Facts per block: 64 bytes of code, 50 instructions, 2 jumps, no loads, no
# stores.

.text
.p2align 6
.globl jostle_l1i
jostle_l1i:
    xor eax, eax
    shl rdi, 6
    lea rcx, [rip + jostle_l1i_region]
    add rcx, rdi
2:
    mov edi, esi
    jmp rcx
jostle_l1i_out:
    dec rdx
    jnz 2b
    ret

# u32 FN(u64 slot: rdi, u64 skip: rsi)
#
# Runs the one block in `slot` from its byte `skip` on, 0 or one of the
# no-operations', and returns the slot, or 0 when bytes were skipped. The block is entered by a
# return to a changed address, which no core predicts: what it speculates on
# meanwhile waits at a fence, so that nothing is fetched ahead and the time of a
# visit shows whether the line was in L1i.
.p2align 6
.globl jostle_l1i_visit
jostle_l1i_visit:
    xor eax, eax
    shl rdi, 6
    lea rcx, [rip + jostle_l1i_region]
    add rcx, rdi
    add rcx, rsi
    mov edi, 1
    mov edx, 1
    call 4f
3:
    pause
    lfence
    jmp 3b
4:
    mov [rsp], rcx
    ret

.p2align 6
jostle_l1i_region:
.set jostle_l1i_slot, 0
.rept 4096
.p2align 6
    add eax, jostle_l1i_slot
    .fill 46, 1, 0x90
    dec edi
    jz jostle_l1i_out
    jmp jostle_l1i_region + ((jostle_l1i_slot + 1) & 4095) * 64
    .set jostle_l1i_slot, jostle_l1i_slot + 1
.endr
.p2align 6
