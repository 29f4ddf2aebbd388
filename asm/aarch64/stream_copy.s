// void FN(const u8 *from: x0, u8 *to: x1, size_t blocks: x2)        AAPCS64
//
// Copies blocks of 512 bytes in ascending order, apart from each other,
// blocks > 0, with stores that hint that the lines are not used again. Never run
// on hardware: compared with the twin under an emulator.
//
// Facts per iteration (one block): 512 bytes read, 512 bytes written.

.text
.p2align 4
.globl jostle_stream_copy_neon
jostle_stream_copy_neon:
    lsl x2, x2, #2
2:
    ldp q0, q1, [x0]
    ldp q2, q3, [x0, #32]
    ldp q4, q5, [x0, #64]
    ldp q6, q7, [x0, #96]
    stnp q0, q1, [x1]
    stnp q2, q3, [x1, #32]
    stnp q4, q5, [x1, #64]
    stnp q6, q7, [x1, #96]
    add x0, x0, #128
    add x1, x1, #128
    subs x2, x2, #1
    b.ne 2b
    ret
