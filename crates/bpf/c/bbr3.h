/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * BBRv3 in Linux's flavour, without a type of the kernel: what bbr3.bpf.c runs, and what compiles
 * natively as the twin of fullpipe-cc's bbr3-linux and bbr3x-linux. Here is the model (the twin of
 * bbr3/model.rs, congestion.rs, ecn.rs and the parts that they change), the steps of an ACK (the
 * twin of bbr3/mod.rs), and at the end what a transport calls.
 */
#ifndef FULLPIPE_BBR3_H
#define FULLPIPE_BBR3_H

#include "probe.h"

static inline void check_startup_high_ecn(struct bbr3 *b, const struct bbr3_conn *c, uint32_t share)
{
	if (b->full_bw_reached)
		return;
	b->ecn_startup_rounds = PER_256(share) >= ECN_THRESH ? b->ecn_startup_rounds + 1 : 0;
	if (b->ecn_startup_rounds >= ECN_FULL_ROUNDS)
		end_startup(b, c);
}

SELDOM void update_ecn_alpha(struct bbr3 *b, const struct bbr3_conn *c)
{
	uint64_t delivered = sub_sat(c->delivered, b->ecn_alpha_delivered);

	if (b->is_ecn_on && b->min_rtt <= ECN_MAX_RTT)
		b->is_ecn_eligible = true;
	if (!b->is_ecn_eligible || delivered == 0)
		return;
	uint64_t marked = min64(sub_sat(b->ecn_marked, b->ecn_alpha_marked), delivered);
	uint32_t share = (uint32_t)mul_div(marked, ECN_UNIT, delivered);
	uint32_t old = (ECN_UNIT - ECN_ALPHA_GAIN) * b->ecn_alpha / ECN_UNIT;
	b->ecn_alpha = (uint32_t)min64(old + ECN_ALPHA_GAIN * share / ECN_UNIT, ECN_UNIT);
	b->ecn_alpha_delivered = c->delivered;
	b->ecn_alpha_marked = b->ecn_marked;
	check_startup_high_ecn(b, c, share);
}

/* What CE marks ask of inflight_shortterm. */
static inline uint64_t ecn_lower_bound(struct bbr3 *b, const struct bbr3_conn *c)
{
	if (!b->is_ecn_in_round)
		return INFINITE;
	if (b->inflight_shortterm == INFINITE)
		b->inflight_shortterm = c->cwnd;
	uint32_t cut = b->ecn_alpha * ECN_FACTOR / ECN_UNIT;
	return packets_down(c, gain_of(PER_256(ECN_UNIT - cut), b->inflight_shortterm));
}

SELDOM void loss_lower_bounds(struct bbr3 *b, const struct bbr3_conn *c)
{
	if (b->bw_shortterm == INFINITE)
		b->bw_shortterm = b->max_bw;
	if (b->inflight_shortterm == INFINITE)
		b->inflight_shortterm = c->cwnd;
	b->bw_shortterm = max64(b->bw_latest, gain_of(BETA, b->bw_shortterm));
	b->inflight_shortterm = max64(b->inflight_latest,
				      packets_down(c, gain_of(BETA, b->inflight_shortterm)));
}

SELDOM void adapt_lower_bounds_from_congestion(struct bbr3 *b, const struct bbr3_conn *c,
					       const struct bbr3_sample *rs)
{
	if (is_probing_bw(b))
		return;
	uint64_t ecn_bound = ecn_lower_bound(b, c);
	if (b->is_loss_in_round && !is_small_loss(b, c, rs))
		loss_lower_bounds(b, c);
	b->inflight_shortterm = min64(b->inflight_shortterm, ecn_bound);
}

SELDOM void start_extra_acked_round(struct bbr3 *b)
{
	b->extra_acked_bucket_rounds++;
	if (b->full_bw_reached && b->extra_acked_bucket_rounds < EXTRA_ACKED_BUCKET_ROUNDS)
		return;
	b->extra_acked_bucket_rounds = 0;
	b->extra_acked_older = b->extra_acked_newer;
	b->extra_acked_newer = 0;
}

static inline void update_round(struct bbr3 *b, const struct bbr3_conn *c,
				const struct bbr3_sample *rs)
{
	b->round_start = rs->prior_delivered >= b->next_round_delivered;
	if (!b->round_start)
		return;
	start_round(b, c);
	b->round_count++;
	b->rounds_since_probe_up++;
	start_extra_acked_round(b);
	update_ecn_alpha(b, c);
}

