/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The Intel PT engine on event trace, power events, triggers, and errata: each a
 * few packets by hand, with the flow that the SDM demands. libipt 2.0 knows none
 * of it, or has it otherwise.
 */
#include "tests/unit/test_pt.h"

#define CODE 0x3000

/*
 * 3000 nop	  3001 int 2a	 3003 nop, nop	 3005 iretq	3007 nop
 * 3008 uiret	  300c nop	 300d vmresume	 3010 nop	3011 vmcall
 * 3014 cli	  3015 nop	 3016 sti	 3017 nop	3018 mwait
 * 301b nop	  301c eretu	 3020 nop	 3021 jmp *rax	3023 nop, nop
 * 3025 erets	  3029 mov cr3, r16	 302d mov cr11, rax	3031 vmxoff
 * 3034 mov cr3, r16 3038 nop
 */
/* table */
static const uint8_t code[] = {
	0x90, 0xcd, 0x2a, 0x90, 0x90, 0x48, 0xcf, 0x90, 0xf3, 0x0f, 0x01, 0xec,
	0x90, 0x0f, 0x01, 0xc3, 0x90, 0x0f, 0x01, 0xc1, 0xfa, 0x90, 0xfb, 0x90,
	0x0f, 0x01, 0xc9, 0x90, 0xf3, 0x0f, 0x01, 0xca, 0x90, 0xff, 0xe0, 0x90,
	0x90, 0xf2, 0x0f, 0x01, 0xca, 0xd5, 0x90, 0x22, 0xd8, 0xd5, 0x84, 0x22,
	0xd8, 0x0f, 0x01, 0xc4, 0xd5, 0x90, 0x22, 0xd8, 0x90,
};

static int give(void *priv, uint64_t ip, struct aux_code *c)
{
	(void)priv;
	if (ip - CODE >= sizeof(code))
		return -AUX_E_NOENT;
	*c = (struct aux_code){ .start = CODE, .bytes = code,
				.end = CODE + sizeof(code) };
	return 0;
}

/* What a decoder makes of packets of a CPU of that family and model. */
static void decode_on(const char *name, bool paths, const struct pt *p,
		      unsigned family, unsigned model, const char *expected,
		      const char *what)
{
	static struct fixture f;

	begin(&f, name, paths);
	f.ops->close(f.dec);
	f.host.code = give;
	f.config.pt.cpu_intel = 1;
	f.config.pt.cpu_family = (uint16_t)family;
	f.config.pt.cpu_model = (uint8_t)model;
	if (f.ops->open(&f.dec, &f.config, &f.host, NULL) < 0)
		abort();
	ok(run(&f, p, 0), "%s: ends", what);
	is_str(text(&f), expected, what);
	f.ops->close(f.dec);
}

static void on_cpu(const struct pt *p, unsigned family, unsigned model,
		   const char *expected, const char *what)
{
	for (int paths = 0; paths < 2; paths++)
		decode_on("pt", paths, p, family, model, expected, what);
}

static void is_flow(struct pt *p, const char *expected, const char *what)
{
	on_cpu(p, 0, 0, expected, what);
	p->n = 0;
}

static void put_cfe(struct pt *p, unsigned type, unsigned vector)
{
	pt_bytes(p, "\x02\x13", 2);
	pt_u8(p, (uint8_t)type);
	pt_u8(p, (uint8_t)vector);
}

/* One with a FUP of its own */
static void put_cfe_ip(struct pt *p, unsigned type, unsigned vector, uint64_t ip)
{
	put_cfe(p, 0x80 | type, vector);
	pt_fup(p, ip);
}

static void put_evd(struct pt *p, unsigned type, uint64_t value)
{
	pt_bytes(p, "\x02\x53", 2);
	pt_u8(p, (uint8_t)type);
	pt_bytes(p, &value, 8);
}

static void put_pip(struct pt *p, uint8_t page)
{
	pt_bytes(p, "\x02\x43\0", 3);
	pt_u8(p, page);
	pt_bytes(p, "\0\0\0\0", 4);
}

