/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The amendments of bbr3x, the twin of bbr3/amended.rs. AMENDMENTS is a constant where the program is compiled for the
 * kernel: in bbr3, which has none, nothing of them is left but their state.
 */
#ifndef FULLPIPE_AMENDED_H
#define FULLPIPE_AMENDED_H

#include "state.h"

#define SHORT_RTT_SHIFT 5
#define QUEUE_SHIFT 3
#define QUEUE_ACKS 4
#define DELIVERED_SHIFT 8
#define PROBE_RTT_AT_LATEST 4
#define PROBE_RTT_INTERVAL_ROUNDS 16
#define PROBE_WAIT_ROUNDS 3
#define UP_TARGET PERCENT(125)
#define UP_QUEUE_ROUNDS 2
#define UP_QUEUE_SHIFT 1
#define CRUISE_PACKETS 8
#define CRUISE_CWND_GAIN_MAX PERCENT(125)
#define BANDWIDTH_ROUNDS 12
#define SMALL_LOSS PERCENT(3)
#define BASELINE_LOSS_MAX PERCENT(6)
#define BASELINE_PACKETS 100
#define LEAST_DELIVERED PERCENT(80)
#define STARVED_RTT 3
#define STARVED_ROUNDS 2
#define QUESTION_INTERVAL (2000 * MILLIS)
#define QUESTION_ROUNDS 8
#define ANSWER_SHIFT 4
#define BASE_SHIFT 1
#define STILL_SHIFT 5
#define BASE_SAMPLES 4

/*
 * The square root, rounded down: a binary digit at a time, and without a branch on n, of which the verifier would follow both
 * ways each time. It is not static where it has callers, so that the verifier looks at it once.
 */
#ifndef BBR3X
static
#endif
__attribute__((noinline)) uint64_t square_root(uint64_t n)
{
	uint64_t root = 0;

	for (uint64_t digit = UINT64_C(1) << (fits_32_bits(n) ? 30 : 62); digit; digit >>= 2) {
		uint64_t step = root + digit, rest = n - step;
		/* The borrow of that subtraction. */
		uint64_t is_below = ((~n & step) | ((~n | step) & rest)) >> 63;
		uint64_t fits = is_below - 1;

		n -= step & fits;
		root = (root >> 1) + (digit & fits);
	}
	return root;
}

/* part / whole as a factor of at most one. */
static inline uint64_t gain_ratio(uint64_t part, uint64_t whole)
{
	return whole ? min64(mul_div(part, GAIN_ONE, whole), GAIN_ONE) : 0;
}

/* True if rtt is at most 1/32 above least. */
static inline bool is_short(uint64_t rtt, uint64_t least)
{
	return rtt <= add_sat(least, least >> SHORT_RTT_SHIFT);
}

/* True if rtt was measured and is above least by more than its fraction 2^-shift. */
static inline bool is_queueing(uint64_t rtt, uint64_t least, unsigned shift)
{
	return rtt != INFINITE && rtt > add_sat(least, least >> shift);
}

static inline bool has_seen_queue(const struct bbr3 *b)
{
	return b->amended.queueing_acks == QUEUE_ACKS;
}

static inline uint64_t mean_round_trip(const struct bbr3_amended *a)
{
	return a->round_rtts ? a->round_rtt_sum / a->round_rtts : INFINITE;
}

static inline void forget_round_trips(struct bbr3 *b)
{
	b->amended.round_rtt_sum = 0;
	b->amended.round_rtts = 0;
	b->amended.round_least_rtt = INFINITE;
}

static inline void begin_rounds(struct bbr3 *b)
{
	b->amended.starved_rounds = 0;
	b->amended.mean_rtt = INFINITE;
	forget_round_trips(b);
}

/* A round that delivered far less than the bandwidth at a long RTT. Two of them ask why. */
static inline void judge_starved(struct bbr3 *b, const struct bbr3_sample *rs, uint64_t least)
{
	struct bbr3_amended *a = &b->amended;
	bool is_starved = is_on(PROBE_RTT_ON_DEMAND) && !rs->is_app_limited &&
			  b->bw_latest > 0 && b->bw_latest < gain_of(LEAST_DELIVERED, b->bw) &&
			  least != INFINITE && least >= mul_sat(b->min_rtt, STARVED_RTT) &&
			  !a->is_unanswered && rs->now >= a->next_question;

	a->question_rtt = INFINITE;
	a->starved_rounds = is_starved ? a->starved_rounds + 1 : 0;
	if (a->starved_rounds == STARVED_ROUNDS) {
		a->starved_rounds = 0;
		a->next_question = add_sat(
			rs->now, max64(QUESTION_INTERVAL, mul_sat(least, QUESTION_ROUNDS)));
		a->question_rtt = rs->rtt == INFINITE ? least : max64(rs->rtt, least);
		a->question_bw = b->bw_latest;
	}
}

