/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The ledger: wording and numbers of every kind of loss, its balance, its bytes
 * in the file, and several threads that add to it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "perfdata/ledger.h"
#include "tests/unit/tap.h"
#include "tests/unit/writer_small.h"

static const char *text(const struct ledger *l)
{
	static char buf[1024];

	ledger_text(l, buf, sizeof(buf));
	return buf;
}

/* table: one loss of each kind, and what is said of one, and of two */
static const struct {
	enum aux_ledger_cause cause;
	uint64_t bytes;
	const char *one, *two;
} losses[] = {
	{ AUX_LEDGER_SAVED, 5, "", "" },
	{ AUX_LEDGER_OVERWRITTEN, 5, "", "" },
	{ AUX_LEDGER_OVERWRITTEN, 0, "", "" },
	{ AUX_LEDGER_TRUNCATED, 1, "1 byte (AUX buffer full)",
	  "2 bytes (AUX buffer full)" },
	{ AUX_LEDGER_TRUNCATED, 0, "1 gap (AUX buffer full), bytes unknown",
	  "2 gaps (AUX buffer full), bytes unknown" },
	{ AUX_LEDGER_PARTIAL, 0, "1 gap (partial trace), bytes unknown",
	  "2 gaps (partial trace), bytes unknown" },
	{ AUX_LEDGER_LOST_RECORDS, 1, "1 record (data buffer full)",
	  "2 records (data buffer full)" },
	{ AUX_LEDGER_LOST_RECORDS, 0, "", "" },
	{ AUX_LEDGER_NOT_TRACED, 1, "1 process (not traced)",
	  "2 processes (not traced)" },
	{ AUX_LEDGER_STALLED, 0,
	  "1 stop (PMU had stopped silently), bytes unknown",
	  "2 stops (PMU had stopped silently), bytes unknown" },
	{ AUX_LEDGER_UNWRITTEN, 1, "1 byte (could not be written)",
	  "2 bytes (could not be written)" },
	{ AUX_LEDGER_UNREAD, 1, "1 byte (left in the buffer at the end)",
	  "2 bytes (left in the buffer at the end)" },
};

static void test_wording(void)
{
	size_t i;

	for (i = 0; i < sizeof(losses) / sizeof(*losses); i++) {
		struct ledger l = { 0 };

		ledger_add(&l, 0, losses[i].cause, losses[i].bytes, 0, 0);
		is_str(text(&l), losses[i].one, "one loss");
		ok(ledger_lossy(&l) == (*losses[i].one != '\0'), "lossy");
		ledger_add(&l, 1, losses[i].cause, losses[i].bytes, 0, 0);
		is_str(text(&l), losses[i].two, "two losses");
		ledger_fini(&l);
	}
}

static void test_mixed(void)
{
	struct ledger l = { 0 }, sum = { 0 };
	char small[8];

	ledger_add(&l, 0, AUX_LEDGER_TRUNCATED, 7, 10, 20);
	ledger_add(&l, 0, AUX_LEDGER_TRUNCATED, 0, 5, 15);
	ledger_add(&l, 0, AUX_LEDGER_UNREAD, 1, 0, 0);
	is_str(text(&l), "7 bytes and 1 gap of unknown size (AUX buffer full), "
	       "1 byte (left in the buffer at the end)", "known and unknown");
	ok(l.entries[0].n == 2 && l.entries[0].first_ns == 5 &&
	   l.entries[0].last_ns == 20, "count and time");
	is_u64(ledger_times(&l, AUX_LEDGER_TRUNCATED), 2, "how often");
	ledger_text(&l, small, sizeof(small));
	is_str(small, "7 bytes", "a short buffer");
	ledger_merge(&sum, &l);
	ledger_merge(&sum, &l);
	is_str(text(&sum), "14 bytes and 2 gaps of unknown size (AUX buffer "
	       "full), 2 bytes (left in the buffer at the end)", "merged twice");
	ok(sum.entries[0].n == 4 && sum.entries[0].first_ns == 5,
	   "count and time of both");
	ledger_fini(&l);
	ledger_fini(&sum);
	ledger_fini(&sum);
}

