/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The parts around bbr3.h in the twin test: the connection and the delivery-rate sampler, as
 * fullpipe-cc has them in controller.rs, conn.rs and sampler.rs. In the kernel TCP does this.
 */
#include <stdint.h>

/* Those of the flow that twin_init() made last: this library has one flow at a time. */
static uint32_t amendments;
#define AMENDMENTS amendments

#include "bbr3.h"
#include "notes.h"

#define INDEX_MASK 4095
#define MARKS_MASK 4194303 /* 22 bits, as in the core's sampler */

struct packet {
	uint64_t delivered, lost, marks, delivered_time, first_send_time, send_time;
	uint64_t tx_in_flight, size, index, is_app_limited, path;
};

struct twin {
	struct bbr3 b;
	struct bbr3_conn c;
	uint64_t delivered_time, first_send_time, min_rtt, marks, next_index, latest_rtt;
	uint64_t unanswered_marks;
	/* The first packet of after the start of the recovery: its time and index. */
	bool has_recovery_start;
	uint64_t recovery_time, recovery_index;
	bool awaits_repair;
	/* C.delivered and C.lost when all that was in flight when the window was last full will have left. */
	bool was_cwnd_limited;
	uint64_t cwnd_limited_until;
	/* Counts changes of path. What is said of packets from before is ignored. */
	uint64_t path;
	/* The batch of one ACK. */
	struct {
		bool has_newest, has_lost, has_no_rtt;
		struct packet newest;
		struct packet newest_lost;
		uint64_t prior_inflight, left_flight, newly_acked, ce, rtt;
	} ack;
};

unsigned long twin_size(void) { return sizeof(struct twin); }

void twin_init(struct twin *t, uint64_t smss, uint64_t initial_cwnd, uint64_t seed, bool ecn,
	       uint64_t now, uint64_t max_pacing_rate, uint32_t on)
{
	amendments = on;
	*t = (struct twin){ .delivered_time = now, .first_send_time = now, .min_rtt = INFINITE };
	t->c.smss = smss;
	t->c.initial_cwnd = initial_cwnd;
	t->c.max_pacing_rate = max_pacing_rate;
	bbr3_init(&t->b, &t->c, now, seed, ecn);
}

static void enter_recovery(struct twin *t, uint64_t now)
{
	if (t->c.in_recovery)
		return;
	bbr3_enter_recovery(&t->b, &t->c);
	t->has_recovery_start = true;
	t->recovery_time = now;
	t->recovery_index = t->next_index & INDEX_MASK;
}

static bool is_index_after(uint64_t index, uint64_t other)
{
	uint64_t ahead = (index - other) & INDEX_MASK;

	return ahead != 0 && ahead <= INDEX_MASK / 2;
}

static bool sent_after_recovery_start(const struct twin *t, const struct packet *p)
{
	if (!t->has_recovery_start)
		return true;
	return p->send_time > t->recovery_time ||
	       (p->send_time == t->recovery_time && !is_index_after(t->recovery_index, p->index));
}

static bool is_cwnd_limited(const struct twin *t)
{
	return t->was_cwnd_limited && add_sat(t->c.delivered, t->c.lost) <= t->cwnd_limited_until;
}

void twin_cwnd_limited(struct twin *t)
{
	t->was_cwnd_limited = true;
	t->cwnd_limited_until = add_sat(add_sat(t->c.delivered, t->c.lost), t->c.inflight);
}

static void note_full_window(struct twin *t)
{
	if (add_sat(t->c.inflight, t->c.smss) > t->c.cwnd)
		twin_cwnd_limited(t);
}

/* An ACK is told to the algorithm. */
static void tell_ack(struct twin *t, const struct bbr3_sample *rs)
{
	t->c.is_cwnd_limited = is_cwnd_limited(t);
	bbr3_ack(&t->b, &t->c, rs);
}

void twin_sent(struct twin *t, uint64_t now, uint64_t size, struct packet *p)
{
	bool idle = t->c.inflight == 0 && !t->awaits_repair;

	if (idle && t->c.app_limited) {
		bbr3_restart_from_idle(&t->b, &t->c, now);
		mark_app_limited(&t->c);
	}
	t->c.inflight = add_sat(t->c.inflight, size);
	note_full_window(t);
	if (idle)
		t->first_send_time = t->delivered_time = now;
	*p = (struct packet){
		.delivered = t->c.delivered,
		.lost = t->c.lost,
		.marks = t->marks,
		.delivered_time = t->delivered_time,
		.first_send_time = t->first_send_time,
		.send_time = now,
		.tx_in_flight = t->c.inflight,
		.size = size,
		.index = t->next_index++ & INDEX_MASK,
		.is_app_limited = t->c.app_limited != 0,
		.path = t->path,
	};
}