static inline uint64_t least_base(const struct bbr3 *b)
{
	return min64(b->amended.base_rtt[0], b->amended.base_rtt[1]);
}

/* The RTT of the path without this flow's own queue, at most 1.5 min_rtt. */
static inline uint64_t base_rtt(const struct bbr3 *b)
{
	uint64_t least = least_base(b), min_rtt = b->min_rtt;

	if (least == INFINITE)
		return min_rtt;
	return max64(min64(least, add_sat(min_rtt, min_rtt >> BASE_SHIFT)), min_rtt);
}

/* A volume by the base in place of min_rtt. */
static inline uint64_t at_base(const struct bbr3 *b, uint64_t bytes)
{
	uint64_t base = base_rtt(b);

	return base == b->min_rtt ? bytes : mul_div(bytes, base, b->min_rtt);
}

/* The volume that the path holds without a queue of this flow, of bytes by min_rtt. */
static inline uint64_t held(const struct bbr3 *b, uint64_t bytes)
{
	return is_on(SHORT_PROBE) ? at_base(b, bytes) : bytes;
}

/* A round ends, and with it its RTTs. */
static inline void end_round_trips(struct bbr3 *b, const struct bbr3_sample *rs)
{
	struct bbr3_amended *a = &b->amended;
	uint64_t least = a->round_least_rtt;
	uint64_t mean = mean_round_trip(a);
	uint32_t samples = a->round_rtts;

	forget_round_trips(b);
	if (b->state == PROBE_BW_CRUISE || b->state == PROBE_RTT) {
		a->mean_rtt = mean;
		if (samples >= BASE_SAMPLES)
			a->base_rtt[0] = min64(a->base_rtt[0], mean);
	}
	if (b->state == PROBE_BW_CRUISE || b->state == PROBE_BW_REFILL || b->state == PROBE_BW_UP)
		judge_starved(b, rs, least);
}

/* BBR.ProbeRTTInterval. */
static inline uint64_t probe_rtt_interval(const struct bbr3 *b)
{
	if (!is_on(TIMERS_IN_ROUND_TRIPS) || b->amended.shortest_rtt == INFINITE)
		return PROBE_RTT_INTERVAL;
	return max64(PROBE_RTT_INTERVAL,
		     mul_sat(b->amended.shortest_rtt, PROBE_RTT_INTERVAL_ROUNDS));
}

static inline uint64_t probe_rtt_at_latest(const struct bbr3 *b, uint64_t now)
{
	return add_sat(now, mul_sat(probe_rtt_interval(b), PROBE_RTT_AT_LATEST));
}

/* The shortest wait between probes. */
static inline uint64_t probe_wait_base(const struct bbr3 *b)
{
	if (!is_on(TIMERS_IN_ROUND_TRIPS) || b->min_rtt == INFINITE)
		return PROBE_WAIT_BASE;
	return max64(PROBE_WAIT_BASE, mul_sat(b->min_rtt, PROBE_WAIT_ROUNDS));
}

/* True if the path holds less than BBR.MinPipeCwnd. */
static inline bool is_below_least_window(const struct bbr3 *b, const struct bbr3_conn *c)
{
	return bytes_in(b->max_bw, b->amended.shortest_rtt) <= min_pipe_cwnd(c);
}

/* True if this cycle measured the bandwidth of the cycle before, less at most 1/256. */
static inline bool delivers_what_it_estimates(const struct bbr3 *b)
{
	return b->max_bw_filter[1] >= b->max_bw_filter[0] - (b->max_bw_filter[0] >> DELIVERED_SHIFT);
}

/* Notes the RTT of an ACK. True if ProbeRTT is to come at once. */
SELDOM bool note_rtt(struct bbr3 *b, const struct bbr3_sample *rs)
{
	struct bbr3_amended *a = &b->amended;

	if (b->round_start)
		end_round_trips(b, rs);
	if (rs->rtt != INFINITE) {
		a->round_rtt_sum = add_sat(a->round_rtt_sum, rs->rtt);
		a->round_rtts += a->round_rtts < ~0u;
		a->round_least_rtt = min64(a->round_least_rtt, rs->rtt);
	}
	if (b->state == PROBE_BW_CRUISE)
		a->least_rtt = b->round_start ? rs->rtt : min64(a->least_rtt, rs->rtt);
	/* A single long RTT may be a delayed ACK. */
	if (!has_seen_queue(b))
		a->queueing_acks =
			is_queueing(rs->rtt, b->min_rtt, QUEUE_SHIFT) ? a->queueing_acks + 1 : 0;
	if (rs->rtt < b->probe_rtt_min_delay)
		a->probe_rtt_at_latest = probe_rtt_at_latest(b, rs->now);
	if (is_on(PROBE_RTT_ON_DEMAND) && b->state != PROBE_RTT &&
	    is_short(rs->rtt, min64(b->probe_rtt_min_delay, b->min_rtt)) &&
	    rs->now < a->probe_rtt_at_latest) {
		b->probe_rtt_min_expiry = add_sat(rs->now, probe_rtt_interval(b));
		a->question_rtt = INFINITE;
		return false;
	}
	return a->question_rtt != INFINITE && b->state != PROBE_RTT;
}

