// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * BBRv3 as a congestion control of a stock kernel (BPF struct_ops): what TCP reports, passed on to bbr3.h. build.rs makes two
 * objects of it: bbr3, and with BBR3X bbr3x.
 *
 * TCP keeps the delivery-rate sample, but neither what was in flight nor what was lost when a packet
 * left: notes.h does. losses.h finds the lost packets in TCP's queue. A connection for whose state there
 * is no memory goes on as Reno.
 */
#include "flow.h"
#include "losses.h"
#include "reno.h"
#include "connections.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define MAX_INITIAL_CWND 1024

static __u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static uint64_t now_of(const struct tcp_sock *tp) { return tp->tcp_mstamp * 1000; }

/* Hands window and rate to TCP. Those that the application limits stay under its limits. */
static void set_controls(struct sock *sk, const struct flow *f)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	uint64_t packets = f->conn.cwnd / f->conn.smss;

	tp->snd_cwnd = min64(max64(packets, 1), tp->snd_cwnd_clamp);
	sk->sk_pacing_rate = min64(f->conn.pacing_rate, sk->sk_max_pacing_rate);
}

/* Brings C.delivered and C.inflight up to date. */
static inline void count_packets(struct flow *f, const struct tcp_sock *tp)
{
	__u32 delivered = tp->delivered - f->seen_delivered;

	f->seen_delivered = tp->delivered;
	f->newly_delivered += delivered;
	f->conn.delivered += delivered * f->conn.smss;
	f->conn.inflight = packets_in_flight(tp) * f->conn.smss;
}

/* TCP and who looks at it (ss) take an ssthresh for the end of Startup. Nothing here reads it. */
SELDOM void show_end_of_startup(const struct flow *f, struct tcp_sock *tp)
{
	tp->snd_ssthresh = inflight_at(&f->bbr, &f->conn, f->bbr.max_bw) / f->conn.smss;
}

/* Packets may be sent from now on: new ones, or ones that were lost. */
static void note_flight(struct flow *f, const struct tcp_sock *tp)
{
	struct note now = {
		.seq = tp->snd_nxt,
		.sent_us = tp->tcp_mstamp,
		.in_flight = packets_in_flight(tp),
		.lost = tp->lost,
	};

	make_note(&f->notes, &now, tp->data_segs_out, f->conn.smss);
}

/* Verified by itself: the search is a loop of many branches. */
__noinline __u32 flow_note_of_ack(const struct flow *f, __u32 end_seq, __u32 sent_us, bool is_retrans)
{
	return f ? find_note_of_ack(&f->notes, end_seq, sent_us, is_retrans) : 0;
}

/* The note of the packet that an ACK is about. */
static const struct note *acked_note(struct flow *f, const struct tcp_sock *tp,
				     const struct rate_sample *rs)
{
	__u32 ago = flow_note_of_ack(f, rs->last_end_seq, tp->first_tx_mstamp, rs->is_retrans);

	if (!ago)
		return NULL;
	f->notes.acked = f->notes.made - ago;
	return &f->notes.note[f->notes.acked & (NOTES - 1)];
}

__noinline int flow_ack(struct flow *f, const struct bbr3_sample *rs)
{
	if (f && rs)
		bbr3_ack(&f->bbr, &f->conn, rs);
	return 0;
}

/*
 * The RTT of an ACK. Of packets that were sent twice TCP has none without timestamps: that says nothing, not
 * even that min_rtt still holds.
 */
static uint64_t rtt_of(const struct rate_sample *rs)
{
	return rs->rtt_us >= 0 ? max64(rs->rtt_us * 1000, MIN_RTT_SAMPLE) : INFINITE;
}

/*
 * Reports CE marks. TCP counts what was delivered by ACKs that echo one; without accurate ECN a receiver
 * goes on echoing until it sees the answer, so that a mark stands for the data of a round trip.
 */
SELDOM void report_marks(struct flow *f, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	uint64_t smss = f->conn.smss;

	bbr3_marks(&f->bbr, (__u32)(tp->delivered_ce - f->seen_marks) * smss,
		   rs->delivered_ce * smss, rs->delivered * smss);
	f->seen_marks = tp->delivered_ce;
}

