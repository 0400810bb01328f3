/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The state machine, the twin of bbr3/startup.rs, probe_bw.rs and probe_rtt.rs.
 */
#ifndef FULLPIPE_PROBE_H
#define FULLPIPE_PROBE_H

#include "control.h"

static inline void start_round(struct bbr3 *b, const struct bbr3_conn *c)
{
	b->next_round_delivered = c->delivered;
}

static inline void reset_congestion_signals(struct bbr3 *b)
{
	b->is_loss_in_round = false;
	b->is_ecn_in_round = false;
	b->bw_latest = 0;
	b->inflight_latest = 0;
}

static inline void reset_short_term_model(struct bbr3 *b)
{
	b->bw_shortterm = INFINITE;
	b->inflight_shortterm = INFINITE;
}

static inline void reset_full_bw(struct bbr3 *b)
{
	b->full_bw = 0;
	b->full_bw_count = 0;
	b->full_bw_now = false;
}

static inline bool is_in_a_probe_bw_state(const struct bbr3 *b)
{
	return b->state >= PROBE_BW_DOWN && b->state <= PROBE_BW_UP;
}

static inline bool is_probing_bw(const struct bbr3 *b)
{
	return b->state == STARTUP || b->state == PROBE_BW_REFILL || b->state == PROBE_BW_UP;
}

static inline bool is_inflight_too_high(const struct bbr3 *b, const struct bbr3_conn *c, uint64_t lost,
					uint64_t tx_in_flight)
{
	if (lost <= gain_of(LOSS_THRESH, tx_in_flight))
		return false;
	/* What the path loses by itself is dear to compute, and never makes the threshold lower. */
	return !is_on(PATH_LOSS) || lost > gain_of(loss_thresh(b, c, tx_in_flight), tx_in_flight);
}

static inline uint64_t target_inflight(const struct bbr3 *b, const struct bbr3_conn *c)
{
	return min64(quantization_budget(b, c, estimated_bdp(b, c)), c->cwnd);
}

/* Startup and Drain. */

SELDOM void end_startup(struct bbr3 *b, const struct bbr3_conn *c)
{
	b->full_bw_now = true;
	b->full_bw_reached = true;
	b->inflight_longterm = max64(inflight_at(b, c, b->max_bw), b->inflight_latest);
}

SELDOM void judge_losses_of_startup(struct bbr3 *b, const struct bbr3_conn *c,
				    const struct bbr3_sample *rs)
{
	uint32_t events = b->loss_events_in_round;

	b->loss_events_in_round = 0;
	if (b->full_bw_reached || events < STARTUP_FULL_LOSS_COUNT ||
	    !is_inflight_too_high(b, c, rs->lost, rs->tx_in_flight) ||
	    is_loss_of_path_in_startup(b, c, rs))
		return;
	b->undo_state = STARTUP;
	end_startup(b, c);
}

static inline void check_startup_high_loss(struct bbr3 *b, const struct bbr3_conn *c,
					   const struct bbr3_sample *rs)
{
	if (b->loss_round_start)
		judge_losses_of_startup(b, c, rs);
}

static inline void check_full_bw_reached(struct bbr3 *b, const struct bbr3_sample *rs)
{
	bool is_up = is_on(SHORT_PROBE) && b->state == PROBE_BW_UP;

	if (b->full_bw_now || rs->is_app_limited || rs->delivery_rate == 0)
		return;
	if (rs->delivery_rate >= gain_of(is_up ? UP_GROWTH : FULL_BW_GROWTH, b->full_bw)) {
		reset_full_bw(b);
		b->full_bw = rs->delivery_rate;
		return;
	}
	if (!b->round_start)
		return;
	b->full_bw_count++;
	b->full_bw_now = b->full_bw_count >= FULL_BW_ROUNDS;
	if (b->full_bw_now)
		b->full_bw_reached = true;
}

SELDOM void enter_drain(struct bbr3 *b)
{
	reset_congestion_signals(b);
	enter(b, DRAIN);
	b->drain_start_round = b->round_count;
}

/* ProbeBW. */

SELDOM void start_probe_bw_down(struct bbr3 *b, const struct bbr3_conn *c, uint64_t now)
{
	reset_congestion_signals(b);
	b->probe_up_acked_per_inc = INFINITE;
	b->rounds_since_probe_up = random_below(&b->rng, 2);
	b->bw_probe_wait = probe_wait_base(b) + random_below(&b->rng, PROBE_WAIT_RANDOM + 1);
	b->bw_probe_time = add_sat(now, b->bw_probe_wait);
	b->ack_phase = ACKS_PROBE_STOPPING;
	start_round(b, c);
	enter(b, PROBE_BW_DOWN);
}

SELDOM void start_probe_bw_cruise(struct bbr3 *b, const struct bbr3_conn *c)
{
	if (b->inflight_shortterm != INFINITE)
		b->inflight_shortterm = min64(b->inflight_shortterm, b->inflight_longterm);
	begin_cruise_for_amendments(b, c);
	enter(b, PROBE_BW_CRUISE);
}