static inline void update_max_bw(struct bbr3 *b, const struct bbr3_sample *rs)
{
	if (rs->delivery_rate > b->max_bw_filter[1] &&
	    (rs->delivery_rate >= b->max_bw || !rs->is_app_limited)) {
		b->max_bw_filter[1] = rs->delivery_rate;
		b->max_bw = max64(b->max_bw_filter[0], b->max_bw_filter[1]);
	}
}

static inline void update_latest_delivery_signals(struct bbr3 *b, const struct bbr3_conn *c,
						  const struct bbr3_sample *rs)
{
	if (rs->delivery_rate > 0) {
		b->bw_latest = max64(b->bw_latest, rs->delivery_rate);
		b->inflight_latest = max64(b->inflight_latest, rs->delivered);
	}
	b->loss_round_start = rs->prior_delivered >= b->loss_round_delivered;
	if (b->loss_round_start)
		b->loss_round_delivered = c->delivered;
}

static inline void update_congestion_signals(struct bbr3 *b, const struct bbr3_conn *c,
					     const struct bbr3_sample *rs)
{
	update_round(b, c, rs);
	update_max_bw(b, rs);
	if (b->loss_round_start) {
		adapt_lower_bounds_from_congestion(b, c, rs);
		b->is_loss_in_round = false;
		b->is_ecn_in_round = false;
	}
}

static inline void update_ack_aggregation(struct bbr3 *b, const struct bbr3_conn *c,
					  const struct bbr3_sample *rs)
{
	uint64_t interval = sub_sat(rs->now, b->extra_acked_interval_start);
	uint64_t expected_delivered = bytes_in(min64(b->max_bw, b->bw_shortterm), interval);

	if (b->extra_acked_delivered <= expected_delivered) {
		b->extra_acked_delivered = 0;
		b->extra_acked_interval_start = rs->now;
		expected_delivered = 0;
	}
	b->extra_acked_delivered = add_sat(b->extra_acked_delivered, rs->newly_acked);
	uint64_t extra = min64(b->extra_acked_delivered - expected_delivered, c->cwnd);
	b->extra_acked_newer = max64(b->extra_acked_newer, extra);
	b->extra_acked = max64(b->extra_acked_older, b->extra_acked_newer);
}

static inline void update_min_rtt(struct bbr3 *b, const struct bbr3_sample *rs)
{
	bool is_due = IS_AMENDED && note_rtt(b, rs);

	b->probe_rtt_expired = is_due || rs->now > b->probe_rtt_min_expiry;
	if (rs->rtt == INFINITE)
		return;
	if (rs->rtt < b->probe_rtt_min_delay || b->probe_rtt_expired) {
		b->probe_rtt_min_delay = rs->rtt;
		b->probe_rtt_min_expiry = add_sat(rs->now, probe_rtt_interval(b));
	}
	bool has_expired = rs->now > b->min_rtt_expiry && !b->probe_rtt_expired &&
			   b->state != PROBE_RTT;
	if (b->probe_rtt_min_delay < b->min_rtt || has_expired)
		take_probe_rtt_min_delay(b);
}

static inline void advance_latest_delivery_signals(struct bbr3 *b, const struct bbr3_sample *rs)
{
	if (b->loss_round_start) {
		b->bw_latest = rs->delivery_rate;
		b->inflight_latest = rs->delivered;
	}
}

static inline void bound_bw_for_model(struct bbr3 *b)
{
	b->bw = min64(b->max_bw, b->bw_shortterm);
}

static inline uint64_t inflight_at_loss(const struct bbr3 *b, const struct bbr3_conn *c,
					const struct bbr3_lost_packet *p)
{
	uint64_t thresh = loss_thresh(b, c, p->tx_in_flight);
	uint64_t inflight_prev = sub_sat(p->tx_in_flight, p->size);
	uint64_t lost_prev = sub_sat(p->lost_since, p->size);
	uint64_t budget = packets_up(c, gain_of(thresh, inflight_prev));

	if (thresh >= GAIN_ONE)
		return INFINITE;
	uint64_t fits = gain_divide(GAIN_ONE - thresh, sub_sat(budget, lost_prev));
	return add_sat(inflight_prev, packets_down(c, fits));
}

/*
 * The functions that a transport calls. It keeps C.delivered, C.lost, C.inflight and C.srtt up to
 * date before each call, and reads C.cwnd, C.pacing_rate, C.send_quantum and C.app_limited after it.
 *
 * On an ACK: bbr3_lost() for each lost packet; bbr3_exit_recovery() if the ACK ends an episode;
 * bbr3_enter_recovery() and bbr3_congestion() if it brought losses, bbr3_marks() if it brought CE
 * marks; bbr3_ack() if it acknowledged anything.
 */

