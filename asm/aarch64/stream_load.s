// u64 FN(const u8 *base: x0, size_t blocks: x1)        AAPCS64
//
// Reads blocks of 512 bytes in ascending order, blocks > 0, and folds them by
// exclusive or into one 64-bit word. Never run on hardware: compared
// with the twin under an emulator.
//
// Facts per iteration (one block): 512 bytes, 16 pair loads, no stores.

.text
.p2align 4
.globl jostle_stream_load_neon
jostle_stream_load_neon:
    movi v0.2d, #0
    movi v1.2d, #0
    movi v2.2d, #0
    movi v3.2d, #0
    lsl x1, x1, #3
2:
    ldp q4, q5, [x0]
    ldp q6, q7, [x0, #32]
    eor v0.16b, v0.16b, v4.16b
    eor v1.16b, v1.16b, v5.16b
    eor v2.16b, v2.16b, v6.16b
    eor v3.16b, v3.16b, v7.16b
    add x0, x0, #64
    subs x1, x1, #1
    b.ne 2b
    eor v0.16b, v0.16b, v1.16b
    eor v2.16b, v2.16b, v3.16b
    eor v0.16b, v0.16b, v2.16b
    mov x0, v0.d[0]
    mov x1, v0.d[1]
    eor x0, x0, x1
    ret