/* CRUISE needs no margin where it keeps no queue. */
static inline bool is_without_margin(const struct bbr3 *b)
{
	return is_on(SMALL_CRUISE_QUEUE) && delivers_what_it_estimates(b) &&
	       is_short(b->amended.least_rtt, b->amended.shortest_rtt);
}

/* The factor of the pacing rate below the estimated bandwidth. */
static inline uint64_t pacing_margin(const struct bbr3 *b)
{
	return b->state == PROBE_BW_CRUISE && is_without_margin(b) ? GAIN_ONE : PACING_MARGIN;
}

static inline void begin_probe_rtt_for_amendments(struct bbr3 *b)
{
	if (IS_AMENDED)
		begin_rounds(b);
}

static inline void begin_cruise_for_amendments(struct bbr3 *b, const struct bbr3_conn *c)
{
	if (!IS_AMENDED)
		return;
	b->amended.least_rtt = INFINITE;
	b->amended.rounds = 0;
	begin_rounds(b);
	b->amended.cruise_lost = c->lost;
	b->amended.cruise_delivered = c->delivered;
}

static inline void end_cruise_for_amendments(struct bbr3 *b, const struct bbr3_conn *c)
{
	struct bbr3_amended *a = &b->amended;

	if (!IS_AMENDED)
		return;
	a->has_reached_target = false;
	a->rounds = 0;
	a->is_unanswered = false;
	if (b->state != PROBE_BW_CRUISE)
		return;
	/* The newest round had no queue of this flow. */
	uint64_t base = least_base(b);
	bool is_at_base = a->mean_rtt != INFINITE && is_short(a->mean_rtt, base) &&
			  !is_queueing(base, b->min_rtt, BASE_SHIFT);
	a->base_rtt[1] = a->base_rtt[0];
	a->base_rtt[0] = INFINITE;
	uint64_t lost = sub_sat(c->lost, a->cruise_lost);
	uint64_t all = add_sat(lost, sub_sat(c->delivered, a->cruise_delivered));
	if (all < BASELINE_PACKETS * c->smss)
		return;
	a->baseline_loss = 0;
	if (has_seen_queue(b) && is_at_base)
		a->baseline_loss = (uint32_t)min64(gain_ratio(lost, all), BASELINE_LOSS_MAX);
}

static inline void take_bandwidth_of_cruise(struct bbr3 *b, const struct bbr3_conn *c,
					    const struct bbr3_sample *rs)
{
	if (!is_on(SMALL_CRUISE_QUEUE) || b->state != PROBE_BW_CRUISE || rs->is_app_limited ||
	    !is_queueing(b->amended.least_rtt, base_rtt(b), QUEUE_SHIFT) ||
	    is_below_least_window(b, c))
		return;
	uint64_t delivered = min64(b->bw_latest, b->max_bw);
	if (delivered > 0 && delivered >= gain_of(LEAST_DELIVERED, b->max_bw)) {
		b->max_bw = b->max_bw_filter[0] = delivered;
		b->max_bw_filter[1] = 0;
	}
}

/* A round of CRUISE ends, and CRUISE goes on. */
static inline void end_round_of_cruise(struct bbr3 *b, const struct bbr3_conn *c,
				       const struct bbr3_sample *rs)
{
	if (IS_AMENDED && ++b->amended.rounds % BANDWIDTH_ROUNDS == 2)
		take_bandwidth_of_cruise(b, c, rs);
}

/* The share of bytes that the path may lose by itself, as a factor. */
SELDOM uint64_t expected_loss(const struct bbr3 *b, const struct bbr3_conn *c, uint64_t bytes)
{
	uint64_t lost = mul_sat(gain_of(b->amended.baseline_loss, bytes), c->smss);

	return b->amended.baseline_loss + gain_ratio(2 * square_root(lost), bytes);
}