/* Tracing ends before the instruction at ip. */
static void put_end(struct pt *p, uint64_t ip)
{
	pt_fup(p, ip);
	pt_pgd(p);
}

static void user_interrupts(void)
{
	struct pt p = { .n = 0 };
	const char *flow = "on:3003 3003-3003/1:fall k10.12:3004,5 "
			   "async:3004-3007 3007-3008/2:far k10.13:3008,0 "
			   "3004-3004/1:fall async:3005-0 off ";

	pt_psb(&p, 0, 0x3003);
	put_cfe(&p, AUX_CFE_UINTR, 5);
	pt_fup(&p, 0x3004);
	pt_tip(&p, 0x3007);
	put_cfe_ip(&p, AUX_CFE_UIRET, 0, 0x3008);
	pt_tip(&p, 0x3004);
	put_end(&p, 0x3005);
	is_flow(&p, flow, "a user interrupt and its UIRET");

	pt_psb(&p, 0, 0x3007);
	put_cfe(&p, AUX_CFE_UIRET, 0);
	pt_tip(&p, 0x3004);
	put_end(&p, 0x3005);
	is_flow(&p,
		"on:3007 3007-3008/2:far k10.13:0,0 3004-3004/1:fall "
		"async:3005-0 off ", "UIRET without its IP");

	pt_psb(&p, 0, 0x301b);
	put_cfe(&p, AUX_CFE_IRET, 0);
	pt_tip(&p, 0x3024);
	pt_tip(&p, 0x3004);
	put_end(&p, 0x3005);
	is_flow(&p,
		"on:301b 301b-301c/2:far k10.2:0,0 3024-3025/2:far "
		"3004-3004/1:fall async:3005-0 off ", "ERETU, ERETS");
}

/* VM entries and exits; the PIP of an entry may come before the CFE. */
static void guests(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x300c);
	put_cfe_ip(&p, AUX_CFE_VMENTRY, 0, 0x300d);
	put_pip(&p, 1);
	pt_tip(&p, 0x3010);
	put_evd(&p, AUX_EVD_VMXR, 1);
	put_evd(&p, AUX_EVD_VMXQ, 0x77);
	put_cfe(&p, AUX_CFE_VMEXIT_INTR, 0x20);
	pt_fup(&p, 0x3011);
	put_pip(&p, 2);
	pt_tip(&p, 0x3023);
	put_end(&p, 0x3024);
	is_flow(&p,
		"on:300c 300c-300d/2:far k10.7:300d,0 k6.0:1000,0 "
		"3010-3010/1:fall k10.2:3011,1 k10.1:3011,77 k10.9:3011,20 "
		"async:3011-3023 "
		"k6.0:2000,0 3023-3023/1:fall async:3024-0 off ",
		"a VM entry, and an interrupt that leaves the guest");

	pt_psb(&p, 0, 0x300c);
	put_pip(&p, 1);
	put_cfe_ip(&p, AUX_CFE_VMENTRY, 0, 0x300d);
	pt_tip(&p, 0x3010);
	put_cfe_ip(&p, AUX_CFE_VMEXIT, 0, 0x3011);
	put_pip(&p, 2);
	pt_tip(&p, 0x3023);
	put_end(&p, 0x3024);
	is_flow(&p,
		"on:300c 300c-300d/2:far k6.0:1000,0 k10.7:300d,0 "
		"3010-3010/1:fall k10.8:3011,0 3011-3011/1:far k6.0:2000,0 "
		"3023-3023/1:fall async:3024-0 off ",
		"the PIP comes first; VMCALL leaves the guest");
}

