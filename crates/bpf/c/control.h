/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* From the model to pacing rate, send quantum and window: the twin of bbr3/control.rs. */
#ifndef FULLPIPE_CONTROL_H
#define FULLPIPE_CONTROL_H

#include "amended.h"

/* With the gains of the table in "Summary of Control Behavior in the State Machine". */
static inline void enter(struct bbr3 *b, uint8_t state)
{
	b->pacing_gain = state == STARTUP ? STARTUP_PACING_GAIN :
			 state == DRAIN ? DRAIN_PACING_GAIN :
			 state == PROBE_BW_DOWN && is_on(SHORT_PROBE) ? DEEPER_DOWN_PACING_GAIN :
			 state == PROBE_BW_DOWN ? PROBE_DOWN_PACING_GAIN :
			 state == PROBE_BW_UP ? PROBE_UP_PACING_GAIN : GAIN_ONE;
	b->cwnd_gain = state == PROBE_BW_UP ? PROBE_UP_CWND_GAIN :
		       state == PROBE_BW_CRUISE && is_on(SMALL_CRUISE_QUEUE) ? CRUISE_CWND_GAIN :
		       state == PROBE_RTT ? PROBE_RTT_CWND_GAIN : DEFAULT_CWND_GAIN;
	b->state = state;
}

SELDOM void init_pacing_rate(struct bbr3_conn *c)
{
	uint64_t rtt = c->srtt ? c->srtt : NOMINAL_RTT;
	uint64_t nominal_bandwidth = rate_from_volume(c->initial_cwnd, rtt);

	uint64_t rate = gain_of(PACING_MARGIN, gain_of(STARTUP_PACING_GAIN, nominal_bandwidth));

	c->pacing_rate = min64(max64(rate, 1), c->max_pacing_rate);
}

static inline void set_pacing_rate_with_gain(const struct bbr3 *b, struct bbr3_conn *c, uint64_t gain)
{
	uint64_t rate = gain_of(pacing_margin(b), gain_of(gain, b->bw));

	if (rate > 0 && (b->full_bw_reached || rate > c->pacing_rate))
		c->pacing_rate = min64(rate, c->max_pacing_rate);
}

static inline void set_pacing_rate(struct bbr3 *b, struct bbr3_conn *c)
{
	if (!b->is_rtt_measured && c->srtt) {
		b->is_rtt_measured = true;
		init_pacing_rate(c);
	}
	set_pacing_rate_with_gain(b, c, b->pacing_gain);
}

static inline uint64_t bdp_multiple(const struct bbr3 *b, const struct bbr3_conn *c, uint64_t bw,
				    uint64_t gain)
{
	if (b->min_rtt == INFINITE)
		return c->initial_cwnd;
	uint64_t bdp = bytes_in(bw, b->min_rtt);
	return packets_up(c, gain == GAIN_ONE ? bdp : gain_of(gain, bdp));
}

/* BBR.bdp. */
static inline uint64_t estimated_bdp(const struct bbr3 *b, const struct bbr3_conn *c)
{
	return bdp_multiple(b, c, b->bw, GAIN_ONE);
}

static inline uint64_t quantization_budget(const struct bbr3 *b, const struct bbr3_conn *c,
					   uint64_t inflight_cap)
{
	uint64_t cap = max64(inflight_cap, TCP_OFFLOAD_QUANTA * c->send_quantum);

	cap = max64(cap, min_pipe_cwnd(c));
	return b->state == PROBE_BW_UP ? add_sat(cap, 2 * c->smss) : cap;
}

/* Inflight(bw, 1). */
static inline uint64_t inflight_at(const struct bbr3 *b, const struct bbr3_conn *c, uint64_t bw)
{
	return quantization_budget(b, c, bdp_multiple(b, c, bw, GAIN_ONE));
}

static inline void set_send_quantum(const struct bbr3 *b, struct bbr3_conn *c)
{
	uint64_t halvings = min64(b->min_rtt / QUANTUM_HALVING, 63);
	uint64_t quantum = (c->pacing_rate >> 10) + (MAX_QUANTUM >> halvings);

	c->send_quantum = max64(packets_down(c, min64(quantum, MAX_QUANTUM)), 2 * c->smss);
}