/* TCP's delivery-rate sample, with what was noted when its packet left. */
static inline void take_sample(struct flow *f, const struct tcp_sock *tp, const struct rate_sample *rs,
			       struct bbr3_sample *sample)
{
	uint64_t smss = f->conn.smss;
	const struct note *sent = acked_note(f, tp, rs);

	sample->delivered = rs->delivered * smss;
	/* An interval that is too short to be true has no rate, and begins no round either. */
	if (rs->interval_us > 0) {
		sample->prior_delivered = sub_sat(f->conn.delivered, sample->delivered);
		sample->delivery_rate =
			rate_from_volume(sample->delivered, rs->interval_us * 1000);
	}
	sample->is_app_limited = rs->is_app_limited;
	f->samples++;
	if (!sent) {
		f->samples_without_note++;
		sample->tx_in_flight = sample->prior_inflight;
	} else {
		sample->tx_in_flight = smss * (rs->is_retrans ? sent->in_flight + 1 :
						flight_of(sent, rs->last_end_seq, smss));
		sample->lost = (__u32)(tp->lost - sent->lost) * smss;
	}
	if (tp->delivered_ce != f->seen_marks)
		report_marks(f, tp, rs);
}

/*
 * Reports what an ACK delivered. An RTT with a receiver's delay in it does not take the place of one that
 * has expired. Without a sample of the delivery rate (TCP has none for as long as a receiver
 * has taken back what it had acknowledged selectively) the window grows all the same.
 */
static void report_acked(struct flow *f, struct tcp_sock *tp, const struct rate_sample *rs, __u32 packets)
{
	struct bbr3_conn *c = &f->conn;
	uint64_t rtt = rtt_of(rs);
	struct bbr3_sample sample = bbr3_without_sample(now_of(tp), rtt, packets * c->smss,
							rs->prior_in_flight * c->smss);

	if (rs->delivered >= 0 && rs->prior_mstamp)
		take_sample(f, tp, rs, &sample);
	if (rtt != INFINITE)
		update_srtt(c, rtt);
	if (rs->is_ack_delayed && sample.now > f->bbr.probe_rtt_min_expiry &&
	    rtt >= f->bbr.probe_rtt_min_delay)
		sample.rtt = INFINITE;
	c->app_limited = 0;
	flow_ack(f, &sample);
	if (c->app_limited)
		tp->app_limited = (tp->delivered + packets_in_flight(tp)) ?: 1;
}

/*
 * Reports a loss that a probe repaired (RFC 8985 section 7.4). TCP does not count the packet as lost, and by
 * now it is gone: that it was sent again is known of the probe, which this ACK's sample is about. Of an
 * earlier ACK, whose sample TCP kept for itself, nothing is known.
 */
SELDOM void report_tail_loss(struct flow *f, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	uint64_t size = f->conn.smss;
	struct bbr3_lost_packet lost = {
		.size = size,
		.tx_in_flight = f->bbr.inflight_latest + size,
		.lost_since = size,
		.is_app_limited = rs->is_app_limited,
	};

	f->is_tail_lost = false;
	if (f->cwr_us != (__u32)tp->tcp_mstamp)
		return;
	f->tail_losses++;
	f->conn.lost += size;
	flow_lost(f, &lost);
	flow_congestion(f, now_of(tp));
}

/* Takes a connection over in whatever state it is. NULL without memory for it. */
static struct flow *start(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = create_flow(sk);
	uint64_t seed = (uint64_t)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();

	if (!f)
		return NULL;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	f->initial_packets = min64(max64(tp->snd_cwnd, 1), MAX_INITIAL_CWND);
	f->seen_delivered = tp->delivered;
	f->seen_lost = tp->lost;
	f->seen_marks = tp->delivered_ce;
	f->lost_end_seq = tp->snd_una;
	f->conn.smss = max64(tp->mss_cache, 1);
	f->conn.initial_cwnd = f->initial_packets * f->conn.smss;
	f->conn.max_pacing_rate = sk->sk_max_pacing_rate;
	bbr3_init(&f->bbr, &f->conn, now_of(tp), seed,
		  settings.is_ecn_low_latency && tp->ecn_flags & TCP_ECN_MODE_ANY);
	f->conn.srtt = (uint64_t)(tp->srtt_us >> 3) * 1000;
	/* As with a transport that knows the round trip of its handshake: the first rate is made once. */
	f->bbr.is_rtt_measured = f->conn.srtt != 0;
	if (!IS_AMENDED && tp->rtt_min.s[0].v != ~0u)
		bbr3_take_min_rtt(&f->bbr, now_of(tp),
				  max64(tp->rtt_min.s[0].v * 1000ull, MIN_RTT_SAMPLE));
	init_pacing_rate(&f->conn);
	set_controls(sk, f);
	return f;
}