/* Interrupts where the kernel is not traced, and where it alone is. */
static void privileges(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x3000);
	put_cfe_ip(&p, AUX_CFE_INTR, 0x2a, 0x3001);
	pt_pgd(&p);
	put_cfe(&p, AUX_CFE_IRET, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x3003);
	put_evd(&p, AUX_EVD_CR2, 0x1234);
	put_cfe(&p, AUX_CFE_INTR, 14);
	put_end(&p, 0x3004);
	is_flow(&p,
		"on:3000 3000-3000/1:fall k10.1:3001,2a 3001-3001/1:syscall "
		"off k10.2:0,0 on:3003 3003-3003/1:fall k10.0:3004,1234 "
		"k10.1:3004,e async:3004-0 off ", "INT and a fault of a user");

	pt_psb(&p, 0, 0x3003);
	put_cfe(&p, AUX_CFE_IRET, 0);
	pt_pgd(&p);
	put_cfe(&p, AUX_CFE_INTR, 0x20);
	pt_mode64(&p);
	pt_pge(&p, 0x3020);
	put_end(&p, 0x3021);
	is_flow(&p,
		"on:3003 3003-3005/3:far k10.2:0,0 off k10.1:0,20 on:3020 "
		"3020-3020/1:fall async:3021-0 off ", "IRET to a user");
}

static void interrupt_flag(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x3014);
	pt_mode64(&p);
	pt_fup(&p, 0x3015);
	pt_bytes(&p, "\x99\x05", 2);	/* 64 bits, IF */
	pt_fup(&p, 0x3017);
	put_end(&p, 0x3018);
	is_flow(&p,
		"on:3014 3014-3014/1:fall k10.0:3015,0 3015-3016/2:fall "
		"k10.1:3017,0 3017-3017/1:fall async:3018-0 off ",
		"CLI and STI");

	pt_psb(&p, 0, 0x3003);
	pt_bytes(&p, "\x99\x05", 2);
	pt_tip(&p, 0x3023);		/* the IRETQ */
	pt_fup(&p, 0x3024);		/* an interrupt */
	pt_mode64(&p);
	pt_tip(&p, 0x3017);
	put_end(&p, 0x3018);
	is_flow(&p,
		"on:3003 3003-3005/3:far 3023-3023/1:fall async:3024-3017 "
		"3017-3017/1:fall async:3018-0 off ",
		"the flag of a branch waits for its TIP");

	pt_psb(&p, 0, 0x3000);
	pt_bytes(&p, "\x99\x06", 2);	/* 32 bits: not yet at the INT */
	pt_pgd(&p);
	pt_mode64(&p);
	pt_pge(&p, 0x3003);
	put_end(&p, 0x3004);
	is_flow(&p,
		"on:3000 3000-3001/2:syscall off on:3003 3003-3003/1:fall "
		"async:3004-0 off ", "that of one which ends tracing");
}

static void put_mwait(struct pt *p, const char *exstop)
{
	pt_bytes(p, "\x02\xc2\x60\0\0\0\1\0\0\0", 10);
	pt_bytes(p, "\x02\x22\x00\x60", 4);	/* PWRE */
	pt_bytes(p, exstop, 2);
}

static void power(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0);
	put_mwait(&p, "\x02\x62");	/* an EXSTOP without its IP */
	pt_bytes(&p, "\x02\xa2\x66\0\0\0\0", 7);	/* PWRX */
	pt_mode64(&p);
	pt_pge(&p, 0x3003);
	put_end(&p, 0x3005);
	is_flow(&p,
		"k9.1:0,100000060 k9.2:0,6 k9.4:0,0 k9.3:0,606 on:3003 "
		"3003-3004/2:fall async:3005-0 off ",
		"MWAIT while tracing is off");

	pt_psb(&p, 0, 0x3017);
	put_mwait(&p, "\x02\xe2");
	pt_fup(&p, 0x3018);
	pt_bytes(&p, "\x02\xa2\x66\0\0\0\0", 7);
	put_end(&p, 0x301b);
	is_flow(&p,
		"k9.2:0,6 on:3017 3017-3017/1:fall k9.1:3018,100000060 "
		"k9.4:3018,0 k9.3:0,606 3018-3018/1:fall async:301b-0 off ",
		"MWAIT, with the IP of its EXSTOP");
}

