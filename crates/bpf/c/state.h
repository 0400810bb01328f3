/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The state of BBRv3, by the names of draft-ietf-ccwg-bbr, and its constants in Linux's flavour. Each
 * function of these headers is the twin of the Rust function of its name in crates/cc/src/bbr3, where
 * the section of the draft and every reading of it are said; what stands here is what C makes
 * different. Volumes are bytes, times nanoseconds, rates bytes a second; "infinity" is INFINITE.
 */
#ifndef FULLPIPE_STATE_H
#define FULLPIPE_STATE_H

#include "arith.h"

#define MILLIS (NANOS_PER_SEC / 1000)

#define STARTUP_PACING_GAIN PER_256(710)
#define DRAIN_PACING_GAIN PER_256(88)
#define PROBE_DOWN_PACING_GAIN PER_256(232)
#define DEEPER_DOWN_PACING_GAIN PERCENT(82)
#define PROBE_UP_PACING_GAIN PERCENT(125)
#define DEFAULT_CWND_GAIN PERCENT(200)
#define PROBE_UP_CWND_GAIN PERCENT(225)
#define CRUISE_CWND_GAIN PERCENT(102)
#define PROBE_RTT_CWND_GAIN PERCENT(50)
#define PACING_MARGIN PERCENT(99)
#define LOSS_THRESH PER_256(5)
#define BETA PER_256(256 - 76)
#define HEADROOM PER_256(38)

#define MIN_PIPE_PACKETS 4
#define STARTUP_FULL_LOSS_COUNT 6
#define FULL_BW_GROWTH PERCENT(125)
#define UP_GROWTH PERCENT(112)
#define FULL_BW_ROUNDS 3
#define EXTRA_ACKED_BUCKET_ROUNDS 5
#define EXTRA_ACKED_TIME (100 * MILLIS)
#define MIN_RTT_FILTER_LEN (10000 * MILLIS)
#define PROBE_RTT_INTERVAL (5000 * MILLIS)
#define PROBE_RTT_DURATION (200 * MILLIS)
#define PROBE_WAIT_BASE (2000 * MILLIS)
#define PROBE_WAIT_RANDOM (1000 * MILLIS)
#define RENO_ROUNDS 63
#define MAX_PROBE_UP_ROUNDS 30
#define MAX_QUANTUM UINT64_C(65536)
#define QUANTUM_HALVING UINT64_C(512000)
#define TCP_OFFLOAD_QUANTA 3
#define NOMINAL_RTT (1 * MILLIS)
#define MIN_RTT_SAMPLE UINT64_C(1000)

#define ECN_UNIT 256
#define ECN_ALPHA_GAIN (ECN_UNIT / 16)
#define ECN_FACTOR (ECN_UNIT / 3)
#define ECN_THRESH PERCENT(50)
#define ECN_FULL_ROUNDS 2
#define ECN_MAX_RTT (5 * MILLIS)

enum bbr3_state {
	STARTUP,
	DRAIN,
	PROBE_BW_DOWN,
	PROBE_BW_CRUISE,
	PROBE_BW_REFILL,
	PROBE_BW_UP,
	PROBE_RTT,
	NO_STATE,
};

enum bbr3_ack_phase {
	ACKS_INIT,
	ACKS_REFILLING,
	ACKS_PROBE_STARTING,
	ACKS_PROBE_FEEDBACK,
	ACKS_PROBE_STOPPING,
};

/* The amendments of bbr3x, in the order of fullpipe_cc::Amendment. */
enum bbr3_amendment {
	SHORT_PROBE,
	PROBE_RTT_ON_DEMAND,
	TIMERS_IN_ROUND_TRIPS,
	SMALL_CRUISE_QUEUE,
	PATH_LOSS,
	CLASSIC_MARKS,
	NUMBER_OF_AMENDMENTS,
};

#define ALL_AMENDMENTS ((1u << NUMBER_OF_AMENDMENTS) - 1)

/* Those that are on, a bit each. */
#ifdef BBR3X
#define AMENDMENTS ALL_AMENDMENTS
#elif !defined(AMENDMENTS)
#define AMENDMENTS 0
#endif
#define IS_AMENDED (AMENDMENTS != 0)

static inline bool is_on(enum bbr3_amendment amendment)
{
	return (AMENDMENTS) >> amendment & 1;
}

/* The connection (the draft's C): what the transport and the algorithm share. */
struct bbr3_conn {
	uint64_t smss;
	uint64_t initial_cwnd;
	uint64_t cwnd;
	uint64_t inflight;
	uint64_t pacing_rate;
	/* The most that pacing_rate may be. */
	uint64_t max_pacing_rate;
	uint64_t send_quantum;
	uint64_t delivered;
	uint64_t lost;
	/* The value of delivered at which the application-limited bubble has left the path; 0: none. */
	uint64_t app_limited;
	/* 0 before the first sample. */
	uint64_t srtt;
	/* The window was the limit within the last round trip. The transport says so before each ACK. */
	bool is_cwnd_limited;
	bool in_recovery;
};

/* The rate sample of one ACK (the draft's RS). */
struct bbr3_sample {
	uint64_t now;
	/* INFINITE when there is none. */
	uint64_t rtt;
	/* 0 when there is no reliable one. */
	uint64_t delivery_rate;
	uint64_t delivered;
	uint64_t prior_delivered;
	uint64_t newly_acked;
	uint64_t tx_in_flight;
	uint64_t lost;
	/* C.inflight before this ACK removed anything. */
	uint64_t prior_inflight;
	bool is_app_limited;
};

/* A packet that was lost. */
struct bbr3_lost_packet {
	uint64_t size;
	uint64_t tx_in_flight;
	/* Lost since it was sent, itself included. */
	uint64_t lost_since;
	bool is_app_limited;
};

