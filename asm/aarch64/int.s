// void FN(u64 lanes[12]: x0, u64 rounds: x1, u64 k: x2)        AAPCS64
//
// Twelve independent chains of integer work, one to a register, rounds > 0.
// From row to row the lanes move on by one place, so that each lane meets each
// operation once per round. The same work as x86-64's, whose address additions
// are additions here.
//
// Tested under emulation alone (scripts/check-aarch64): the result, not the
// speed.
//
// Facts per iteration (one round, 12 rows): 144 integer operations (12
// multiplications, 12 rotations, 60 additions, 60 exclusive ors), no loads, no
// stores.

.macro jostle_int_row a, b, c, d, e, f, g, h, i, j, k, l
    mul \a, \a, x2
    ror \b, \b, #51
    add \c, \c, x2
    eor \d, \d, x2
    add \e, \e, x2
    eor \f, \f, x2
    add \g, \g, x2
    eor \h, \h, x2
    add \i, \i, x2
    eor \j, \j, x2
    add \k, \k, x2
    eor \l, \l, x2
.endm

.text
.p2align 6
.globl jostle_int
jostle_int:
    ldp x3, x4, [x0]
    ldp x5, x6, [x0, #16]
    ldp x7, x8, [x0, #32]
    ldp x9, x10, [x0, #48]
    ldp x11, x12, [x0, #64]
    ldp x13, x14, [x0, #80]
2:
    jostle_int_row x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14
    jostle_int_row x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x3
    jostle_int_row x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x3, x4
    jostle_int_row x6, x7, x8, x9, x10, x11, x12, x13, x14, x3, x4, x5
    jostle_int_row x7, x8, x9, x10, x11, x12, x13, x14, x3, x4, x5, x6
    jostle_int_row x8, x9, x10, x11, x12, x13, x14, x3, x4, x5, x6, x7
    jostle_int_row x9, x10, x11, x12, x13, x14, x3, x4, x5, x6, x7, x8
    jostle_int_row x10, x11, x12, x13, x14, x3, x4, x5, x6, x7, x8, x9
    jostle_int_row x11, x12, x13, x14, x3, x4, x5, x6, x7, x8, x9, x10
    jostle_int_row x12, x13, x14, x3, x4, x5, x6, x7, x8, x9, x10, x11
    jostle_int_row x13, x14, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12
    jostle_int_row x14, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13
    subs x1, x1, #1
    b.ne 2b
    stp x3, x4, [x0]
    stp x5, x6, [x0, #16]
    stp x7, x8, [x0, #32]
    stp x9, x10, [x0, #48]
    stp x11, x12, [x0, #64]
    stp x13, x14, [x0, #80]
    ret