static void triggers(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x3003);
	pt_bytes(&p, "\xd9\xc0\x02\0\0", 5);	/* with a FUP */
	pt_fup(&p, 0x3004);
	pt_bytes(&p, "\xd9\x60\x1a\x03\0", 5);	/* several; after 3 */
	pt_bytes(&p, "\xd9\x00\x80", 3);
	put_end(&p, 0x3005);
	is_flow(&p,
		"on:3003 3003-3003/1:fall k10.2:3004,10000 k10.26:0,30003 "
		"k10.128:0,0 3004-3004/1:fall async:3005-0 off ", "TRIG");
}

/* MOV CR3 with a REX2; VMXOFF is no branch. */
static void registers(void)
{
	static struct fixture f, ref;
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x3029);
	put_pip(&p, 1);
	put_pip(&p, 2);
	put_end(&p, 0x3038);
	is_flow(&p,
		"on:3029 3029-3029/1:fall k6.0:1000,0 302d-3034/3:fall "
		"k6.0:2000,0 async:3038-0 off ", "MOV CR3, R16");

	pt_psb(&p, 0, 0x3031);
	put_end(&p, 0x3034);
	begin(&f, "pt", false);
	f.host.code = give;
	run(&f, &p, 0);
	is_str(text(&f), "on:3031 3031-3031/1:fall async:3034-0 off ", "VMXOFF");
	if (decoders_find("libipt", 0, NULL)) {
		begin(&ref, "libipt", false);
		ref.host.code = give;
		run(&ref, &p, 0);
		is_str(text(&ref), text(&f), "VMXOFF: as libipt has it");
		ref.ops->close(ref.dec);
	}
	f.ops->close(f.dec);
}

/* The FUP of a PEBS record is its own, whatever branch comes next. */
static void records(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x3020);
	pt_bytes(&p, "\x02\x63\x84", 3);	/* BBP, BIP, BEP with its IP */
	pt_bytes(&p, "\x04\1\2\3\4", 5);
	pt_bytes(&p, "\x02\xb3", 2);
	pt_fup(&p, 0x3021);
	pt_tip(&p, 0x3003);
	put_end(&p, 0x3004);
	is_flow(&p,
		"on:3020 3020-3021/2:ijump 3003-3003/1:fall async:3004-0 off ",
		"a PEBS record before a jump");
}

/* Of what never comes: the next FUP is not theirs. */
static void alone(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x3003);
	put_cfe(&p, 0x80 | AUX_CFE_SMI, 0);
	pt_bytes(&p, "\xd9\xc0\x02\0\0", 5);
	put_cfe(&p, AUX_CFE_INIT, 0);
	put_evd(&p, 9, 1);
	put_mwait(&p, "\x02\x62");
	put_end(&p, 0x3005);
	is_flow(&p,
		"k10.3:0,0 k10.2:0,10000 k10.6:0,0 k10.9:0,1 "
		"k9.1:0,100000060 k9.2:0,6 k9.4:0,0 on:3003 3003-3004/2:fall "
		"async:3005-0 off ", "events without their FUP");
}

/* A TMA of a guest whose TSC is scaled, and the byte after it. */
static void put_skz84(struct pt *p)
{
	for (int i = 0; i < 8; i++)
		pt_bytes(p, "\x02\x82", 2);
	pt_tsc(p, 50);
	pt_bytes(p, "\x02\x73\x12\x34\xff\x56\x78\x9a", 8);
	pt_mode64(p);
	pt_fup(p, 0x3003);
	pt_bytes(p, "\x02\x23", 2);
	put_end(p, 0x3005);
}

