// SPDX-License-Identifier: GPL-2.0-only
/*
 * The perf core's side: events come, run on a CPU, stop and go.
 *
 * Invariant: c->event is the event added on this CPU; its handle is open
 * (c->buf) exactly while hw.state lacks PERF_HES_STOPPED.
 */
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/version.h>

#include "intel_pt_attrs.h"
#include "sim.h"

static LIST_HEAD(sim_events);
static DEFINE_RAW_SPINLOCK(sim_events_lock);	/* the list and all filters */

static struct sim_cpu *this_source(struct perf_event *event)
{
	return this_cpu_ptr(sim_of(event->pmu)->cpus);
}

/* aux_sim's own terms. */
PMU_FORMAT_ATTR(rate,		"config1:0-63");
PMU_FORMAT_ATTR(payload,	"config:0-3");
PMU_FORMAT_ATTR(head,		"config:4-5");
PMU_FORMAT_ATTR(spread,		"config:8-11,16-19");
PMU_FORMAT_ATTR(note,		"config2:0-31");
PMU_EVENT_ATTR_STRING(slow, event_attr_slow, "rate=100000");
PMU_EVENT_ATTR_STRING(burst, event_attr_burst, "rate=0x2faf080,spread=3");

static struct attribute *aux_format_attrs[] = {
	&format_attr_rate.attr,
	&format_attr_payload.attr,
	&format_attr_head.attr,
	&format_attr_spread.attr,
	&format_attr_note.attr,
	NULL,
};

static struct attribute *aux_event_attrs[] = {
	&event_attr_slow.attr.attr,
	&event_attr_burst.attr.attr,
	NULL,
};

static ssize_t aux_version_show(struct device *dev,
				struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%d\n", 1);
}
static DEVICE_ATTR_RO(aux_version);

static ssize_t word_bytes_show(struct device *dev,
			       struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%d\n", 8);
}
static DEVICE_ATTR_RO(word_bytes);

static struct attribute *aux_cap_attrs[] = {
	&dev_attr_aux_version.attr,
	&dev_attr_word_bytes.attr,
	NULL,
};

static const struct attribute_group aux_format_group = {
	.name = "format", .attrs = aux_format_attrs,
};
static const struct attribute_group aux_event_group = {
	.name = "events", .attrs = aux_event_attrs,
};
static const struct attribute_group aux_cap_group = {
	.name = "caps", .attrs = aux_cap_attrs,
};
static const struct attribute_group *aux_attr_groups[] = {
	&aux_format_group, &aux_event_group, &aux_cap_group, NULL,
};

static void read_config(struct sim_event *se, const struct perf_event_attr *a)
{
	if (se->kind != SIM_AUX)
		return;
	se->rate = a->config1;
	se->payload = a->config & 0xf;
	se->head = a->config >> 4 & 3;
}

static int check_config(enum sim_kind kind, const struct perf_event_attr *a)
{
	if (kind == SIM_PT && a->config & ~INTEL_PT_CONFIG_MASK)
		return -EINVAL;
	if (kind != SIM_AUX)
		return 0;
	if (a->config & ~0xf0f3fULL || (a->config & 0xf) > SIM_REPLAY ||
	    (a->config >> 4 & 3) > SIM_HEAD_GROWING)
		return -EINVAL;
	return 0;
}

static void destroy(struct perf_event *event)
{
	struct sim_event *se = event->pmu_private;
	unsigned long flags;

	raw_spin_lock_irqsave(&sim_events_lock, flags);
	list_del(&se->node);
	raw_spin_unlock_irqrestore(&sim_events_lock, flags);
	event->pmu_private = NULL;
	kfree(se);
}

static int event_init(struct perf_event *event)
{
	enum sim_kind kind = sim_of(event->pmu)->kind;
	struct sim_event *se;
	unsigned long flags;
	int err;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	err = check_config(kind, &event->attr);
	if (err)
		return err;
	se = kzalloc(sizeof(*se), GFP_KERNEL);
	if (!se)
		return -ENOMEM;
	se->event = event;
	se->kind = kind;
	read_config(se, &event->attr);
	event->pmu_private = se;
	event->destroy = destroy;
	raw_spin_lock_irqsave(&sim_events_lock, flags);
	list_add_tail(&se->node, &sim_events);
	raw_spin_unlock_irqrestore(&sim_events_lock, flags);
	return 0;
}

/* What it would have made since it was stopped for want of room. */
static void account_stall(struct sim_cpu *c, struct sim_event *se)
{
	u64 ns = sim_data_now() - se->stalled_ns;

	se->stalled = false;
	if ((s64)ns < 0)
		ns = 0;	/* another CPU's clock */
	if (c->event->hw.target)
		ns = min(ns, c->event->hw.target->se.sum_exec_runtime -
			 se->stalled_runtime);
	sim_data_lose(c, ns);
}