/* The state of the amendments. */
struct bbr3_amended {
	/* The shortest RTT of the connection. */
	uint64_t shortest_rtt;
	/* The shortest RTT of the last round of the newest CRUISE. */
	uint64_t least_rtt;
	uint64_t probe_rtt_at_latest;
	uint64_t cruise_lost;
	uint64_t cruise_delivered;
	/* The RTTs of this round: their sum and the shortest. */
	uint64_t round_rtt_sum;
	uint64_t round_least_rtt;
	/* The mean RTT of the newest whole round of this CRUISE or ProbeRTT. */
	uint64_t mean_rtt;
	/* The least mean RTT of a round of CRUISE or ProbeRTT: in this cycle, and in the one before. */
	uint64_t base_rtt[2];
	/* No ProbeRTT is asked for before. */
	uint64_t next_question;
	/* The measurements when one was asked for; no RTT without a question. */
	uint64_t question_rtt;
	uint64_t question_bw;
	/* A factor, as PERCENT() makes it. */
	uint32_t baseline_loss;
	uint32_t round_rtts;
	bool has_reached_target;
	/* Of this UP, or of this CRUISE. */
	uint8_t rounds;
	/* QUEUE_ACKS once a queue was seen. */
	uint8_t queueing_acks;
	/* The newest starved ones in a row. */
	uint8_t starved_rounds;
	/* The newest question has no answer, and the next one waits for a probe. */
	bool is_unanswered;
};

/*
 * The algorithm (the draft's BBR), in the parts of crates/cc/src/bbr3. What every ACK reads comes
 * first, in as few cache lines as hold it: they are mostly cold.
 */
struct bbr3 {
	uint8_t state;
	uint8_t ack_phase;
	uint8_t undo_state;

	bool round_start;
	bool idle_restart;
	bool is_rtt_measured;
	bool probe_rtt_expired;
	bool probe_rtt_round_done;
	bool full_bw_reached;
	bool full_bw_now;
	bool loss_round_start;
	bool is_loss_in_round;
	bool is_too_high;
	bool too_high_is_app_limited;
	bool is_bw_probe_sample;
	bool prev_probe_too_high;
	bool prev_probe_precautionary;
	bool is_ecn_on;
	bool is_ecn_eligible;
	bool is_ecn_in_round;
	bool is_mark_rate_too_high;

	/* round */
	uint64_t next_round_delivered;

	/* loss_round */
	uint64_t loss_round_delivered;
	uint64_t bw_latest;
	uint64_t inflight_latest;

	/* bandwidth */
	uint64_t max_bw;
	uint64_t max_bw_filter[2];
	uint64_t bw;

	/* bounds */
	uint64_t bw_shortterm;
	uint64_t inflight_shortterm;
	uint64_t inflight_longterm;

	/* control */
	uint64_t pacing_gain;
	uint64_t cwnd_gain;
	uint64_t max_inflight;

	/* rtt */
	uint64_t min_rtt;
	uint64_t min_rtt_expiry;
	uint64_t probe_rtt_min_delay;
	uint64_t probe_rtt_min_expiry;

	/* aggregation, with Linux's two buckets */
	uint64_t extra_acked;
	uint64_t extra_acked_interval_start;
	uint64_t extra_acked_delivered;
	uint64_t extra_acked_older;
	uint64_t extra_acked_newer;

	/* probe; the time is BBR.cycle_stamp + BBR.bw_probe_wait */
	uint64_t rounds_since_probe_up;
	uint64_t bw_probe_time;

	/* From here on what only some ACKs read. */

	/* probe */
	uint64_t bw_probe_wait;
	uint64_t bw_probe_up_acked;
	uint64_t probe_up_acked_per_inc;
	uint64_t rng;

	/* round */
	uint64_t round_count;

	/* loss_round */
	uint64_t too_high_inflight;

	/* control */
	uint64_t prior_cwnd;

	/* full_pipe */
	uint64_t full_bw;
	uint64_t drain_start_round;

	/* probe_rtt; INFINITE while it has not reached its window */
	uint64_t probe_rtt_done_stamp;

	/* undo */
	uint64_t undo_bw_shortterm;
	uint64_t undo_inflight_shortterm;
	uint64_t undo_inflight_longterm;

	/* ecn */
	uint64_t ecn_marked;
	uint64_t ecn_alpha_marked;
	uint64_t ecn_alpha_delivered;

	uint32_t extra_acked_bucket_rounds;
	uint32_t full_bw_count;
	uint32_t loss_events_in_round;
	uint32_t bw_probe_up_rounds;
	uint32_t ecn_alpha;
	uint32_t ecn_startup_rounds;

	struct bbr3_amended amended;
};

/* A volume in whole packets, as Linux counts: rounded down, or up. */
static inline uint64_t packets_down(const struct bbr3_conn *c, uint64_t volume)
{
	return volume - volume % c->smss;
}

static inline uint64_t packets_up(const struct bbr3_conn *c, uint64_t volume)
{
	uint64_t part = volume % c->smss;

	return part ? add_sat(volume, c->smss - part) : volume;
}

static inline uint64_t min_pipe_cwnd(const struct bbr3_conn *c)
{
	return MIN_PIPE_PACKETS * c->smss;
}

/* A round-trip sample, for C.srtt. */
static inline void update_srtt(struct bbr3_conn *c, uint64_t rtt)
{
	c->srtt = c->srtt ? c->srtt - c->srtt / 8 + rtt / 8 : rtt;
}

static inline void mark_app_limited(struct bbr3_conn *c)
{
	c->app_limited = max64(add_sat(c->delivered, c->inflight), 1);
}

#endif