static void errata(void)
{
	static const struct { uint8_t family, model; bool skz84; } cpus[] = {
		{ 6, 0x55, true }, { 6, 0x6a, true }, { 6, 0x6c, true },
		{ 6, 0x8f, true }, { 6, 0xad, true }, { 6, 0xae, true },
		{ 6, 0xcf, true }, { 19, 1, true }, { 6, 0x5e, false },
		{ 6, 0x97, false },
	};
	const char *no_fup = "on:3003 3003-3004/2:fall async:3005-0 off ";
	struct pt entry = { .n = 0 }, tma = { .n = 0 }, stale = { .n = 0 };

	pt_psb(&entry, 0, 0x300c);
	put_end(&entry, 0x300d);	/* the FUP means nothing */
	put_skz84(&tma);
	pt_psb(&stale, 0, 0x300c);	/* BDM70: tracing is off there */
	pt_mode64(&stale);
	pt_pge(&stale, 0x3003);
	put_end(&stale, 0x3005);
	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		on_cpu(&entry, cpus[i].family, cpus[i].model,
		       "on:300c 300c-300d/2:far off ", "SKD022");
		on_cpu(&tma, cpus[i].family, cpus[i].model, cpus[i].skz84 ?
		       "t50 on:3003 3003-3004/2:fall async:3005-0 off " :
		       "gap3:0 ", "SKZ84");
		on_cpu(&stale, cpus[i].family, cpus[i].model, no_fup, "BDM70");
		if (decoders_find("libipt", 0, NULL))
			decode_on("libipt", false, &stale, cpus[i].family,
				  cpus[i].model, no_fup, "BDM70, libipt");
	}
	for (unsigned family = 5; family < 20; family++) {
		unsigned model = family == 6 ? 0xd5 : family == 19 ? 3 : 1;

		on_cpu(&entry, family, model,
		       "on:300c 300c-300c/1:fall async:300d-0 off ", "no SKD022");
		on_cpu(&tma, family, model, "gap3:0 ", "no SKZ84");
	}
}

/* SKL168: the last CYC and MTC before a PSB may be missing. What comes after it
 * has the same times. */
static void lost_before_psb(void)
{
	static struct fixture f;
	uint64_t last[2];

	for (int lost = 0; lost < 2; lost++) {
		struct pt p = { .n = 0 };

		for (int i = 0; i < 2; i++) {
			pt_psb(&p, 1000000 + 1000 * (uint64_t)i, 0x3021);
			pt_bytes(&p, "\x02\x73\0\0\0\0\0", 7);	/* TMA */
			pt_bytes(&p, "\x02\x03\x14\0", 4);	/* CBR */
			pt_u8(&p, 31 << 3 | 3);			/* CYC */
			pt_tip(&p, 0x3021);
			pt_bytes(&p, "\x59\x01", lost && !i ? 0 : 2);
			pt_bytes(&p, "\xfb", lost && !i ? 0 : 1);
		}
		pt_tip(&p, 0x3021);
		begin(&f, "pt", false);
		f.ops->close(f.dec);
		f.host.code = give;
		f.config.pt = (struct aux_pt_config){
			.cpu_intel = 1, .cpu_family = 6, .cpu_model = 0x5e,
			.mtc_period = 3, .max_nonturbo_ratio = 20,
			.tsc_ctc_ratio_n = 40, .tsc_ctc_ratio_d = 1 };
		if (f.ops->open(&f.dec, &f.config, &f.host, NULL) < 0)
			abort();
		ok(run(&f, &p, 0), "SKL168: ends");
		last[lost] = 0;
		for (size_t i = 0; i < f.n; i++)
			if (f.ev[i].kind == AUX_FLOW_TIME)
				last[lost] = f.ev[i].time.tsc;
		f.ops->close(f.dec);
	}
	ok(last[0] > 1001000, "SKL168: MTC and CYC after the PSB count");
	is_u64(last[1], last[0], "SKL168: as if nothing were missing before it");
}

int main(void)
{
	user_interrupts();
	guests();
	privileges();
	interrupt_flag();
	power();
	triggers();
	registers();
	records();
	alone();
	errata();
	lost_before_psb();
	return plan_done();
}