void twin_ack(struct twin *t)
{
	note_full_window(t);
	t->ack.has_newest = t->ack.has_lost = t->ack.has_no_rtt = false;
	t->ack.left_flight = t->ack.newly_acked = t->ack.ce = 0;
	t->ack.rtt = INFINITE;
	t->ack.prior_inflight = t->c.inflight;
}

static bool is_newer(const struct packet *p, const struct packet *q)
{
	return p->send_time > q->send_time ||
	       (p->send_time == q->send_time && is_index_after(p->index, q->index));
}

void twin_acked(struct twin *t, const struct packet *p, bool after_loss)
{
	if (p->path != t->path)
		return;
	if (!after_loss)
		t->ack.left_flight += p->size;
	if (!t->ack.has_newest || is_newer(p, &t->ack.newest))
		t->ack.newest = *p;
	t->ack.has_newest = true;
	t->ack.newly_acked += p->size;
}

void twin_lost(struct twin *t, const struct packet *p)
{
	if (p->path != t->path)
		return;
	t->c.inflight = sub_sat(t->c.inflight, p->size);
	t->c.lost = add_sat(t->c.lost, p->size);
	if (t->c.app_limited)
		t->c.app_limited = max64(sub_sat(t->c.app_limited, p->size), 1);
	struct bbr3_lost_packet lost = {
		.size = p->size,
		.tx_in_flight = p->tx_in_flight,
		.lost_since = t->c.lost - p->lost,
		.is_app_limited = p->is_app_limited,
	};
	bbr3_lost(&t->b, &t->c, &lost);
	if (!t->ack.has_lost || is_newer(p, &t->ack.newest_lost))
		t->ack.newest_lost = *p;
	t->ack.has_lost = true;
	t->awaits_repair = true;
}

void twin_ce(struct twin *t, uint64_t packets) { t->ack.ce += packets; }

void twin_rtt(struct twin *t, uint64_t rtt) { t->ack.rtt = rtt; }

void twin_no_rtt(struct twin *t) { t->ack.has_no_rtt = true; }

static struct bbr3_sample sample(struct twin *t, uint64_t now)
{
	const struct packet *p = &t->ack.newest;
	uint64_t rtt = t->ack.rtt == INFINITE ? sub_sat(now, p->send_time) : t->ack.rtt;

	if (t->ack.rtt == INFINITE && now < p->send_time)
		t->ack.has_no_rtt = true;
	rtt = t->ack.has_no_rtt ? INFINITE : max64(rtt, MIN_RTT_SAMPLE);
	if (rtt != INFINITE) {
		update_srtt(&t->c, rtt);
		t->latest_rtt = rtt;
	}
	t->min_rtt = min64(t->min_rtt, rtt);
	t->delivered_time = now;
	t->first_send_time = p->send_time;
	if (t->c.app_limited && t->c.delivered > t->c.app_limited)
		t->c.app_limited = 0;
	uint64_t interval = max64(sub_sat(p->send_time, p->first_send_time),
				  sub_sat(now, p->delivered_time));
	uint64_t delivered = sub_sat(t->c.delivered, p->delivered);
	return (struct bbr3_sample){
		.now = now,
		.rtt = rtt,
		.delivery_rate =
			interval >= t->min_rtt ? rate_from_volume(delivered, interval) : 0,
		.delivered = delivered,
		.prior_delivered = p->delivered,
		.newly_acked = t->ack.newly_acked,
		.tx_in_flight = p->tx_in_flight,
		.lost = t->c.lost - p->lost,
		.prior_inflight = t->ack.prior_inflight,
		.is_app_limited = p->is_app_limited,
	};
}

void twin_finish(struct twin *t, uint64_t now)
{
	const struct packet *newest = &t->ack.newest;

	t->c.inflight = sub_sat(t->c.inflight, t->ack.left_flight);
	t->c.delivered = add_sat(t->c.delivered, t->ack.newly_acked);
	if (t->c.in_recovery && t->ack.has_newest && sent_after_recovery_start(t, newest)) {
		bbr3_exit_recovery(&t->b, &t->c);
		t->awaits_repair = t->ack.has_lost;
	}
	t->marks += t->ack.ce;
	/* Marks without new data wait for the next sample. */
	t->unanswered_marks += t->ack.ce;
	if (t->ack.has_newest) {
		t->ack.ce = t->unanswered_marks;
		t->unanswered_marks = 0;
	}
	if (!t->ack.has_newest && !t->ack.has_lost)
		return;
	struct bbr3_sample rs = { 0 };
	if (t->ack.has_newest)
		rs = sample(t, now);
	bool has_marks = t->ack.has_newest && t->ack.ce;
	if (t->ack.has_lost || has_marks) {
		/* Marks are those of the newest packet. */
		const struct packet *sent = &t->ack.newest_lost;

		if (!t->ack.has_lost || (has_marks && is_newer(newest, sent)))
			sent = newest;
		if (sent_after_recovery_start(t, sent))
			enter_recovery(t, now);
	}
	if (has_marks)
		bbr3_marks(&t->b, t->ack.ce * t->c.smss,
			   ((t->marks - newest->marks) & MARKS_MASK) * t->c.smss, rs.delivered);
	if (t->ack.has_lost)
		bbr3_congestion(&t->b, &t->c, now);
	if (t->ack.has_newest)
		tell_ack(t, &rs);
}