/* c has smss, initial_cwnd and max_pacing_rate; everything else is made here. */
static inline void bbr3_init(struct bbr3 *b, struct bbr3_conn *c, uint64_t now, uint64_t seed,
			     bool is_ecn_on)
{
	*c = (struct bbr3_conn){
		.smss = c->smss,
		.initial_cwnd = c->initial_cwnd,
		.max_pacing_rate = c->max_pacing_rate,
		.cwnd = c->initial_cwnd,
		.send_quantum = 2 * c->smss,
	};
	*b = (struct bbr3){
		.bw_shortterm = INFINITE,
		.inflight_shortterm = INFINITE,
		.inflight_longterm = INFINITE,
		.max_inflight = c->initial_cwnd,
		.min_rtt = INFINITE,
		.min_rtt_expiry = add_sat(now, MIN_RTT_FILTER_LEN),
		.probe_rtt_min_delay = INFINITE,
		.probe_rtt_min_expiry = INFINITE,
		.extra_acked_interval_start = now,
		.probe_up_acked_per_inc = INFINITE,
		.bw_probe_time = now,
		.probe_rtt_done_stamp = INFINITE,
		.undo_state = NO_STATE,
		.ecn_alpha = ECN_UNIT,
		.is_ecn_on = is_ecn_on,
		.rng = seed,
		.amended = {
			.shortest_rtt = INFINITE,
			.least_rtt = INFINITE,
			.probe_rtt_at_latest = INFINITE,
			.round_least_rtt = INFINITE,
			.mean_rtt = INFINITE,
			.base_rtt = { INFINITE, INFINITE },
			.question_rtt = INFINITE,
		},
	};
	init_pacing_rate(c);
	enter(b, STARTUP);
}

/*
 * The transport knows a round trip already, of its handshake or of a time under another algorithm. Not for
 * bbr3x, which compares with the shortest RTT closely: that of a handshake is without the time that a full
 * packet takes.
 */
static inline void bbr3_take_min_rtt(struct bbr3 *b, uint64_t now, uint64_t rtt)
{
	b->min_rtt = b->probe_rtt_min_delay = rtt;
	b->probe_rtt_min_expiry = add_sat(now, PROBE_RTT_INTERVAL);
	b->min_rtt_expiry = add_sat(now, MIN_RTT_FILTER_LEN);
}

/* A packet is about to leave, nothing is in flight, and the application was the limit. */
static inline void bbr3_restart_from_idle(struct bbr3 *b, struct bbr3_conn *c, uint64_t now)
{
	b->idle_restart = true;
	b->extra_acked_interval_start = now;
	b->extra_acked_delivered = 0;
	if (is_in_a_probe_bw_state(b))
		set_pacing_rate_with_gain(b, c, GAIN_ONE);
	else if (b->state == PROBE_RTT)
		check_probe_rtt_done(b, c, now);
}

/* One packet was lost; C.lost counts it, C.inflight no longer does. In the order of their sending. */
static inline void bbr3_lost(struct bbr3 *b, const struct bbr3_conn *c,
			     const struct bbr3_lost_packet *p)
{
	if (!b->is_bw_probe_sample || b->is_too_high)
		return;
	if (is_inflight_too_high(b, c, p->lost_since, p->tx_in_flight)) {
		b->is_too_high = true;
		b->too_high_inflight = inflight_at_loss(b, c, p);
		b->too_high_is_app_limited = p->is_app_limited;
	}
}

/* A recovery episode begins. */
static inline void bbr3_enter_recovery(struct bbr3 *b, struct bbr3_conn *c)
{
	if (c->in_recovery)
		return;
	save_cwnd(b, c);
	b->undo_state = NO_STATE;
	b->undo_bw_shortterm = b->bw_shortterm;
	b->undo_inflight_shortterm = b->inflight_shortterm;
	b->undo_inflight_longterm = b->inflight_longterm;
	c->in_recovery = true;
}

/* A packet sent within the episode was acknowledged. */
static inline void bbr3_exit_recovery(struct bbr3 *b, struct bbr3_conn *c)
{
	c->in_recovery = false;
	restore_cwnd(b, c);
}

/* All losses of an ACK or a timer were told by bbr3_lost(). */
static inline void bbr3_congestion(struct bbr3 *b, const struct bbr3_conn *c, uint64_t now)
{
	if (!b->is_loss_in_round)
		b->loss_round_delivered = c->delivered;
	b->is_loss_in_round = true;
	b->loss_events_in_round++;
	if (b->is_too_high) {
		b->is_too_high = false;
		handle_inflight_too_high(b, c, b->too_high_inflight, b->too_high_is_app_limited,
					 now);
	}
}

