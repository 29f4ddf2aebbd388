// u32 FN(u64 slot: x0, u64 blocks: x1, u64 passes: x2)        AAPCS64
//
// Runs a chain of `blocks` blocks of code from the one in `slot` on, `passes`
// times over; both counts above zero, slot below 4096. Returns the sum of the
// slots it came through, which a test compares with plain Rust.
//
// The region holds 4096 blocks of 64 bytes, and each leads to the next: what a core
// fetches ahead then belongs to the chain, too. With neighbours that do not
// belong to it, a chain of n blocks took the place of nearly 2n on a core that
// fetches the next line along. A block has 16 instructions; cores with a
// macro-operation cache may serve small footprints from that.
//
// Never run on hardware: its result was compared with the twin's under an
// emulator.
//
// Facts per block: 64 bytes of code, 16 instructions, 2 jumps, no loads, no
// stores.

.text
.p2align 6
.globl jostle_l1i
jostle_l1i:
    adrp x3, jostle_l1i_region
    add x3, x3, :lo12:jostle_l1i_region
    add x3, x3, x0, lsl #6
    mov w0, #0
    mov x5, x30
2:
    mov x4, x1
    br x3
jostle_l1i_out:
    subs x2, x2, #1
    b.ne 2b
    ret x5

// u32 FN(u64 slot: x0, u64 skip: x1)
//
// Runs the one block in `slot` from its byte `skip` on, 0 or one of the
// no-operations', and returns the slot, or 0 when bytes were skipped. The block is entered by a
// return to a changed address, which no core predicts, so that nothing is
// fetched ahead and the time of a visit shows whether the line was in L1i.
.p2align 6
.globl jostle_l1i_visit
jostle_l1i_visit:
    adrp x3, jostle_l1i_region
    add x3, x3, :lo12:jostle_l1i_region
    add x3, x3, x0, lsl #6
    add x3, x3, x1
    mov w0, #0
    mov x4, #1
    mov x2, #1
    mov x5, x30
    bl 4f
3:
    isb
    b 3b
4:
    ret x3

.p2align 6
jostle_l1i_region:
.set jostle_l1i_slot, 0
.rept 4096
    add w0, w0, #jostle_l1i_slot
    .rept 12
    nop
    .endr
    subs x4, x4, #1
    b.eq jostle_l1i_out
    b jostle_l1i_region + ((jostle_l1i_slot + 1) & 4095) * 64
    .set jostle_l1i_slot, jostle_l1i_slot + 1
.endr