static void begin_session(struct sim_cpu *c)
{
	struct sim_session *s = &c->session[c->n.sessions % SIM_N_SESSION];

	c->last_ns = sim_data_now();
	s->start = c->n.produced;
	s->start_ns = c->last_ns;
}

static void end_session(struct sim_cpu *c)
{
	struct sim_session *s = &c->session[c->n.sessions % SIM_N_SESSION];

	s->end = c->n.produced;
	s->end_ns = sim_data_now();
	smp_store_release(&c->n.sessions, c->n.sessions + 1);
}

/*
 * Another event of the group pauses and resumes the trace (Linux 6.13): the
 * area stays open, and nothing is made. What has stopped for want of room stays
 * stopped, and what it loses does not grow meanwhile.
 */
#ifdef PERF_PMU_CAP_AUX_PAUSE
#define SIM_CAP_PAUSE PERF_PMU_CAP_AUX_PAUSE

static bool starts_paused(const struct perf_event *event)
{
	return event->hw.aux_paused;
}

static bool pauses(struct sim_cpu *c, struct perf_event *event, int mode)
{
	struct sim_event *se = event->pmu_private;

	if (!(mode & PERF_EF_PAUSE))
		return false;
	if (c->event != event || c->paused)
		return true;
	c->n.pauses++;
	if (c->buf && !c->busy)
		sim_data_advance(c);
	c->paused = true;
	if (se->stalled) {
		account_stall(c, se);
		se->stalled_paused = true;
	} else if (c->buf) {
		end_session(c);
	}
	return true;
}

static bool resumes(struct sim_cpu *c, struct perf_event *event, int mode)
{
	struct sim_event *se = event->pmu_private;

	if (!(mode & PERF_EF_RESUME))
		return false;
	if (c->event != event || !c->paused)
		return true;
	c->n.resumes++;
	c->paused = false;
	if (c->buf)
		begin_session(c);
	else if (se->stalled_paused)
		sim_data_stall(c);
	se->stalled_paused = false;
	return true;
}
#else
#define SIM_CAP_PAUSE 0

static bool starts_paused(const struct perf_event *event)
{
	return false;
}

static bool pauses(struct sim_cpu *c, struct perf_event *event, int mode)
{
	return false;
}

static bool resumes(struct sim_cpu *c, struct perf_event *event, int mode)
{
	return false;
}
#endif