/* CE marks, in bytes: of this ACK, and over its sample, of which delivered is RS.delivered. */
static inline void bbr3_marks(struct bbr3 *b, uint64_t newly_marked, uint64_t marked,
			      uint64_t delivered)
{
	b->ecn_marked = add_sat(b->ecn_marked, newly_marked);
	if (b->is_ecn_eligible) {
		b->is_ecn_in_round = true;
		b->is_mark_rate_too_high = marked > gain_of(ECN_THRESH, delivered);
	}
}

static inline void update_model_and_state(struct bbr3 *b, struct bbr3_conn *c,
					  const struct bbr3_sample *rs)
{
	update_latest_delivery_signals(b, c, rs);
	update_congestion_signals(b, c, rs);
	update_ack_aggregation(b, c, rs);
	check_full_bw_reached(b, rs);
	check_startup_high_loss(b, c, rs);
	check_startup_done(b);
	check_drain_done(b, c, rs->now);
	update_probe_bw_cycle_phase(b, c, rs);
	update_min_rtt(b, rs);
	check_probe_rtt(b, c, rs);
	advance_latest_delivery_signals(b, rs);
	bound_bw_for_model(b);
}

static inline void update_control_parameters(struct bbr3 *b, struct bbr3_conn *c,
					     const struct bbr3_sample *rs)
{
	set_pacing_rate(b, c);
	set_send_quantum(b, c);
	set_cwnd(b, c, rs);
}

/* An ACK of new data: UpdateOnACK(). */
static inline void bbr3_ack(struct bbr3 *b, struct bbr3_conn *c, const struct bbr3_sample *rs)
{
	if (IS_AMENDED)
		b->amended.shortest_rtt = min64(b->amended.shortest_rtt, rs->rtt);
	update_model_and_state(b, c, rs);
	update_control_parameters(b, c, rs);
	b->is_mark_rate_too_high = false;
}

/*
 * The sample of an ACK of new data without a delivery rate: the window grows, and nothing is learned of the
 * path but its round trip.
 */
static inline struct bbr3_sample bbr3_without_sample(uint64_t now, uint64_t rtt, uint64_t newly_acked,
						     uint64_t prior_inflight)
{
	return (struct bbr3_sample){
		.now = now,
		.rtt = rtt,
		.newly_acked = newly_acked,
		.prior_inflight = prior_inflight,
	};
}

/* A retransmission timeout. Its losses are told as others are. */
static inline void bbr3_rto(struct bbr3 *b, struct bbr3_conn *c)
{
	bbr3_enter_recovery(b, c);
	save_cwnd(b, c);
	reset_full_bw(b);
	b->loss_events_in_round = 0;
	if (!is_probing_bw(b) && b->inflight_shortterm == INFINITE)
		b->inflight_shortterm = b->prior_cwnd;
	c->cwnd = add_sat(c->inflight, c->smss);
}

/* The losses of the last episode were none. */
static inline void bbr3_spurious_loss(struct bbr3 *b, struct bbr3_conn *c)
{
	c->in_recovery = false;
	restore_cwnd(b, c);
	b->is_loss_in_round = false;
	b->loss_events_in_round = 0;
	/* Not in any case, as Linux does: on a path that reorders all the time Startup would never end. */
	if (b->undo_state != NO_STATE)
		reset_full_bw(b);
	b->bw_shortterm = max64(b->bw_shortterm, b->undo_bw_shortterm);
	b->inflight_shortterm = max64(b->inflight_shortterm, b->undo_inflight_shortterm);
	b->inflight_longterm = max64(b->inflight_longterm, b->undo_inflight_longterm);
}

/* C.SMSS is another one now. Before the first delivery the initial window is made anew from it. */
static inline void bbr3_smss(struct bbr3 *b, struct bbr3_conn *c, uint64_t smss,
			     uint64_t initial_cwnd)
{
	c->smss = smss;
	if (c->delivered == 0) {
		if (c->cwnd == c->initial_cwnd)
			c->cwnd = initial_cwnd;
		c->initial_cwnd = initial_cwnd;
	}
	c->send_quantum = max64(min64(c->send_quantum, MAX_QUANTUM), 2 * c->smss);
	if (!b->is_rtt_measured)
		init_pacing_rate(c);
	c->cwnd = max64(c->cwnd, min_pipe_cwnd(c));
}

#endif
