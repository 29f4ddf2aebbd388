// u64 FN(u64 state: x0, u64 blocks: x1)        AAPCS64
//
// Runs `blocks` blocks of code, above zero, each of which picks the next by a
// random number, from the first on. Returns the state of the generator, which
// depends on every block and branch it came through: a test compares it with
// plain Rust.
//
// The region holds 256 blocks of 64 bytes. A block multiplies the state by
// 0x5851f42d4c957f2d (Knuth's MMIX) and adds an odd number of its own; of the
// upper 16 bits one each decides two conditional branches, and eight the target
// of the indirect one. The instructions a conditional branch leaves out change
// the state, so that no block runs like the other.
//
// Facts per block: 48 bytes of code in 64, 2 conditional branches that are
// taken half of the time, 1 indirect branch to one of 256 targets, 1
// conditional branch that is not taken but at the end, no loads, no stores.

.text
.p2align 6
.globl jostle_branch
jostle_branch:
    mov x3, #0x7f2d
    movk x3, #0x4c95, lsl #16
    movk x3, #0xf42d, lsl #32
    movk x3, #0x5851, lsl #48
    adrp x5, jostle_branch_region
    add x5, x5, :lo12:jostle_branch_region
    br x5

.p2align 6
jostle_branch_region:
.set jostle_branch_slot, 0
.rept 256
.p2align 6
    mul x0, x0, x3
    add x0, x0, #(2 * jostle_branch_slot + 1)
    lsr x4, x0, #48
    tbz w4, #0, 2f
    add x0, x0, x3
2:
    tbz w4, #1, 3f
    eor x0, x0, x3
3:
    lsr x4, x4, #8
    add x4, x5, x4, lsl #6
    subs x1, x1, #1
    b.eq jostle_branch_out
    br x4
    .set jostle_branch_slot, jostle_branch_slot + 1
.endr
.p2align 6
jostle_branch_out:
    ret