/* BBR.LossThresh of a probe with bytes in flight, as a factor. */
static inline uint64_t loss_thresh(const struct bbr3 *b, const struct bbr3_conn *c, uint64_t bytes)
{
	if (!is_on(PATH_LOSS) || b->amended.baseline_loss == 0)
		return LOSS_THRESH;
	return LOSS_THRESH + expected_loss(b, c, bytes);
}

static inline bool is_loss_of_path_in_startup(const struct bbr3 *b, const struct bbr3_conn *c,
					      const struct bbr3_sample *rs)
{
	bool grows = b->full_bw_count == 0 && !rs->is_app_limited;
	uint64_t most = gain_of(LOSS_THRESH + BASELINE_LOSS_MAX, rs->tx_in_flight);
	uint64_t chance = 0;

	if (!is_on(PATH_LOSS) || (!grows && !is_short(rs->rtt, b->min_rtt)))
		return false;
	if (!rs->is_app_limited)
		chance = 2 * square_root(mul_sat(most, c->smss));
	return rs->lost <= add_sat(most, chance);
}

static inline bool is_small_loss(const struct bbr3 *b, const struct bbr3_conn *c,
				 const struct bbr3_sample *rs)
{
	uint64_t all = add_sat(rs->lost, rs->delivered);

	return is_on(PATH_LOSS) && rs->lost <= gain_of(SMALL_LOSS + expected_loss(b, c, all), all);
}

/* True if UP ends before a plateau; bdp is BBR.bdp. */
static inline bool ends_up(struct bbr3 *b, const struct bbr3_conn *c, const struct bbr3_sample *rs,
			   uint64_t bdp)
{
	struct bbr3_amended *a = &b->amended;
	uint64_t base = base_rtt(b);

	if (!IS_AMENDED)
		return false;
	if (add_sat(rs->prior_inflight, c->smss) >= gain_of(UP_TARGET, at_base(b, bdp)))
		a->has_reached_target = true;
	if (b->round_start && a->rounds < UP_QUEUE_ROUNDS)
		a->rounds++;
	if (!is_on(SHORT_PROBE) || !a->has_reached_target)
		return false;
	/* Where CRUISE's RTTs vary, one long RTT is no sign of a queue. */
	bool is_still = is_short(a->mean_rtt, a->least_rtt);

	if (is_queueing(rs->rtt, base, STILL_SHIFT) && b->full_bw_count >= (is_still ? 1 : 2) &&
	    is_short(a->least_rtt, base))
		return true;
	return !is_below_least_window(b, c) && a->rounds >= UP_QUEUE_ROUNDS &&
	       is_queueing(mean_round_trip(a), base, UP_QUEUE_SHIFT);
}

/* BBR.min_rtt is BBR.probe_rtt_min_delay. */
static inline void take_probe_rtt_min_delay(struct bbr3 *b)
{
	b->min_rtt = b->probe_rtt_min_delay;
	b->min_rtt_expiry = add_sat(b->probe_rtt_min_expiry,
				    max64(probe_rtt_interval(b),
					  MIN_RTT_FILTER_LEN - PROBE_RTT_INTERVAL));
}

/*
 * The answer to a question: the RTT went down with this flow's own volume, or it did not. The RTTs of the
 * round at hand are those of packets that left when ProbeRTT had its window.
 */
static inline void answer(struct bbr3 *b)
{
	struct bbr3_amended *a = &b->amended;
	uint64_t mean = mean_round_trip(a), rtt = a->question_rtt, fell_by = sub_sat(rtt, mean);

	a->question_rtt = INFINITE;
	if (rtt == INFINITE)
		return;
	if (fell_by <= b->min_rtt >> ANSWER_SHIFT && mean != INFINITE &&
	    b->probe_rtt_min_delay >= mul_sat(b->min_rtt, STARVED_RTT)) {
		a->base_rtt[0] = a->base_rtt[1] = INFINITE;
		take_probe_rtt_min_delay(b);
	} else if (fell_by > sub_sat(rtt, b->min_rtt) / 2) {
		b->max_bw = b->max_bw_filter[0] = a->question_bw;
		b->max_bw_filter[1] = 0;
	} else {
		a->is_unanswered = true;
	}
}

static inline void end_probe_rtt_for_amendments(struct bbr3 *b, uint64_t now)
{
	if (!IS_AMENDED)
		return;
	answer(b);
	b->amended.probe_rtt_at_latest = probe_rtt_at_latest(b, now);
}

/* The most that ProbeRTTCwnd may be. */
static inline uint64_t most_probe_rtt_cwnd(const struct bbr3 *b, const struct bbr3_conn *c)
{
	return is_on(PROBE_RTT_ON_DEMAND) && is_below_least_window(b, c) ? min_pipe_cwnd(c) :
									       INFINITE;
}

#endif