SELDOM void start_probe_bw_refill(struct bbr3 *b, const struct bbr3_conn *c)
{
	end_cruise_for_amendments(b, c);
	reset_short_term_model(b);
	b->bw_probe_up_rounds = 0;
	b->bw_probe_up_acked = 0;
	b->prev_probe_precautionary = false;
	b->ack_phase = ACKS_REFILLING;
	start_round(b, c);
	enter(b, PROBE_BW_REFILL);
}

static inline void raise_inflight_longterm_slope(struct bbr3 *b, const struct bbr3_conn *c)
{
	uint32_t doublings = b->bw_probe_up_rounds;

	if (doublings < MAX_PROBE_UP_ROUNDS)
		b->bw_probe_up_rounds = doublings + 1;
	b->probe_up_acked_per_inc = max64(packets_down(c, c->cwnd >> (doublings & 31)), c->smss);
}

SELDOM void start_probe_bw_up(struct bbr3 *b, const struct bbr3_conn *c,
				     const struct bbr3_sample *rs)
{
	b->ack_phase = ACKS_PROBE_STARTING;
	start_round(b, c);
	reset_full_bw(b);
	b->full_bw = rs->delivery_rate;
	enter(b, PROBE_BW_UP);
	raise_inflight_longterm_slope(b, c);
}

SELDOM void handle_inflight_too_high(struct bbr3 *b, const struct bbr3_conn *c,
					    uint64_t inflight, bool is_app_limited, uint64_t now)
{
	b->prev_probe_too_high = true;
	b->is_bw_probe_sample = false;
	if (!is_app_limited)
		b->inflight_longterm =
			max64(inflight, packets_down(c, gain_of(BETA, target_inflight(b, c))));
	if (b->state == PROBE_BW_UP) {
		b->undo_state = PROBE_BW_UP;
		start_probe_bw_down(b, c, now);
	}
}

static inline void advance_max_bw_filter(struct bbr3 *b)
{
	if (b->max_bw_filter[1] == 0)
		return;
	b->max_bw = b->max_bw_filter[0] = b->max_bw_filter[1];
	b->max_bw_filter[1] = 0;
}

/* True when it decided a transition. */
static inline bool advance_ack_phase(struct bbr3 *b, const struct bbr3_conn *c,
				     const struct bbr3_sample *rs)
{
	if (b->ack_phase == ACKS_PROBE_STARTING) {
		b->ack_phase = ACKS_PROBE_FEEDBACK;
	} else if (b->ack_phase == ACKS_PROBE_STOPPING) {
		b->is_bw_probe_sample = false;
		b->ack_phase = ACKS_INIT;
		if (!is_in_a_probe_bw_state(b))
			return false;
		if (!rs->is_app_limited)
			advance_max_bw_filter(b);
		if (b->prev_probe_precautionary && !b->prev_probe_too_high) {
			start_probe_bw_refill(b, c);
			return true;
		}
	}
	return false;
}

SELDOM void probe_inflight_longterm_upward(struct bbr3 *b, const struct bbr3_conn *c,
						  const struct bbr3_sample *rs)
{
	if (!c->is_cwnd_limited || c->cwnd < b->inflight_longterm)
		return;
	b->bw_probe_up_acked = add_sat(b->bw_probe_up_acked, rs->newly_acked);
	if (b->bw_probe_up_acked >= b->probe_up_acked_per_inc) {
		uint64_t delta = b->bw_probe_up_acked / b->probe_up_acked_per_inc;

		b->bw_probe_up_acked -= delta * b->probe_up_acked_per_inc;
		b->inflight_longterm = add_sat(b->inflight_longterm, mul_sat(delta, c->smss));
	}
	if (b->round_start)
		raise_inflight_longterm_slope(b, c);
}

/* True when it decided a transition. */
static inline bool adapt_long_term_model(struct bbr3 *b, const struct bbr3_conn *c,
					 const struct bbr3_sample *rs)
{
	if (b->round_start && advance_ack_phase(b, c, rs))
		return true;
	if (is_inflight_too_high(b, c, rs->lost, rs->tx_in_flight) || b->is_mark_rate_too_high) {
		if (b->is_bw_probe_sample)
			handle_inflight_too_high(b, c, rs->tx_in_flight, rs->is_app_limited,
						 rs->now);
	} else if (b->inflight_longterm != INFINITE) {
		b->inflight_longterm = max64(b->inflight_longterm, rs->tx_in_flight);
		if (b->state == PROBE_BW_UP)
			probe_inflight_longterm_upward(b, c, rs);
	}
	return false;
}

static inline bool is_time_to_probe_bw(const struct bbr3 *b, const struct bbr3_conn *c, uint64_t now)
{
	uint64_t rounds = b->rounds_since_probe_up;

	return now > b->bw_probe_time || rounds >= RENO_ROUNDS ||
	       (rounds >= 1 && target_inflight(b, c) < (rounds + 1) * c->smss);
}

