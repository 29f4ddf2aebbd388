// void FN(u8 *base: x0, size_t blocks: x1)        AAPCS64
//
// Fills blocks of 512 bytes with ones in ascending order, blocks > 0. The _nt
// variant hints that the lines are not used again.
// Never run on hardware: compared with the twin under an emulator.
//
// Facts per iteration (one block): 512 bytes, 16 pair stores, no loads.

.macro jostle_store_neon store:req
    movi v0.16b, #0xff
    lsl x1, x1, #2
2:
    \store q0, q0, [x0]
    \store q0, q0, [x0, #32]
    \store q0, q0, [x0, #64]
    \store q0, q0, [x0, #96]
    add x0, x0, #128
    subs x1, x1, #1
    b.ne 2b
.endm

.text
.p2align 4
.globl jostle_stream_store_neon
jostle_stream_store_neon:
    jostle_store_neon stp
    ret

.p2align 4
.globl jostle_stream_store_nt_neon
jostle_stream_store_nt_neon:
    jostle_store_neon stnp
    ret
