/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/* The rules of decode/callstack/callstack.h, one after the other, over flows made by hand. */
#include "tests/unit/tap.h"
#include "tests/unit/test_callstack.h"

#define C AUX_END_CALL
#define R AUX_END_RET
#define J AUX_END_JUMP
#define I AUX_END_IND_JUMP
#define S AUX_END_SYSCALL
#define N AUX_END_FALL

static struct made m;

/* main calls f, whose begin this leaves to come. */
static void main_calls_f(unsigned flags)
{
	made_begin(&m, flags);
	go(&m, MAIN, MAIN + 0x10, C);
}

static void test_plain(void)
{
	main_calls_f(0);
	go(&m, F, F + 0x10, C);
	go(&m, G, G + 8, R);
	go(&m, F + 0x15, F + 0x20, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f +g -g -f -main.", "calls and returns");
	is_u64(m.own, 10, "what frames took on their own is all that ran");

	main_calls_f(0);
	go(&m, F, F + 0x10, J);
	go(&m, G, G + 8, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f -f> +=>g -g -main.", "a tail call");

	main_calls_f(0);
	go(&m, F, F + 0x10, I);
	go(&m, F, F + 0x20, J);
	go(&m, F, F + 8, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f -f> +=>f -f -main.",
	       "an indirect jump to its own begin is one, a direct a loop");

	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, C);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main -main.",
	       "a call to the next instruction is none");

	main_calls_f(0);
	go(&m, F, F + 0x10, I);
	go(&m, NOWHERE, NOWHERE + 8, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f -f> +=>[made] -[made] -main.",
	       "a jump into code without a name is a tail call");

	main_calls_f(0);
	go(&m, F, F + 0x10, I);
	go(&m, NOWHERE, NOWHERE + 8, I);
	go(&m, F + 0x20, F + 0x30, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m),
	       "+=main +f -f> +=>[made] -[made]> +=>f -f -main.",
	       "and back into the middle of the function, as interpreters do");

	main_calls_f(0);
	go(&m, F, F + 0x10, J);
	go(&m, JITTED, JITTED + 8, J);
	go(&m, F + 0x20, F + 0x30, J);
	go(&m, NOWHERE, NOWHERE + 8, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m),
	       "+=main +f -f> +=>[[anon]] -[[anon]]> +=>f -f -main.",
	       "a direct jump is, too, if it leaves the file");

	main_calls_f(0);
	go(&m, F, F + 0x10, I);
	go(&m, UNMAPPED, UNMAPPED + 8, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f -f -main.",
	       "of what is mapped nowhere nothing is said");

	main_calls_f(0);
	go(&m, F, F + 0x10, AUX_END_COND_TAKEN);
	go(&m, COLD + 0x10, COLD + 0x20, J);
	go(&m, F + 0x40, F + 0x50, J);
	go(&m, COLD, COLD + 0x50, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f -f -main.",
	       "other parts of a function are no functions");
}

static void test_stubs(void)
{
	static const char *const want[2] = {
		"+=main +f -f -main.", "+=main +f@plt -f@plt> +=>f -f -main."
	};

	for (unsigned i = 0; i < 2; i++) {
		main_calls_f(i ? CALLS_KEEPS_STUBS : 0);
		go(&m, STUB, STUB + 4, I);
		go(&m, F, F + 0x10, R);
		go(&m, MAIN + 0x15, MAIN + 0x20, N);
		is_str(made_end(&m), want[i], i ? "stubs are kept" :
						  "a PLT entry leaves no trace");
	}
	main_calls_f(0);
	event(&m, AUX_FLOW_TRACE_OFF, STUB);
	event(&m, AUX_FLOW_TRACE_ON, STUB);
	go(&m, STUB, STUB + 4, I);
	go(&m, F, F + 0x10, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), want[0], "nor does a stop inside of it");

	main_calls_f(0);
	go(&m, THUNK, THUNK + 4, C);
	go(&m, THUNK + 0x10, THUNK + 0x20, R);
	go(&m, F, F + 0x10, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), want[0], "a retpoline leaves no trace");
}

static void test_unwind(void)
{
	main_calls_f(0);
	go(&m, F, F + 0x10, C);
	go(&m, G, G + 8, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f +g -g/ -f -main.",
	       "a return to a frame further down");

	main_calls_f(0);
	go(&m, F, F + 0x10, C);
	go(&m, G, G + 8, R);
	go(&m, MAIN + 0x80, MAIN + 0x90, N);
	is_str(made_end(&m), "+=main +f +g -g/? -f/? -main.",
	       "a landing pad: to the frame of its function");

	made_begin(&m, 0);
	go(&m, F, F + 0x10, R);
	go(&m, MAIN + 0x40, MAIN + 0x50, N);
	is_str(made_end(&m), "+=f -f +=main -main.",
	       "out of what ran when the trace began");
}

/* rec calls setjmp, and itself n times; the last calls longjmp. */
static void jump_in_recursion(unsigned n)
{
	main_calls_f(0);
	for (unsigned i = 0; i < n; i++) {
		go(&m, REC, REC + 0x10, C);
		go(&m, SETJMP, SETJMP + 8, R);
		go(&m, REC + 0x15, REC + 0x20, C);
	}
	go(&m, LONGJMP, LONGJMP + 0x10, I);
	go(&m, REC + 0x15, REC + 0x30, N);
}