static inline void update_max_inflight(struct bbr3 *b, const struct bbr3_conn *c)
{
	bool is_small = is_on(SMALL_CRUISE_QUEUE) && b->state == PROBE_BW_CRUISE;
	uint64_t cap = is_small ? at_base(b, bdp_multiple(b, c, b->bw, CRUISE_CWND_GAIN)) :
				  bdp_multiple(b, c, b->bw, b->cwnd_gain);
	uint64_t extra_acked = min64(packets_up(c, b->extra_acked),
				     packets_down(c, bytes_in(b->bw, EXTRA_ACKED_TIME)));

	if (is_small)
		cap = min64(add_sat(cap, CRUISE_PACKETS * c->smss),
			    at_base(b, bdp_multiple(b, c, b->bw, CRUISE_CWND_GAIN_MAX)));
	b->max_inflight = quantization_budget(b, c, add_sat(cap, extra_acked));
}

static inline void save_cwnd(struct bbr3 *b, const struct bbr3_conn *c)
{
	bool is_first = !c->in_recovery && b->state != PROBE_RTT;

	b->prior_cwnd = is_first ? c->cwnd : max64(b->prior_cwnd, c->cwnd);
}

static inline void restore_cwnd(const struct bbr3 *b, struct bbr3_conn *c)
{
	c->cwnd = max64(c->cwnd, b->prior_cwnd);
}

static inline uint64_t inflight_with_headroom(const struct bbr3 *b, const struct bbr3_conn *c)
{
	if (b->inflight_longterm == INFINITE)
		return INFINITE;
	uint64_t headroom =
		max64(packets_down(c, gain_of(HEADROOM, b->inflight_longterm)), c->smss);
	return max64(sub_sat(b->inflight_longterm, headroom), min_pipe_cwnd(c));
}

static inline uint64_t probe_rtt_cwnd(const struct bbr3 *b, const struct bbr3_conn *c)
{
	uint64_t cwnd = bdp_multiple(b, c, b->bw, PROBE_RTT_CWND_GAIN);

	return max64(min64(cwnd, most_probe_rtt_cwnd(b, c)), min_pipe_cwnd(c));
}

static inline void grow_cwnd(const struct bbr3 *b, struct bbr3_conn *c,
			     const struct bbr3_sample *rs)
{
	if (b->full_bw_reached)
		c->cwnd = min64(add_sat(c->cwnd, rs->newly_acked), b->max_inflight);
	else if (c->cwnd < b->max_inflight || c->cwnd < add_sat(c->initial_cwnd, c->initial_cwnd))
		c->cwnd = add_sat(c->cwnd, rs->newly_acked);
	c->cwnd = max64(c->cwnd, min_pipe_cwnd(c));
}

static inline void bound_cwnd_for_probe_rtt(const struct bbr3 *b, struct bbr3_conn *c)
{
	if (b->state == PROBE_RTT)
		c->cwnd = min64(c->cwnd, probe_rtt_cwnd(b, c));
}

static inline void bound_cwnd_for_model(const struct bbr3 *b, struct bbr3_conn *c)
{
	bool is_unbounded = b->state == STARTUP || b->state == DRAIN;
	uint64_t cap = is_unbounded ? INFINITE : b->inflight_longterm;

	if (min64(b->inflight_longterm, b->inflight_shortterm) == INFINITE)
		return;
	if (b->state == PROBE_RTT || b->state == PROBE_BW_CRUISE)
		cap = inflight_with_headroom(b, c);
	cap = max64(min64(cap, b->inflight_shortterm), min_pipe_cwnd(c));
	c->cwnd = min64(c->cwnd, cap);
}

static inline void set_cwnd(struct bbr3 *b, struct bbr3_conn *c, const struct bbr3_sample *rs)
{
	update_max_inflight(b, c);
	grow_cwnd(b, c, rs);
	bound_cwnd_for_probe_rtt(b, c);
	bound_cwnd_for_model(b, c);
}

#endif