static void test_balance(void)
{
	struct ledger l = { 0 }, sum = { 0 };
	struct aux_diag d = { 0 };

	ledger_produced(&l, 3, 100);
	ledger_add(&l, 3, AUX_LEDGER_SAVED, 60, 0, 0);
	ledger_add(&l, 3, AUX_LEDGER_STALLED, 10, 0, 0);
	ledger_add(&l, 3, AUX_LEDGER_UNWRITTEN, 10, 0, 0);
	ledger_add(&l, 3, AUX_LEDGER_LOST_RECORDS, 77, 0, 0);
	ledger_add(&l, 3, AUX_LEDGER_UNREAD, 19, 0, 0);
	ok(ledger_check(&l, &d) == -AUX_E_LIMIT && strstr(d.text, "stream 3"),
	   "one byte is not explained");
	ledger_add(&l, 3, AUX_LEDGER_OVERWRITTEN, 1, 0, 0);
	ok(!ledger_check(&l, &d), "now it is");
	ledger_merge(&sum, &l);
	ledger_merge(&sum, &l);
	ok(!ledger_check(&sum, &d) && ledger_total(&sum, AUX_LEDGER_SAVED) ==
	   120, "merged it balances");
	ledger_produced(&sum, 4, 1);
	ok(ledger_check(&sum, &d) < 0, "a stream without entries");
	ledger_fini(&l);
	ledger_fini(&sum);
}

static void *add_many(void *arg)
{
	struct ledger *l = arg;
	uint32_t i;

	for (i = 0; i < 100000; i++) {
		ledger_produced(l, i % 8, 3);
		ledger_add(l, i % 8, AUX_LEDGER_SAVED, 2, i, i);
		ledger_add(l, i % 8, AUX_LEDGER_TRUNCATED, 1, i, i);
	}
	return NULL;
}

static void test_threads(void)
{
	struct ledger l = { 0 };
	struct aux_diag d = { 0 };
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, add_many, &l);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ok(!ledger_check(&l, &d), "four threads add up");
	ok(ledger_total(&l, AUX_LEDGER_SAVED) == 800000 &&
	   ledger_times(&l, AUX_LEDGER_TRUNCATED) == 400000, "to the right sum");
	ledger_fini(&l);
}

/* The last own record of the data: the ledger. */
static void test_file(void)
{
	char path[] = "/tmp/auxkit-ledger.XXXXXX";
	struct ledger l = { 0 };
	struct writer *w;
	struct file f;
	uint64_t at, end, rec, last = 0;
	int fd = mkstemp(path);

	close(fd);
	w = start_small(path, NULL);
	put_info(w);
	ledger_add(&l, 2, AUX_LEDGER_SAVED, 99, 5, 6);
	ledger_add(&l, 2, AUX_LEDGER_TRUNCATED, 1, 7, 8);
	ok(!ledger_save(&l, w) && !writer_close(w, NULL), "at the end");
	f = load_file(path);
	at = rec = u64_at(&f, 40);
	end = at + u64_at(&f, 48);
	for (; next_record(&f, &at, end); rec = at)
		last = rec;
	ok(u32_at(&f, last + 16) == (AUX_OWN_LEDGER | 1 << 16) &&
	   u32_at(&f, last + 20) == 80, "it comes last, with both entries");
	ok(u64_at(&f, last + 24) == 2 && u64_at(&f, last + 32) == 99 &&
	   u64_at(&f, last + 56) == 1, "what was saved");
	ok(u64_at(&f, last + 64) == (2 | 1ULL << 32) &&
	   u64_at(&f, last + 72) == 1 && u64_at(&f, last + 80) == 7 &&
	   u64_at(&f, last + 96) == 1, "what was lost");
	free(f.data);
	ledger_fini(&l);
	unlink(path);
}

int main(void)
{
	test_wording();
	test_mixed();
	test_balance();
	test_threads();
	test_file();
	return plan_done();
}
