/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -nostdlib */
/*
 * The smallest aarch64 program worth tracing: a loop with calls, two system
 * calls, every kind of branch that user code has, the same addresses on every
 * machine. Recordings of it make good fixtures.
 */
	.arch	armv8.3-a
	.globl	_start
	.text
_start:
	mov	x29, #0
	mov	w19, #5
1:	bl	work
	sub	w19, w19, #1
	cbnz	w19, 1b
	isb
	mov	x8, #64			/* write(1, text, size) */
	mov	x0, #1
	adr	x1, text
	mov	x2, #size
	svc	#0
	adr	x9, work
	blr	x9
	bl	kinds
	mov	x8, #94			/* exit_group(0) */
	mov	x0, #0
	svc	#0
	udf	#0

	.type	work, @function
work:
	tbz	w19, #0, 2f
	add	x10, x10, #1
	ret
2:	adr	x11, 1f
	br	x11
	udf	#1
1:	add	x10, x10, #2
	ret	x30
	.size	work, . - work

	.type	kinds, @function
kinds:
	paciasp
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	mov	x12, #3
1:	subs	x12, x12, #1
	b.ne	1b
	tbnz	x12, #0, 1b
	cbz	x12, 2f
	udf	#2
2:	b.al	3f
	udf	#3
3:	b	4f
	udf	#4
4:	adr	x9, work
	blr	x9
	adr	x9, 5f
	pacia	x9, sp
	braa	x9, sp
	udf	#5
5:	dsb	ish
	isb	sy
	yield
	ldp	x29, x30, [sp], #16
	retaa
	.size	kinds, . - kinds

	.section .rodata
text:	.ascii	"hello from assembly\n"
	.equ	size, . - text
	.section .note.GNU-stack, "", @progbits