static inline bool is_time_to_cruise(const struct bbr3 *b, const struct bbr3_conn *c)
{
	return c->inflight <= inflight_with_headroom(b, c) &&
	       c->inflight <= held(b, inflight_at(b, c, b->max_bw));
}

static inline bool is_time_to_go_down(struct bbr3 *b, const struct bbr3_conn *c,
				      const struct bbr3_sample *rs)
{
	if (b->prev_probe_too_high &&
	    add_sat(rs->prior_inflight, c->smss) > b->inflight_longterm) {
		b->prev_probe_precautionary = true;
		return true;
	}
	if (ends_up(b, c, rs, estimated_bdp(b, c)))
		return true;
	if (c->is_cwnd_limited && c->cwnd >= b->inflight_longterm) {
		reset_full_bw(b);
		b->full_bw = rs->delivery_rate;
		return false;
	}
	return b->full_bw_now;
}

static inline void update_probe_bw_cycle_phase(struct bbr3 *b, const struct bbr3_conn *c,
					       const struct bbr3_sample *rs)
{
	if (!b->full_bw_reached || adapt_long_term_model(b, c, rs))
		return;
	if ((b->state == PROBE_BW_DOWN || b->state == PROBE_BW_CRUISE) &&
	    is_time_to_probe_bw(b, c, rs->now)) {
		take_bandwidth_of_cruise(b, c, rs);
		start_probe_bw_refill(b, c);
	} else if (b->state == PROBE_BW_CRUISE) {
		if (b->round_start)
			end_round_of_cruise(b, c, rs);
	} else if (b->state == PROBE_BW_DOWN) {
		if (is_time_to_cruise(b, c))
			start_probe_bw_cruise(b, c);
	} else if (b->state == PROBE_BW_REFILL) {
		if (b->round_start) {
			b->is_bw_probe_sample = true;
			start_probe_bw_up(b, c, rs);
		}
	} else if (b->state == PROBE_BW_UP) {
		if (is_time_to_go_down(b, c, rs)) {
			b->prev_probe_too_high = false;
			start_probe_bw_down(b, c, rs->now);
		}
	}
}

static inline void check_startup_done(struct bbr3 *b)
{
	if (b->state == STARTUP && b->full_bw_reached)
		enter_drain(b);
}

static inline void check_drain_done(struct bbr3 *b, const struct bbr3_conn *c, uint64_t now)
{
	if (b->state == DRAIN && c->inflight <= inflight_at(b, c, b->max_bw))
		start_probe_bw_down(b, c, now);
}

/* ProbeRTT. */

static inline void exit_probe_rtt(struct bbr3 *b, const struct bbr3_conn *c, uint64_t now)
{
	end_probe_rtt_for_amendments(b, now);
	reset_short_term_model(b);
	if (b->full_bw_reached) {
		start_probe_bw_down(b, c, now);
		start_probe_bw_cruise(b, c);
	} else {
		enter(b, STARTUP);
	}
}

SELDOM void check_probe_rtt_done(struct bbr3 *b, struct bbr3_conn *c, uint64_t now)
{
	if (now > b->probe_rtt_done_stamp) {
		b->probe_rtt_min_expiry = add_sat(now, probe_rtt_interval(b));
		restore_cwnd(b, c);
		exit_probe_rtt(b, c, now);
	}
}

SELDOM void enter_probe_rtt(struct bbr3 *b, const struct bbr3_conn *c)
{
	save_cwnd(b, c);
	begin_probe_rtt_for_amendments(b);
	enter(b, PROBE_RTT);
	b->probe_rtt_done_stamp = INFINITE;
	b->ack_phase = ACKS_PROBE_STOPPING;
	start_round(b, c);
}

SELDOM void handle_probe_rtt(struct bbr3 *b, struct bbr3_conn *c, uint64_t now)
{
	mark_app_limited(c);
	if (b->probe_rtt_done_stamp == INFINITE) {
		if (c->inflight <= probe_rtt_cwnd(b, c)) {
			b->probe_rtt_done_stamp = add_sat(now, PROBE_RTT_DURATION);
			b->probe_rtt_round_done = false;
			start_round(b, c);
		}
		return;
	}
	if (b->round_start)
		b->probe_rtt_round_done = true;
	if (b->probe_rtt_round_done)
		check_probe_rtt_done(b, c, now);
}

static inline void check_probe_rtt(struct bbr3 *b, struct bbr3_conn *c,
				   const struct bbr3_sample *rs)
{
	if (b->state != PROBE_RTT && b->probe_rtt_expired && !b->idle_restart)
		enter_probe_rtt(b, c);
	if (b->state == PROBE_RTT)
		handle_probe_rtt(b, c, rs->now);
	if (rs->delivered > 0)
		b->idle_restart = false;
}

#endif
