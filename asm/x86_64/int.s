# void FN(u64 lanes[12]: rdi, u64 rounds: rsi, u64 k: rdx)        System V ABI, Intel syntax
#
# Twelve independent chains of integer work, one in each free register, rounds
# > 0. Every operation takes its second operand from a register: an addition
# of an immediate, a move or a zeroing idiom would be done by the renamer of
# recent cores and never reach a port. From row to row the lanes move on by
# one place, so that each lane meets each operation once per round.
#
# The mix keeps every integer port busy: additions and exclusive ors go to any
# of them, rotations to two, the multiplication (latency 3) to one.
#
# Facts per iteration (one round, 12 rows): 144 integer operations (12
# multiplications, 12 rotations, 24 address additions, 36 additions, 60
# exclusive ors), no loads, no stores.

.macro jostle_int_row a, b, c, d, e, f, g, h, i, j, k, l
    imul \a, rdx
    rol \b, 13
    lea \c, [\c + rdx]
    xor \d, rdx
    add \e, rdx
    xor \f, rdx
    add \g, rdx
    xor \h, rdx
    lea \i, [\i + rdx]
    xor \j, rdx
    add \k, rdx
    xor \l, rdx
.endm

.text
.p2align 6
.globl jostle_int
jostle_int:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov rax, [rdi]
    mov rcx, [rdi + 8]
    mov rbx, [rdi + 16]
    mov rbp, [rdi + 24]
    mov r8, [rdi + 32]
    mov r9, [rdi + 40]
    mov r10, [rdi + 48]
    mov r11, [rdi + 56]
    mov r12, [rdi + 64]
    mov r13, [rdi + 72]
    mov r14, [rdi + 80]
    mov r15, [rdi + 88]
    .p2align 6
2:
    jostle_int_row rax, rcx, rbx, rbp, r8, r9, r10, r11, r12, r13, r14, r15
    jostle_int_row rcx, rbx, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rax
    jostle_int_row rbx, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rax, rcx
    jostle_int_row rbp, r8, r9, r10, r11, r12, r13, r14, r15, rax, rcx, rbx
    jostle_int_row r8, r9, r10, r11, r12, r13, r14, r15, rax, rcx, rbx, rbp
    jostle_int_row r9, r10, r11, r12, r13, r14, r15, rax, rcx, rbx, rbp, r8
    jostle_int_row r10, r11, r12, r13, r14, r15, rax, rcx, rbx, rbp, r8, r9
    jostle_int_row r11, r12, r13, r14, r15, rax, rcx, rbx, rbp, r8, r9, r10
    jostle_int_row r12, r13, r14, r15, rax, rcx, rbx, rbp, r8, r9, r10, r11
    jostle_int_row r13, r14, r15, rax, rcx, rbx, rbp, r8, r9, r10, r11, r12
    jostle_int_row r14, r15, rax, rcx, rbx, rbp, r8, r9, r10, r11, r12, r13
    jostle_int_row r15, rax, rcx, rbx, rbp, r8, r9, r10, r11, r12, r13, r14
    dec rsi
    jnz 2b
    mov [rdi], rax
    mov [rdi + 8], rcx
    mov [rdi + 16], rbx
    mov [rdi + 24], rbp
    mov [rdi + 32], r8
    mov [rdi + 40], r9
    mov [rdi + 48], r10
    mov [rdi + 56], r11
    mov [rdi + 64], r12
    mov [rdi + 72], r13
    mov [rdi + 80], r14
    mov [rdi + 88], r15
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