/* TCP paces by itself, unless a queueing discipline does. */
static void ask_for_pacing(struct sock *sk)
{
	__sync_val_compare_and_swap(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

SEC("struct_ops")
void BPF_PROG(bbr3_start, struct sock *sk)
{
	ask_for_pacing(sk);
	start(sk);
}

SEC("struct_ops")
void BPF_PROG(bbr3_release, struct sock *sk)
{
	delete_flow(sk);
}

/*
 * An ACK of a connection without state. The ACK of its SYN comes before init(), and nothing releases what
 * is made for a connection whose handshake then fails.
 */
SELDOM void go_on_as_reno(struct sock *sk, const struct rate_sample *rs)
{
	if (!BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_initialized))
		return;
	reno_cong_control(sk, rs);
	/* There may be memory by now. */
	start(sk);
}

static void cong_control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (!f) {
		go_on_as_reno(sk, rs);
		return;
	}
	struct bbr3_conn *c = &f->conn;
	if (tp->mss_cache != c->smss && tp->mss_cache)
		bbr3_smss(&f->bbr, c, tp->mss_cache, f->initial_packets * tp->mss_cache);
	/* An application may have set another one since. */
	c->max_pacing_rate = sk->sk_max_pacing_rate;
	/* TCP's bit stands for a whole window after the window was last full (tcp_cwnd_validate()). */
	c->is_cwnd_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	count_packets(f, tp);
	__u32 delivered = f->newly_delivered;
	f->newly_delivered = 0;
	if (tp->lost != f->seen_lost)
		report_losses(f, sk, rs->prior_in_flight * c->smss, MAX_WALK_OF_ACK);
	if (f->is_tail_lost)
		report_tail_loss(f, tp, rs);
	if (delivered)
		report_acked(f, tp, rs, delivered);
	set_controls(sk, f);
	if (f->bbr.full_bw_reached && tp->snd_ssthresh == TCP_INFINITE_SSTHRESH)
		show_end_of_startup(f, tp);
	/* What was lost is sent again now, and min_tso_segs() is not called for it. */
	if (tp->lost_out > tp->retrans_out)
		note_flight(f, tp);
}

SEC("struct_ops")
void BPF_PROG(bbr3_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	cong_control(sk, rs);
}

/* As TCP calls it before Linux 6.10. */
SEC("struct_ops")
void BPF_PROG(bbr3_cong_control_6_9, struct sock *sk, const struct rate_sample *rs)
{
	cong_control(sk, rs);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_min_tso_segs, struct sock *sk)
{
	struct flow *f = flow_of(sk);

	if (f)
		note_flight(f, (struct tcp_sock *)sk);
	return 2;
}

/* The first packet leaves after nothing was in flight. */
static void on_tx_start(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (f && tp->app_limited) {
		bbr3_restart_from_idle(&f->bbr, &f->conn, now_of(tp));
		set_controls(sk, f);
		f->restarts++;
	}
}

SEC("struct_ops")
void BPF_PROG(bbr3_tx_start, struct sock *sk)
{
	on_tx_start(sk);
}

/* As TCP calls it before Linux 7.1. */
SEC("struct_ops")
void BPF_PROG(bbr3_tx_start_7_0, struct sock *sk, int event)
{
	if (event == CA_EVENT_TX_START)
		on_tx_start(sk);
}

/*
 * Reports losses outside of an ACK's cong_control(), where TCP does not say what was in flight before: it is
 * what is in flight still, and what was delivered or marked as lost since.
 */
static void report_losses_now(struct flow *f, struct sock *sk, int max_walk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 gone = tp->lost - f->seen_lost + f->newly_delivered;

	if (tp->lost != f->seen_lost)
		report_losses(f, sk, f->conn.inflight + gone * f->conn.smss, max_walk);
}

/*
 * A retransmission timer expired: TCP has marked what is lost and will send the first of it again. Its window
 * is cut by then; where it is not, the packets were too large for the path (RFC 1191), and only that is new.
 */
