/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -nostdlib */
/* host: x86_64 */
/*
 * The smallest program worth tracing: a loop with calls, two system calls,
 * the same addresses on every machine. Recordings of it make good fixtures.
 */
	.globl	_start
	.text
_start:
	xor	%ebp, %ebp
	mov	$5, %ebx
1:	call	work
	dec	%ebx
	jnz	1b
	mov	$1, %eax		/* write(1, text, size) */
	mov	$1, %edi
	lea	text(%rip), %rsi
	mov	$size, %edx
	syscall
	lea	work(%rip), %rax
	call	*%rax
	mov	$231, %eax		/* exit_group(0) */
	xor	%edi, %edi
	syscall
	ud2

	.type	work, @function
work:
	test	$1, %bl
	jz	2f
	add	$1, %r8
	ret
2:	lea	1f(%rip), %rcx
	jmp	*%rcx
	ud2
1:	add	$2, %r8
	ret
	.size	work, . - work

	.section .rodata
text:	.ascii	"hello from assembly\n"
	.equ	size, . - text
	.section .note.GNU-stack, "", @progbits
