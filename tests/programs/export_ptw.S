/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -nostdlib -static */
/* host: x86_64 */
/* Never run: code for a trace that export_make.py writes. PTWRITEs in a function. */
	.globl _start, work
	.type _start, @function
	.type work, @function
_start:
	call work
after:
	nop
end:
	jmp end
	.size _start, . - _start

work:
	nop
p0:	ptwrite %rax
	nop
p1:	ptwrite %rax
p2:	ptwrite %rax
	nop
p3:	ptwrite %rax
p4:	ptwrite %rax
p5:	ptwrite %rax
	ret
	.size work, . - work
	.globl p0, p1, p2, p3, p4, p5, after, end
	.section .note.GNU-stack, "", @progbits