static void test_longjmp(void)
{
	jump_in_recursion(1);
	go(&m, REC + 0x35, REC + 0x40, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m),
	       "+=main +rec +_setjmp -_setjmp +longjmp -longjmp/ -rec -main.",
	       "longjmp to where setjmp was called");

	jump_in_recursion(3);
	go(&m, REC + 0x35, REC + 0x40, R);
	go(&m, REC + 0x25, REC + 0x40, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m),
	       "+=main +rec +_setjmp -_setjmp +rec +_setjmp -_setjmp +rec "
	       "+_setjmp -_setjmp +longjmp -longjmp/ -rec/ -rec -rec -main.",
	       "of several activations that of which the returns tell");
}

static void test_signals(void)
{
	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, N);
	event(&m, AUX_FLOW_ASYNC, MAIN + 0x15);
	go(&m, HANDLER, HANDLER + 0x10, C);
	go(&m, F, F + 0x10, R);
	go(&m, HANDLER + 0x15, HANDLER + 0x20, R);
	go(&m, RESTORE, RESTORE + 7, S);
	event(&m, AUX_FLOW_TRACE_ON, MAIN + 0x15);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +!handler +f -f -handler -main.",
	       "a signal");

	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, S);
	go(&m, HANDLER, HANDLER + 0x10, R);
	go(&m, RESTORE, RESTORE + 7, S);
	go(&m, HANDLER2, HANDLER2 + 0x10, R);
	go(&m, RESTORE, RESTORE + 7, S);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m),
	       "+=main +!handler -handler +!handler2 -handler2 -main.",
	       "behind a system call, another follows");

	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, S);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	event(&m, AUX_FLOW_ASYNC, MAIN + 0x25);
	go(&m, MAIN + 0x25, MAIN + 0x30, S);
	go(&m, START, START + 8, N);
	is_str(made_end(&m), "+=main -mainx +=_start -_start.",
	       "system calls and page faults are nothing, exec is");
}

static void test_branches(void)
{
	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, S);
	go(&m, MAIN + 0x15, MAIN + 0x20, S);
	event(&m, AUX_FLOW_ASYNC, MAIN + 0x25);
	event(&m, AUX_FLOW_TRACE_ON, MAIN + 0x25);
	go(&m, MAIN + 0x25, MAIN + 0x30, N);
	is_str(made_end(&m), "+=main -main.", "preempted behind a system call");
	is_u64(m.branches, 2, "which is taken all the same");
}

static void test_kernel(void)
{
	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, S);
	go(&m, KERNEL, KERNEL + 0x10, C);
	go(&m, KFUNC, KFUNC + 0x10, R);
	go(&m, KERNEL + 0x15, KERNEL + 0x20, AUX_END_FAR);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	event(&m, AUX_FLOW_ASYNC, MAIN + 0x25);
	go(&m, KFUNC, KFUNC + 0x10, AUX_END_FAR);
	go(&m, MAIN + 0x25, MAIN + 0x30, N);
	is_str(made_end(&m),
	       "+=main +~entry +kfunc -kfunc -entryk +^kfunc -kfunck -main.",
	       "a system call and an interrupt, seen in the kernel");

	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, S);
	go(&m, KERNEL, KERNEL + 0x20, AUX_END_FAR);
	go(&m, HANDLER, HANDLER + 0x10, R);
	go(&m, RESTORE, RESTORE + 7, S);
	go(&m, KERNEL, KERNEL + 0x20, AUX_END_FAR);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m),
	       "+=main +~entry -entryk +!handler +~entry -entryk -handler "
	       "-main.", "a signal, seen in the kernel");
}

/* Of the program beside it nothing is traced. */
static void test_kernel_alone(void)
{
	made_begin(&m, 0);
	go(&m, KFUNC, KFUNC + 0x20, AUX_END_FAR);
	event(&m, AUX_FLOW_TRACE_OFF, 0);
	event(&m, AUX_FLOW_TRACE_ON, KCALL);
	go(&m, KCALL, KCALL + 0x10, C);
	go(&m, KFUNC, KFUNC + 0x10, R);
	go(&m, KCALL + 0x15, KCALL + 0x20, AUX_END_FAR);
	event(&m, AUX_FLOW_TRACE_OFF, 0);
	event(&m, AUX_FLOW_TRACE_ON, KFUNC);
	go(&m, KFUNC, KFUNC + 0x20, N);
	event(&m, AUX_FLOW_ASYNC, KFUNC + 0x25);
	go(&m, KERNEL, KERNEL + 0x20, AUX_END_FAR);
	go(&m, KFUNC + 0x25, KFUNC + 0x30, N);
	is_str(made_end(&m), "+=kfunc -kfunck +~entry_SYSCALL_64 +kfunc -kfunc "
	       "-entry_SYSCALL_64k +^kfunc +^entry -entry -kfunc.",
	       "the kernel alone: its calls end where the program goes on");

	made_begin(&m, 0);
	go(&m, KERNEL, KERNEL + 0x10, C);
	go(&m, KFUNC, KFUNC + 0x20, N);
	event(&m, AUX_FLOW_TRACE_OFF, KFUNC + 0x25);
	event(&m, AUX_FLOW_TRACE_ON, KFUNC + 0x25);
	go(&m, KFUNC + 0x25, KFUNC + 0x30, R);
	go(&m, KERNEL + 0x15, KERNEL + 0x20, N);
	is_str(made_end(&m), "+=entry +kfunc -kfunc -entry.",
	       "the kernel alone: a pause in it ends none");
}

int main(void)
{
	test_plain();
	test_stubs();
	test_unwind();
	test_longjmp();
	test_signals();
	test_branches();
	test_kernel();
	test_kernel_alone();
	return plan_done();
}