static void on_timeout(struct flow *f, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	uint64_t cwnd = f->conn.cwnd;

	bbr3_enter_recovery(&f->bbr, &f->conn);
	report_losses_now(f, sk, MAX_WALK_OF_TIMEOUT);
	bbr3_rto(&f->bbr, &f->conn);
	if (tp->snd_cwnd > packets_in_flight(tp) + 1)
		f->conn.cwnd = cwnd;
	note_flight(f, tp);
}

/*
 * Losses that begin a recovery are reported at once: those that TCP's reordering timer has found are sent
 * again before the next ACK, which then takes them out of the queue. A recovery may follow a timeout, whose
 * window then ends.
 */
static void on_recovery(struct flow *f, struct sock *sk)
{
	if (f->conn.in_recovery)
		bbr3_exit_recovery(&f->bbr, &f->conn);
	bbr3_enter_recovery(&f->bbr, &f->conn);
	report_losses_now(f, sk, MAX_WALK_OF_ACK);
	note_flight(f, (struct tcp_sock *)sk);
}

/*
 * Of a loss that a probe has repaired TCP says no more than this: CWR, and at once what it was before. Marks
 * of ECN keep it in CWR for a round trip.
 */
static bool is_end_of_tail_loss(const struct flow *f, struct sock *sk)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u8 old_state = BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);

	return old_state == TCP_CA_CWR && f->cwr_us == (__u32)tp->tcp_mstamp &&
	       BPF_CORE_READ_BITFIELD(tp, tlp_retrans);
}

SEC("struct_ops")
void BPF_PROG(bbr3_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (!f)
		return;
	count_packets(f, tp);
	if (new_state >= TCP_CA_Recovery && !f->conn.in_recovery)
		f->lost_end_seq = tp->snd_una;
	if (new_state == TCP_CA_CWR)
		f->cwr_us = tp->tcp_mstamp;
	else if (new_state < TCP_CA_CWR && is_end_of_tail_loss(f, sk))
		f->is_tail_lost = true;
	if (new_state == TCP_CA_Loss)
		on_timeout(f, sk);
	else if (new_state == TCP_CA_Recovery)
		on_recovery(f, sk);
	else if (f->conn.in_recovery)
		bbr3_exit_recovery(&f->bbr, &f->conn);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	bbr3_spurious_loss(&f->bbr, &f->conn);
	return max64(f->conn.cwnd / f->conn.smss, tp->snd_cwnd);
}

/* Not used by this algorithm; TCP asks all the same. */
SEC("struct_ops")
__u32 BPF_PROG(bbr3_ssthresh, struct sock *sk)
{
	return flow_of(sk) ? ((struct tcp_sock *)sk)->snd_ssthresh : tcp_reno_ssthresh(sk);
}

/* TCP's own allowance, and one more for what waits for its pacing. */
SEC("struct_ops")
__u32 BPF_PROG(bbr3_sndbuf_expand, struct sock *sk)
{
	return 3;
}

#define OPERATIONS(on_ack, on_start_member, on_start)           \
	{                                                        \
		.name = "bbr3",                                  \
		.flags = TCP_CONG_NON_RESTRICTED,                \
		.init = (void *)bbr3_start,                      \
		.release = (void *)bbr3_release,                 \
		.cong_control = (void *)(on_ack),                \
		.ssthresh = (void *)bbr3_ssthresh,               \
		.undo_cwnd = (void *)bbr3_undo_cwnd,             \
		.on_start_member = (void *)(on_start),           \
		.set_state = (void *)bbr3_set_state,             \
		.min_tso_segs = (void *)bbr3_min_tso_segs,       \
		.sndbuf_expand = (void *)bbr3_sndbuf_expand,     \
	}

/* The loader registers the one that fits the kernel: src/kernel/variant.rs. */
SEC(".struct_ops.link")
struct tcp_congestion_ops bbr3_ops =
	OPERATIONS(bbr3_cong_control, cwnd_event_tx_start, bbr3_tx_start);

SEC(".struct_ops.link")
struct tcp_congestion_ops bbr3_ops_7_0 =
	OPERATIONS(bbr3_cong_control, cwnd_event, bbr3_tx_start_7_0);

SEC(".struct_ops.link")
struct tcp_congestion_ops bbr3_ops_6_9 =
	OPERATIONS(bbr3_cong_control_6_9, cwnd_event, bbr3_tx_start_7_0);