static void start(struct perf_event *event, int mode)
{
	struct sim_cpu *c = this_source(event);
	struct sim_event *se = event->pmu_private;

	if (resumes(c, event, mode))
		return;
	if (WARN_ON_ONCE(c->event != event) || c->buf)
		return;
	perf_event_addr_filters_sync(event);
	if (se->stalled)
		account_stall(c, se);
	se->stalled_paused = false;
	c->paused = starts_paused(event);
	c->last_ns = sim_data_now();
	if (!sim_data_open(c))
		return;
	event->hw.state = 0;
	event->attach_state |= PERF_ATTACH_ITRACE;
	c->n.starts++;
	if (!c->paused)
		begin_session(c);
	hrtimer_start(&c->timer, ns_to_ktime(READ_ONCE(sim_tick_us) * 1000),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

static void stop(struct perf_event *event, int mode)
{
	struct sim_cpu *c = this_source(event);

	if (pauses(c, event, mode))
		return;
	if (event->hw.state & PERF_HES_STOPPED || c->event != event)
		return;
	sim_data_advance(c);
	sim_data_stop(c);
	event->hw.state = PERF_HES_STOPPED;
	hrtimer_try_to_cancel(&c->timer);
	c->n.stops++;
	if (!c->paused)
		end_session(c);
}

static int add(struct perf_event *event, int mode)
{
	struct sim_cpu *c = this_source(event);

	if (c->event)
		return -EBUSY;
	c->event = event;
	event->hw.state = PERF_HES_STOPPED;
	if (!(mode & PERF_EF_START))
		return 0;
	start(event, 0);
	if (!(event->hw.state & PERF_HES_STOPPED))
		return 0;
	c->event = NULL;
	return -EINVAL;
}

static void del(struct perf_event *event, int mode)
{
	struct sim_cpu *c = this_source(event);

	stop(event, PERF_EF_UPDATE);
	if (c->event == event)
		c->event = NULL;
}

static void read(struct perf_event *event)
{
}

static void *setup_aux(struct perf_event *event, void **pages, int n_pages,
		       bool overwrite)
{
	struct sim_event *se = event->pmu_private;
	enum sim_head head = se->head ? se->head : READ_ONCE(sim_head);
	struct sim_buf *b;

	if (!is_power_of_2(n_pages))
		return NULL;
	b = kzalloc(sizeof(*b), GFP_KERNEL);
	if (!b)
		return NULL;
	if (head == SIM_HEAD_AUTO && se->kind == SIM_ETM)
		head = SIM_HEAD_GROWING;
	b->pages = pages;
	b->size = (unsigned long)n_pages << PAGE_SHIFT;
	b->overwrite = overwrite;
	b->growing = head == SIM_HEAD_GROWING;
	return b;
}

static void free_aux(void *aux)
{
	kfree(aux);
}

/* The newest bytes, for a sample taken by another event of the group. */
static long snapshot_aux(struct perf_event *event,
			 struct perf_output_handle *out, unsigned long size)
{
	struct sim_cpu *c = this_source(event);
	unsigned long to;

	if (c->event != event || !c->buf || !c->buf->overwrite || c->busy)
		return 0;
	if (!in_nmi())
		sim_data_advance(c);
	if (!c->buf)
		return 0;
	c->n.samples++;
	to = (c->handle.head + c->done) & (c->buf->size - 1);
	return sim_copy_aux(&c->handle, out, (to - size) & (c->buf->size - 1),
			    to);
}

/* As Intel PT: ranges only, and of the kernel only where it is. */
static int check_filters(struct list_head *filters, unsigned int max)
{
	struct perf_addr_filter *f;
	unsigned int n = 0;

	list_for_each_entry(f, filters, entry) {
		if (!f->size || f->action == PERF_ADDR_FILTER_ACTION_START)
			return -EOPNOTSUPP;
		if (!f->path.dentry &&
		    ((long)f->offset >= 0 || (long)(f->offset + f->size) >= 0))
			return -EINVAL;
		if (++n > max)
			return -EOPNOTSUPP;
	}
	return 0;
}

static int pt_filters_validate(struct list_head *filters)
{
	return check_filters(filters, intel_pt_cap_num_address_ranges.value);
}

static int etm_filters_validate(struct list_head *filters)
{
	return check_filters(filters, SIM_N_FILTER);
}

/* The core holds the filters' own lock and has interrupts off. */
static void filters_sync(struct perf_event *event)
{
	struct perf_addr_filters_head *head = perf_event_addr_filters(event);
	struct perf_addr_filter_range *range = event->addr_filter_ranges;
	struct sim_event *se = event->pmu_private;
	struct perf_addr_filter *f;
	unsigned int n = 0;
	unsigned long flags;

	raw_spin_lock_irqsave(&sim_events_lock, flags);
	list_for_each_entry(f, &head->list, entry) {
		if (n == SIM_N_FILTER)
			break;
		se->filters[n].start = range[n].start;
		se->filters[n].end = range[n].size ?
			range[n].start + range[n].size - 1 : range[n].start;
		se->filters[n].action = f->action;
		n++;
	}
	se->n_filters = n;
	raw_spin_unlock_irqrestore(&sim_events_lock, flags);
}

void sim_event_show_filters(struct seq_file *m)
{
	struct sim_event *se;
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&sim_events_lock, flags);
	list_for_each_entry(se, &sim_events, node)
		for (i = 0; i < se->n_filters; i++)
			seq_printf(m, "%s event %llu cpu %d %s 0x%llx-0x%llx\n",
				   sim_name(se->kind), se->event->id,
				   se->event->cpu,
				   se->filters[i].action ? "filter" : "stop",
				   se->filters[i].start, se->filters[i].end);
	raw_spin_unlock_irqrestore(&sim_events_lock, flags);
}

void sim_event_setup(struct sim_pmu *s)
{
	struct pmu *p = &s->pmu;

	p->module = THIS_MODULE;
	p->task_ctx_nr = perf_sw_context;
	p->capabilities = PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE;
	if (s->kind != SIM_ETM)	/* whose driver learned it later, in 6.16 */
		p->capabilities |= SIM_CAP_PAUSE;
	p->event_init = event_init;
	p->add = add;
	p->del = del;
	p->start = start;
	p->stop = stop;
	p->read = read;
	p->setup_aux = setup_aux;
	p->free_aux = free_aux;
	if (sim_copy_aux)
		p->snapshot_aux = snapshot_aux;
	p->attr_groups = s->kind == SIM_PT ? intel_pt_attr_groups :
			 s->kind == SIM_ETM ? sim_etm_attr_groups :
			 aux_attr_groups;
	if (s->kind == SIM_AUX)
		return;
	p->addr_filters_validate = s->kind == SIM_PT ? pt_filters_validate :
				   etm_filters_validate;
	p->addr_filters_sync = filters_sync;
	p->nr_addr_filters = s->kind == SIM_PT ?
		intel_pt_cap_num_address_ranges.value : SIM_N_FILTER;
}