void twin_app_limited(struct twin *t)
{
	t->awaits_repair = false;
	if (t->c.inflight < t->c.cwnd)
		mark_app_limited(&t->c);
}

void twin_rto(struct twin *t, uint64_t now)
{
	enter_recovery(t, now);
	bbr3_rto(&t->b, &t->c);
}

void twin_spurious_loss(struct twin *t)
{
	bbr3_spurious_loss(&t->b, &t->c);
	t->awaits_repair = false;
}

void twin_discarded(struct twin *t, const struct packet *p)
{
	if (p->path == t->path)
		t->c.inflight = sub_sat(t->c.inflight, p->size);
}

void twin_forget_flight(struct twin *t)
{
	t->path++;
	t->unanswered_marks = 0;
	t->c.inflight = 0;
	t->awaits_repair = false;
}

void twin_smss(struct twin *t, uint64_t smss, uint64_t initial_cwnd)
{
	bbr3_smss(&t->b, &t->c, smss, initial_cwnd);
}

/* In the order of VIEW in model.rs. */
void twin_view(const struct twin *t, uint64_t *out)
{
	const struct bbr3 *b = &t->b;
	const struct bbr3_conn *c = &t->c;
	const uint64_t view[] = {
		c->cwnd, c->pacing_rate, b->state, c->send_quantum, c->inflight, c->delivered,
		c->lost, is_cwnd_limited(t), c->app_limited != 0, c->srtt, t->latest_rtt,
		b->max_bw, b->bw, b->bw_shortterm, b->inflight_shortterm, b->inflight_longterm,
		b->min_rtt, estimated_bdp(b, c), b->extra_acked, b->max_inflight,
		b->pacing_gain * 100 / GAIN_ONE, b->cwnd_gain * 100 / GAIN_ONE,
		b->round_count, b->round_start, b->full_bw_reached, b->full_bw_now, b->full_bw,
		b->full_bw_count, b->idle_restart, b->prev_probe_too_high,
		b->prev_probe_precautionary, b->bw_probe_wait, b->rounds_since_probe_up,
		b->probe_rtt_min_delay,
		b->is_ecn_eligible ? PER_256(b->ecn_alpha) * 100 / GAIN_ONE : INFINITE,
		b->drain_start_round, b->bw_latest, b->inflight_latest, b->bw_probe_up_rounds,
		b->probe_up_acked_per_inc, b->undo_state, b->undo_bw_shortterm,
		b->undo_inflight_shortterm, b->undo_inflight_longterm,
	};

	for (unsigned i = 0; i < sizeof(view) / sizeof(*view); i++)
		out[i] = view[i];
}

/* An ACK of new data without a delivery-rate sample, as TCP reports while a receiver's reneging is repaired. */
void twin_ack_without_sample(struct twin *t, uint64_t now, uint64_t rtt, uint64_t newly_acked)
{
	struct bbr3_sample rs = bbr3_without_sample(now, rtt, newly_acked, t->c.inflight);

	t->c.delivered += newly_acked;
	tell_ack(t, &rs);
}

unsigned long notes_size(void) { return sizeof(struct notes); }

void notes_make(struct notes *n, const struct note *now, uint32_t sent, uint32_t smss)
{
	make_note(n, now, sent, smss);
}

/* The note of a packet, as bbr3.bpf.c looks it up after an ACK; false when there is none any more. */
bool notes_find(struct notes *n, uint32_t end_seq, uint32_t sent_us, bool is_retrans, struct note *found)
{
	uint32_t ago = find_note_of_ack(n, end_seq, sent_us, is_retrans);

	if (!ago)
		return false;
	n->acked = n->made - ago;
	*found = n->note[n->acked & (NOTES - 1)];
	return true;
}

uint32_t notes_flight(const struct note *note, uint32_t end_seq, uint32_t smss)
{
	return flight_of(note, end_seq, smss);
}
